"""Instructions that move values: the stack, variables, attributes, items."""

from types import CellType, FunctionType
from typing import Any

from ..frame import NULL, UNBOUND, Frame, Instruction
from .table import on

__all__ = ["variable"]


@on("RESUME", "NOP", "PRECALL", "COPY_FREE_VARS", "NOT_TAKEN")
def _nothing(run: Any, frame: Frame, now: Instruction) -> None:
    del run, frame, now


@on("POP_TOP")
def _pop(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.pop()


@on("PUSH_NULL")
def _push_null(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(NULL)


@on("SWAP")
def _swap(run: Any, frame: Frame, now: Instruction) -> None:
    stack, i = frame.stack, -now.argument
    stack[i], stack[-1] = stack[-1], stack[i]


@on("COPY")
def _copy(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(frame.stack[-now.argument])


@on("LOAD_CONST")
def _load_const(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(now.value)


@on("LOAD_FAST", "LOAD_CLOSURE", "LOAD_FAST_CHECK")
def _load_fast(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(variable(run, frame, now.value))


def variable(run: Any, frame: Frame, name: str) -> Any:
    """The value of a local variable, the cell of a shared one."""
    value = frame.variables.get(name, UNBOUND)
    if value is UNBOUND:
        if name in frame.code.code.co_freevars:
            return frame.closure[frame.code.code.co_freevars.index(name)]
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
    return run.read(value)


@on("STORE_FAST")
def _store_fast(run: Any, frame: Frame, now: Instruction) -> None:
    frame.variables[now.value] = frame.stack.pop()


@on("DELETE_FAST")
def _delete_fast(run: Any, frame: Frame, now: Instruction) -> None:
    del frame.variables[now.value]


@on("LOAD_GLOBAL")
def _load_global(run: Any, frame: Frame, now: Instruction) -> None:
    if now.argument & 1:
        frame.stack.append(NULL)
    frame.stack.append(run.read_global(frame, now.value))


@on("MAKE_CELL")
def _make_cell(run: Any, frame: Frame, now: Instruction) -> None:
    value = frame.variables.get(now.value, UNBOUND)
    frame.variables[now.value] = CellType() if value is UNBOUND else CellType(value)


def _cell(frame: Frame, name: str) -> CellType:
    code = frame.code.code
    cell: CellType = frame.closure[code.co_freevars.index(name)] if name in code.co_freevars else frame.variables[name]
    return cell


@on("LOAD_DEREF")
def _load_deref(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(run.read_cell(frame, now.value, _cell(frame, now.value)))


@on("STORE_DEREF")
def _store_deref(run: Any, frame: Frame, now: Instruction) -> None:
    if now.value in frame.code.code.co_freevars:
        run.change_outside("a variable of an enclosing function")
    _cell(frame, now.value).cell_contents = frame.stack.pop()


@on("MAKE_FUNCTION")
def _make_function(run: Any, frame: Frame, now: Instruction) -> None:
    code, flags = frame.stack.pop(), now.argument
    closure = frame.stack.pop() if flags & 8 else ()
    notes = frame.stack.pop() if flags & 4 else None
    keywords = frame.stack.pop() if flags & 2 else None
    defaults = frame.stack.pop() if flags & 1 else None
    made = FunctionType(code, frame.globals, code.co_name, defaults, tuple(closure))
    made.__kwdefaults__ = keywords
    if isinstance(notes, tuple):
        made.__annotations__ = dict(zip(notes[::2], notes[1::2], strict=True))
    frame.stack.append(run.own(made))


@on("LOAD_ATTR")
def _load_attr(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(run.read_attribute(frame.stack.pop(), now.value))


@on("LOAD_METHOD")
def _load_method(run: Any, frame: Frame, now: Instruction) -> None:
    method = run.read_attribute(frame.stack.pop(), now.value)
    frame.stack += [NULL, method]


@on("STORE_ATTR")
def _store_attr(run: Any, frame: Frame, now: Instruction) -> None:
    run.change_outside("an attribute")
    owner, value = frame.stack.pop(), frame.stack.pop()
    setattr(owner, now.value, value)


@on("STORE_GLOBAL")
def _store_global(run: Any, frame: Frame, now: Instruction) -> None:
    run.change_outside("a global")
    frame.globals[now.value] = frame.stack.pop()


@on("BINARY_SUBSCR")
def _subscript(run: Any, frame: Frame, now: Instruction) -> None:
    owner, key = frame.pop_many(2)
    frame.stack.append(run.read_item(owner, key))


@on("STORE_SUBSCR")
def _store_subscript(run: Any, frame: Frame, now: Instruction) -> None:
    value, owner, key = frame.pop_many(3)
    run.change(owner)
    owner[key] = value


@on("DELETE_SUBSCR")
def _delete_subscript(run: Any, frame: Frame, now: Instruction) -> None:
    owner, key = frame.pop_many(2)
    run.change(owner)
    del owner[key]
