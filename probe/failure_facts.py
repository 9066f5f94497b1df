"""What a traceback says of the training that it ended: the module that ran, its input, and the user's line.

Nothing is kept or computed before an exception ends the run, and no code of the script is called then: attributes are
read from dictionaries, never through properties.
"""

import linecache
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import prod
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any, Final

from ..storage.code_places import OUR_FILES, is_library
from ..storage.records import Json

__all__ = ["failure_facts"]

#: Characters of a line and of a message, tensors that are described, and the largest whose integers are looked at (our
#: choice: a finding of a few lines; a range in milliseconds).
_LINE, _MESSAGE, _TENSORS, _RANGE = 200, 2000, 6, 10**7
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
#: Literal text, and the names that a statement assigns to.
_TEXT: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_TARGETS: Final = re.compile(r"^[\w., ]+=(?!=)")
#: Where a frame of torch says which part of a step runs.
_PHASES: Final = (
    ("torch/utils/data/", "data"),
    ("torch/autograd/", "backward"),
    ("torch/_tensor.py", "backward"),
    ("torch/optim/", "optimizer"),
    ("torch/nn/modules/loss.py", "loss"),
)
#: The function in which torch calls a module's forward, with its arguments.
_CALL: Final = "_call_impl"


def failure_facts(error: BaseException, modules: Mapping[str, object]) -> tuple[str, dict[str, Json]]:
    """Return the site of the innermost watched module in the traceback, and facts for the event `exception`.

    Args:
        modules: The watched modules by site.
    """
    facts: dict[str, Json] = {"type": type(error).__name__, "message": str(error)[:_MESSAGE]}
    try:
        site, more = _facts(list(walk_tb(error.__traceback__)), error.__traceback__, modules)
    except Exception:  # noqa: BLE001  objects of the script may be anything; the end of the run must be recorded
        return "", facts
    return site, facts | more


def _facts(
    frames: list[tuple[FrameType, int]], trace: TracebackType | None, modules: Mapping[str, object]
) -> tuple[str, dict[str, Json]]:
    facts: dict[str, Json] = {}
    site, module, call = _running(frames, {id(module): site for site, module in modules.items()})
    facts["phase"] = _phase(frames, is_in_model=module is not None)
    if module is not None:
        facts |= _expected(module)
    else:
        module, call = _other_module(frames)
    if module is not None and call is not None:
        inputs: list[Json] = [*islice(_described(call), _TENSORS)]
        facts |= {"module": type(module).__name__, "inputs": inputs}
    at = _users(frames)
    if at is not None:
        frame, line = frames[at]
        code = _statement(trace, at)
        facts |= {"file": frame.f_code.co_filename, "line": line, "code": code, "operands": _operands(code, frame)}
    return site, {name: value for name, value in facts.items() if value not in ("", [])}


def _running(
    frames: Iterable[tuple[FrameType, int]], sites: Mapping[int, str]
) -> tuple[str, Any, Mapping[str, object] | None]:
    """Return the innermost watched module, its site, and the arguments of its call."""
    site, module, call = "", None, None
    for frame, _ in frames:
        owner = frame.f_locals.get("self")
        if id(owner) not in sites:
            continue
        if owner is not module:
            site, module, call = sites[id(owner)], owner, None
        if frame.f_code.co_name == _CALL:
            call = frame.f_locals
    return site, module, call


def _other_module(frames: Iterable[tuple[FrameType, int]]) -> tuple[Any, Mapping[str, object] | None]:
    """Return the innermost module that is called and not watched, as a loss is, and the arguments of its call."""
    found = [frame.f_locals for frame, _ in frames if frame.f_code.co_name == _CALL]
    return (found[-1].get("self"), found[-1]) if found else (None, None)


def _phase(frames: Iterable[tuple[FrameType, int]], *, is_in_model: bool) -> str:
    """Return the part of the step that ran; what runs inside of the model is its forward."""
    for frame, _ in frames:
        name = frame.f_code.co_filename.replace("\\", "/")
        for part, phase in _PHASES:
            if part in name and (phase == "backward" or not is_in_model):
                return phase
    return "forward" if is_in_model else ""


def _described(call: Mapping[str, object]) -> Iterator[str]:
    """Yield a description of each tensor among the arguments of a module's call."""
    arguments, options = call.get("args", ()), call.get("kwargs", {})
    for value in arguments if isinstance(arguments, tuple | list) else ():
        yield from _tensors("", value)
    for name, value in options.items() if isinstance(options, dict) else ():
        yield from _tensors(f"{name} ", value)


def _tensors(name: str, value: object) -> Iterator[str]:
    if hasattr(type(value), "shape") and hasattr(type(value), "dtype"):
        yield f"{name}{_words(value)}"
    elif isinstance(value, list | tuple):
        for part in value[:_TENSORS]:
            yield from _tensors(name, part)
    elif isinstance(value, dict):
        for key, part in islice(value.items(), _TENSORS):
            yield from _tensors(f"{key} ", part)


def _words(tensor: Any) -> str:
    """Return shape and dtype, the device beside the host's, and the range of integers that lie on the host."""
    dtype, device = str(tensor.dtype).rpartition(".")[2], str(getattr(tensor, "device", "cpu"))
    words = f"{tuple(tensor.shape)} {dtype}"
    if device != "cpu":
        return f"{words} on {device}"
    if dtype.startswith(("int", "uint")) and 0 < prod(tensor.shape) <= _RANGE:
        return f"{words} from {int(tensor.min())} to {int(tensor.max())}"
    return words


def _expected(module: Any) -> dict[str, Json]:
    """Return the module's own parameters, and what its settings ask of its input."""
    own = vars(module)
    parameters = own.get("_parameters") or {}
    words: list[Json] = [f"{name} {_words(value)}" for name, value in parameters.items() if value is not None]
    asked = [text.format(own[name]) for name, text in _ASKED if isinstance(own.get(name), int | tuple)]
    if isinstance(count := own.get("num_embeddings"), int):
        asked.append(f"integers from 0 to {count - 1}")
    return {"parameters": words[:_TENSORS], "expects": ", ".join(asked)}


#: What a module's settings ask of its input, by the names that layers give them.
_ASKED: Final = (
    ("in_features", "a last axis of {}"),
    ("in_channels", "{} channels (axis 1)"),
    ("num_features", "{} features (axis 1)"),
    ("normalized_shape", "last axes of {}"),
    ("input_size", "a last axis of {}"),
    ("embed_dim", "a last axis of {}"),
)


def _users(frames: list[tuple[FrameType, int]]) -> int | None:
    """Return the index of the innermost frame of the script; of a library's where none is the script's."""
    names = [frame.f_code.co_filename for frame, _ in frames]
    others = [at for at, name in enumerate(names) if not name.startswith((*OUR_FILES, "<"))]
    own = [at for at in others if not is_library(names[at])]
    return own[-1] if own else others[-1] if others else None


def _statement(trace: TracebackType | None, at: int) -> str:
    """Return the source of the statement that ran in frame `at` of the traceback, on one line."""
    part = next(islice(_parts(trace), at, None))
    code = part.tb_frame.f_code
    positions = next(islice(code.co_positions(), part.tb_lasti // 2, None), (None, None, None, None))
    first, last = positions[0] or part.tb_lineno, positions[1] or part.tb_lineno
    lines = [linecache.getline(code.co_filename, line, part.tb_frame.f_globals) for line in range(first, last + 1)]
    return " ".join(" ".join(lines).split())[:_LINE]


def _parts(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _operands(code: str, frame: FrameType) -> list[Json]:
    """Return the tensors that the statement names."""
    used = _TARGETS.sub("", _TEXT.sub("", code))
    found = ((name, _value(name, frame)) for name in dict.fromkeys(_NAME.findall(used)))
    described = (words for name, value in found for words in _tensors(f"{name} ", value))
    return [*islice(described, _TENSORS)]


def _value(name: str, frame: FrameType) -> object:
    """Return the value of a dotted name in the frame, None where it is not in plain dictionaries."""
    first, *rest = name.split(".")
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for part in rest:
        own = getattr(value, "__dict__", {})
        places = (own, own.get("_parameters") or {}, own.get("_buffers") or {}, own.get("_modules") or {})
        value = next((place[part] for place in places if part in place), None)
    return value
