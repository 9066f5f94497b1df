"""Instructions that build containers and take them apart."""

from collections.abc import Callable
from typing import Any

from ..frame import Frame, Instruction
from .table import on


@on("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_SLICE", "BUILD_STRING")
def _build(run: Any, frame: Frame, now: Instruction) -> None:
    parts = frame.pop_many(now.argument)
    makers: dict[str, Callable[[list[Any]], Any]] = {
        "BUILD_TUPLE": tuple, "BUILD_LIST": list, "BUILD_SET": set, "BUILD_SLICE": lambda x: slice(*x),
        "BUILD_STRING": "".join,
    }  # fmt: skip
    frame.stack.append(run.own(makers[now.name](parts)))


@on("BUILD_MAP")
def _build_map(run: Any, frame: Frame, now: Instruction) -> None:
    parts = frame.pop_many(2 * now.argument)
    frame.stack.append(run.own(dict(zip(parts[::2], parts[1::2], strict=True))))


@on("BUILD_CONST_KEY_MAP")
def _build_const_key_map(run: Any, frame: Frame, now: Instruction) -> None:
    keys = frame.stack.pop()
    frame.stack.append(run.own(dict(zip(keys, frame.pop_many(now.argument), strict=True))))


@on("LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE")
def _extend(run: Any, frame: Frame, now: Instruction) -> None:
    more = run.whole(frame.stack.pop())
    target = frame.stack[-now.argument]
    (target.extend if isinstance(target, list) else target.update)(more)


@on("LIST_APPEND", "SET_ADD")
def _append(run: Any, frame: Frame, now: Instruction) -> None:
    value = frame.stack.pop()
    target = frame.stack[-now.argument]
    (target.append if isinstance(target, list) else target.add)(value)


@on("MAP_ADD")
def _map_add(run: Any, frame: Frame, now: Instruction) -> None:
    key, value = frame.pop_many(2)
    frame.stack[-now.argument][key] = value


@on("LIST_TO_TUPLE")
def _list_to_tuple(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(run.own(tuple(frame.stack.pop())))


@on("UNPACK_SEQUENCE")
def _unpack(run: Any, frame: Frame, now: Instruction) -> None:
    parts = list(run.whole(frame.stack.pop()))
    if len(parts) != now.argument:
        raise ValueError(f"expected {now.argument} values to unpack, got {len(parts)}")
    frame.stack += parts[::-1]


@on("UNPACK_EX")
def _unpack_rest(run: Any, frame: Frame, now: Instruction) -> None:
    parts, before, after = list(run.whole(frame.stack.pop())), now.argument & 255, now.argument >> 8
    if len(parts) < before + after:
        raise ValueError(f"not enough values to unpack: {before + after} or more expected, got {len(parts)}")
    end = len(parts) - after
    frame.stack += [*parts[:before], run.own(parts[before:end]), *parts[end:]][::-1]


@on("FORMAT_VALUE")
def _format(run: Any, frame: Frame, now: Instruction) -> None:
    spec = frame.stack.pop() if now.argument & 4 else ""
    value = frame.stack.pop()
    change = (None, str, repr, ascii)[now.argument & 3]
    frame.stack.append(run.compute(lambda x: format(change(x) if change else x, spec), value))
