"""What the instructions of CPython 3.11 do: one handler each, in a table.

A handler gets the interpreter and the frame, whose stack it changes. These are the handlers of 3.11; what 3.12 and 3.13
add and change stands in `newer_instructions`. What is not in the table of a version is not interpreted: a function
that has such an instruction runs as plain Python.

Handlers that touch what lies outside of the function (attributes, globals, calls) ask the interpreter, which guards,
goes into the call, or ends the graph.
"""

import operator
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any, TypeAlias

from .bytecode_frame import NULL, UNBOUND, BytecodeFrame, Instruction, InstructionRunner

__all__ = ["BASE", "Handler", "for_iter", "on", "pop_jump", "variable"]

Handler: TypeAlias = Callable[[InstructionRunner, BytecodeFrame, Instruction], None]
#: The handlers of 3.11.
BASE: dict[str, Handler] = {}


def on(*names: str, table: dict[str, Handler] = BASE) -> Callable[[Handler], Handler]:
    """Return a decorator: the function handles the instructions of these names."""

    def register(handler: Handler) -> Handler:
        for name in names:
            table[name] = handler
        return handler

    return register


@on("RESUME", "NOP", "PRECALL", "COPY_FREE_VARS", "NOT_TAKEN")
def _nothing(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    del run, frame, now


@on("POP_TOP")
def _pop(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.pop()


@on("PUSH_NULL")
def _push_null(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(NULL)


@on("SWAP")
def _swap(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    stack, i = frame.stack, -now.argument
    stack[i], stack[-1] = stack[-1], stack[i]


@on("COPY")
def _copy(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(frame.stack[-now.argument])


@on("LOAD_CONST")
def _load_const(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(now.value)


@on("LOAD_FAST", "LOAD_CLOSURE", "LOAD_FAST_CHECK")
def _load_fast(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(variable(run, frame, now.value))


def variable(run: InstructionRunner, frame: BytecodeFrame, name: str) -> object:
    """Return the value of a local variable, the cell of a shared one."""
    value = frame.variables.get(name, UNBOUND)
    if value is UNBOUND:
        if name in frame.code.code.co_freevars:
            return frame.closure[frame.code.code.co_freevars.index(name)]
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
    return run.read(value)


@on("STORE_FAST")
def _store_fast(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.variables[now.value] = frame.stack.pop()


@on("DELETE_FAST")
def _delete_fast(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    del frame.variables[now.value]


@on("LOAD_GLOBAL")
def _load_global(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    if now.argument & 1:
        frame.stack.append(NULL)
    frame.stack.append(run.read_global(frame, now.value))


@on("MAKE_CELL")
def _make_cell(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    value = frame.variables.get(now.value, UNBOUND)
    frame.variables[now.value] = CellType() if value is UNBOUND else CellType(value)


def _cell(frame: BytecodeFrame, name: str) -> CellType:
    code = frame.code.code
    cell: CellType = frame.closure[code.co_freevars.index(name)] if name in code.co_freevars else frame.variables[name]
    return cell


@on("LOAD_DEREF")
def _load_deref(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(run.read_cell(frame, now.value, _cell(frame, now.value)))


@on("STORE_DEREF")
def _store_deref(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    if now.value in frame.code.code.co_freevars:
        run.change_outside("a variable of an enclosing function")
    _cell(frame, now.value).cell_contents = frame.stack.pop()


@on("MAKE_FUNCTION")
def _make_function(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
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
def _load_attr(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(run.read_attribute(frame.stack.pop(), now.value))


@on("LOAD_METHOD")
def _load_method(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    method = run.read_attribute(frame.stack.pop(), now.value)
    frame.stack += [NULL, method]


@on("STORE_ATTR")
def _store_attr(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    run.change_outside("an attribute")
    owner, value = frame.stack.pop(), frame.stack.pop()
    setattr(owner, now.value, value)


@on("STORE_GLOBAL")
def _store_global(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    run.change_outside("a global")
    frame.globals[now.value] = frame.stack.pop()


@on("BINARY_SUBSCR")
def _subscript(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    owner, key = frame.pop_many(2)
    frame.stack.append(run.read_item(owner, key))


@on("STORE_SUBSCR")
def _store_subscript(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    value, owner, key = frame.pop_many(3)
    run.change(owner)
    owner[key] = value


@on("DELETE_SUBSCR")
def _delete_subscript(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    owner, key = frame.pop_many(2)
    run.change(owner)
    del owner[key]


@on("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_SLICE", "BUILD_STRING")
def _build(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    parts = frame.pop_many(now.argument)
    makers: dict[str, Callable[[list[Any]], object]] = {  # of any values; of words for BUILD_STRING
        "BUILD_TUPLE": tuple, "BUILD_LIST": list, "BUILD_SET": set, "BUILD_SLICE": lambda x: slice(*x),
        "BUILD_STRING": "".join,
    }  # fmt: skip
    frame.stack.append(run.own(makers[now.name](parts)))


@on("BUILD_MAP")
def _build_map(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    parts = frame.pop_many(2 * now.argument)
    frame.stack.append(run.own(dict(zip(parts[::2], parts[1::2], strict=True))))


@on("BUILD_CONST_KEY_MAP")
def _build_const_key_map(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    keys = frame.stack.pop()
    frame.stack.append(run.own(dict(zip(keys, frame.pop_many(now.argument), strict=True))))


@on("LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE")
def _extend(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    more = run.whole(frame.stack.pop())
    target = frame.stack[-now.argument]
    (target.extend if isinstance(target, list) else target.update)(more)


@on("LIST_APPEND", "SET_ADD")
def _append(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    value = frame.stack.pop()
    target = frame.stack[-now.argument]
    (target.append if isinstance(target, list) else target.add)(value)


@on("MAP_ADD")
def _map_add(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    key, value = frame.pop_many(2)
    frame.stack[-now.argument][key] = value


@on("LIST_TO_TUPLE")
def _list_to_tuple(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(run.own(tuple(frame.stack.pop())))


@on("UNPACK_SEQUENCE")
def _unpack(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    parts = list(run.whole(frame.stack.pop()))
    if len(parts) != now.argument:
        raise ValueError(f"expected {now.argument} values to unpack, got {len(parts)}")
    frame.stack += parts[::-1]


@on("UNPACK_EX")
def _unpack_rest(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    parts, before, after = list(run.whole(frame.stack.pop())), now.argument & 255, now.argument >> 8
    if len(parts) < before + after:
        raise ValueError(f"not enough values to unpack: {before + after} or more expected, got {len(parts)}")
    end = len(parts) - after
    frame.stack += [*parts[:before], run.own(parts[before:end]), *parts[end:]][::-1]


@on("FORMAT_VALUE")
def _format(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    spec = frame.stack.pop() if now.argument & 4 else ""
    value = frame.stack.pop()
    change = (None, str, repr, ascii)[now.argument & 3]
    frame.stack.append(run.compute(lambda x: format(change(x) if change else x, spec), value))


_BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip


_COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


_OPERATORS = tuple(_BINARY[symbol] for symbol in ["+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"])
_IN_PLACE: tuple[Callable[[Any, Any], Any], ...] = (
    operator.iadd, operator.iand, operator.ifloordiv, operator.ilshift, operator.imatmul, operator.imul, operator.imod,
    operator.ior, operator.ipow, operator.irshift, operator.isub, operator.itruediv, operator.ixor,
)  # fmt: skip


@on("BINARY_OP")
def _binary(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    a, b = frame.pop_many(2)
    is_in_place, symbol = now.argument >= len(_OPERATORS), now.argument % len(_OPERATORS)
    if is_in_place and run.is_mutable(a):
        run.change(a)
        change: Callable[[Any, Any], Any] = _IN_PLACE[symbol]
        frame.stack.append(change(a, b))
    else:
        frame.stack.append(run.compute(_OPERATORS[symbol], a, b))


@on("COMPARE_OP")
def _compare(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    a, b = frame.pop_many(2)
    symbol, must_be_bool = now.value, False
    if symbol.startswith("bool("):
        symbol, must_be_bool = symbol[5:-1], True
    result = run.compute(_COMPARE[symbol], a, b)
    frame.stack.append(bool(result) if must_be_bool else result)


@on("IS_OP")
def _is(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    a, b = (run.known(x) for x in frame.pop_many(2))
    frame.stack.append((a is b) != bool(now.argument))


@on("CONTAINS_OP")
def _contains(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    a, b = frame.pop_many(2)
    frame.stack.append((run.compute(operator.contains, run.whole(b), a)) != bool(now.argument))


@on("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "UNARY_NOT", "TO_BOOL")
def _unary(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    operators: dict[str, Callable[[Any], object]] = {
        "UNARY_NEGATIVE": operator.neg, "UNARY_POSITIVE": operator.pos, "UNARY_INVERT": operator.invert,
        "UNARY_NOT": operator.not_, "TO_BOOL": operator.truth,
    }  # fmt: skip
    frame.stack.append(run.compute(operators[now.name], frame.stack.pop()))


@on("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.index = now.value


CONDITIONS: dict[str, Callable[[InstructionRunner, object], bool]] = {
    "TRUE": lambda run, x: run.truth(x),
    "FALSE": lambda run, x: not run.truth(x),
    "NONE": lambda run, x: run.known(x) is None,
    "NOT_NONE": lambda run, x: run.known(x) is not None,
}


def pop_jump(test: Callable[[InstructionRunner, object], bool]) -> Handler:
    """Return a handler that jumps where the test holds for the value on top, which it takes off."""

    def handler(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
        if test(run, frame.stack.pop()):
            frame.index = now.value

    return handler


for _word, _test in CONDITIONS.items():
    BASE[f"POP_JUMP_FORWARD_IF_{_word}"] = BASE[f"POP_JUMP_BACKWARD_IF_{_word}"] = pop_jump(_test)


@on("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _jump_or_pop(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    if run.truth(frame.stack[-1]) == (now.name == "JUMP_IF_TRUE_OR_POP"):
        frame.index = now.value
    else:
        frame.stack.pop()


@on("GET_ITER")
def _get_iter(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(run.iterate(frame.stack.pop()))


@on("FOR_ITER")
def for_iter(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    """Push the next value on the stack, or take the iterator off and leave the loop."""
    found, value = run.advance(frame.stack[-1])
    if found:
        frame.stack.append(value)
        return
    frame.stack.pop()
    frame.index = now.value


@on("KW_NAMES")
def _names(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.names = frame.code.code.co_consts[now.argument]


@on("CALL")
def _call(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    arguments = frame.pop_many(now.argument)
    first, second = frame.pop_many(2)
    if first is NULL:
        function = second
    else:
        function, arguments = first, [second, *arguments]
    names, frame.names = frame.names, ()
    place = len(arguments) - len(names)
    run.call(frame, function, tuple(arguments[:place]), dict(zip(names, arguments[place:], strict=True)))


@on("CALL_FUNCTION_EX")
def _call_spread(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    options = dict(frame.stack.pop()) if now.argument & 1 else {}
    arguments = tuple(run.whole(frame.stack.pop()))
    function = frame.stack.pop()
    if frame.stack and frame.stack[-1] is NULL:
        frame.stack.pop()
    run.call(frame, function, arguments, options)


@on("RETURN_VALUE")
def _return(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    run.leave(frame.stack.pop())


@on("LOAD_ASSERTION_ERROR")
def _assertion_error(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(AssertionError)


@on("RAISE_VARARGS")
def _raise(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    run.outside("raise")
    given = frame.pop_many(now.argument)
    if not given:
        raise RuntimeError("no active exception to reraise")
    error: BaseException = given[0]
    raise error from (given[1] if len(given) == 2 else None)


@on("IMPORT_NAME")
def _import(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    run.outside("import")
    level, names = frame.pop_many(2)
    frame.stack.append(__import__(now.value, frame.globals, None, names, level))


@on("IMPORT_FROM")
def _import_from(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(getattr(frame.stack[-1], now.value))
