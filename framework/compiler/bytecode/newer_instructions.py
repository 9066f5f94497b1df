"""What 3.12 and 3.13 add to the instructions of 3.11 and change in them, after the documentation of `dis`."""

import operator
import sys
from types import CellType, FunctionType

from .bytecode_frame import NULL, UNBOUND, BytecodeFrame, Instruction, InstructionRunner
from .instructions import BASE, CONDITIONS, Handler, for_iter, on, pop_jump, variable

__all__ = ["TABLES", "handlers"]

_312: dict[str, Handler] = {}
_313: dict[str, Handler] = {}

#: The handlers of each version.
TABLES: dict[tuple[int, int], dict[str, Handler]] = {}


def handlers(version: tuple[int, int] = sys.version_info[:2]) -> dict[str, Handler]:
    """Return the handlers by name of instruction; none for a version that is not known."""
    return TABLES.get(version, {})


for _word, _test in CONDITIONS.items():
    _312[f"POP_JUMP_IF_{_word}"] = pop_jump(_test)


@on("FOR_ITER", table=_312)
def _for_iter_312(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    for_iter(run, frame, now)
    code = frame.code.instructions
    if frame.index == now.value and code[frame.index].name == "END_FOR":
        frame.index += 1  # the iterator is off the stack already
        if run.version >= (3, 13):
            frame.index += 1  # a POP_TOP follows there


@on("RETURN_CONST", table=_312)
def _return_const(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    run.leave(now.value)


@on("LOAD_ATTR", table=_312)
def _load_attr_312(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    value = run.read_attribute(frame.stack.pop(), now.value)
    frame.stack += [NULL, value] if now.argument & 1 else [value]


@on("LOAD_FAST_AND_CLEAR", table=_312)
def _load_fast_and_clear(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(frame.variables.pop(now.value, UNBOUND))


@on("STORE_FAST", table=_312)
def _store_fast_312(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    value = frame.stack.pop()
    if value is UNBOUND:
        frame.variables.pop(now.value, None)
    else:
        frame.variables[now.value] = value


@on("BINARY_SLICE", table=_312)
def _binary_slice(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    owner, start, stop = frame.pop_many(3)
    frame.stack.append(run.read_item(owner, slice(start, stop)))


@on("STORE_SLICE", table=_312)
def _store_slice(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    value, owner, start, stop = frame.pop_many(4)
    run.change(owner)
    owner[slice(start, stop)] = value


@on("CALL_INTRINSIC_1", table=_312)
def _intrinsic(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    if now.argument == 5:  # +x
        frame.stack.append(run.compute(operator.pos, frame.stack.pop()))
    elif now.argument == 6:  # list to tuple
        frame.stack.append(run.own(tuple(frame.stack.pop())))
    else:
        run.outside("an intrinsic function")
        raise RuntimeError(f"intrinsic function {now.argument} is not known")


# 3.13: a callable stands below the NULL, keywords on the stack.


@on("LOAD_GLOBAL", table=_313)
def _load_global_313(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack.append(run.read_global(frame, now.value))
    if now.argument & 1:
        frame.stack.append(NULL)


@on("LOAD_ATTR", table=_313)
def _load_attr_313(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    value = run.read_attribute(frame.stack.pop(), now.value)
    frame.stack += [value, NULL] if now.argument & 1 else [value]


@on("CALL", "CALL_KW", table=_313)
def _call_313(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    names = frame.stack.pop() if now.name == "CALL_KW" else ()
    arguments = frame.pop_many(now.argument)
    function, first = frame.pop_many(2)
    if first is not NULL:
        arguments = [first, *arguments]
    place = len(arguments) - len(names)
    run.call(frame, function, tuple(arguments[:place]), dict(zip(names, arguments[place:], strict=True)))


@on("CALL_FUNCTION_EX", table=_313)
def _call_spread_313(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    options = dict(frame.stack.pop()) if now.argument & 1 else {}
    arguments = tuple(run.whole(frame.stack.pop()))
    function, first = frame.pop_many(2)
    run.call(frame, function, arguments if first is NULL else (first, *arguments), options)


@on("LOAD_FAST_LOAD_FAST", table=_313)
def _load_two(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.stack += [variable(run, frame, name) for name in now.value]


@on("STORE_FAST_LOAD_FAST", table=_313)
def _store_and_load(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.variables[now.value[0]] = frame.stack.pop()
    frame.stack.append(variable(run, frame, now.value[1]))


@on("STORE_FAST_STORE_FAST", table=_313)
def _store_two(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    frame.variables[now.value[0]] = frame.stack.pop()
    frame.variables[now.value[1]] = frame.stack.pop()


@on("MAKE_FUNCTION", table=_313)
def _make_function_313(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    code = frame.stack.pop()
    cells = tuple(CellType() for _ in code.co_freevars)
    frame.stack.append(run.own(FunctionType(code, frame.globals, code.co_name, None, cells)))


@on("SET_FUNCTION_ATTRIBUTE", table=_313)
def _function_attribute(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    value, made = frame.pop_many(2)
    code = made.__code__
    defaults = value if now.argument == 1 else made.__defaults__
    closure = tuple(value) if now.argument == 8 else made.__closure__
    again = FunctionType(code, frame.globals, code.co_name, defaults, closure)
    again.__kwdefaults__ = value if now.argument == 2 else made.__kwdefaults__
    frame.stack.append(run.own(again))


@on("FORMAT_SIMPLE", "FORMAT_WITH_SPEC", table=_313)
def _format_313(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    spec = frame.stack.pop() if now.name == "FORMAT_WITH_SPEC" else ""
    frame.stack.append(run.compute(lambda x: format(x, spec), frame.stack.pop()))


@on("CONVERT_VALUE", table=_313)
def _convert(run: InstructionRunner, frame: BytecodeFrame, now: Instruction) -> None:
    change = (str, str, repr, ascii)[now.argument]  # CONVERT_VALUE has no 0
    frame.stack.append(run.compute(change, frame.stack.pop()))


TABLES[3, 11] = BASE
TABLES[3, 12] = {**BASE, **_312}
TABLES[3, 13] = {**TABLES[3, 12], **_313}
