"""Instructions that say what comes next: jumps, loops, calls, the end."""

from collections.abc import Callable
from typing import Any

from ..frame import NULL, Frame, Instruction
from .table import BASE, Handler, on

__all__ = ["for_iter", "pop_jump"]


@on("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(run: Any, frame: Frame, now: Instruction) -> None:
    frame.index = now.value


CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "TRUE": lambda run, x: run.truth(x),
    "FALSE": lambda run, x: not run.truth(x),
    "NONE": lambda run, x: run.known(x) is None,
    "NOT_NONE": lambda run, x: run.known(x) is not None,
}


def pop_jump(test: Callable[[Any, Any], bool]) -> Handler:
    """A handler that jumps where the test holds for the value on top, which it takes off."""

    def handler(run: Any, frame: Frame, now: Instruction) -> None:
        if test(run, frame.stack.pop()):
            frame.index = now.value

    return handler


for _word, _test in CONDITIONS.items():
    BASE[f"POP_JUMP_FORWARD_IF_{_word}"] = BASE[f"POP_JUMP_BACKWARD_IF_{_word}"] = pop_jump(_test)


@on("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _jump_or_pop(run: Any, frame: Frame, now: Instruction) -> None:
    if run.truth(frame.stack[-1]) == (now.name == "JUMP_IF_TRUE_OR_POP"):
        frame.index = now.value
    else:
        frame.stack.pop()


@on("GET_ITER")
def _get_iter(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(run.iterate(frame.stack.pop()))


@on("FOR_ITER")
def for_iter(run: Any, frame: Frame, now: Instruction) -> None:
    """Nothing; the next value is on the stack, or the iterator off it and the loop left."""
    found, value = run.advance(frame.stack[-1])
    if found:
        frame.stack.append(value)
        return
    frame.stack.pop()
    frame.index = now.value


@on("KW_NAMES")
def _names(run: Any, frame: Frame, now: Instruction) -> None:
    frame.names = frame.code.code.co_consts[now.argument]


@on("CALL")
def _call(run: Any, frame: Frame, now: Instruction) -> None:
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
def _call_spread(run: Any, frame: Frame, now: Instruction) -> None:
    options = dict(frame.stack.pop()) if now.argument & 1 else {}
    arguments = tuple(run.whole(frame.stack.pop()))
    function = frame.stack.pop()
    if frame.stack and frame.stack[-1] is NULL:
        frame.stack.pop()
    run.call(frame, function, arguments, options)


@on("RETURN_VALUE")
def _return(run: Any, frame: Frame, now: Instruction) -> None:
    run.leave(frame.stack.pop())


@on("LOAD_ASSERTION_ERROR")
def _assertion_error(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(AssertionError)


@on("RAISE_VARARGS")
def _raise(run: Any, frame: Frame, now: Instruction) -> None:
    run.outside("raise")
    given = frame.pop_many(now.argument)
    if not given:
        raise RuntimeError("no active exception to reraise")
    error: BaseException = given[0]
    raise error from (given[1] if len(given) == 2 else None)


@on("IMPORT_NAME")
def _import(run: Any, frame: Frame, now: Instruction) -> None:
    run.outside("import")
    level, names = frame.pop_many(2)
    frame.stack.append(__import__(now.value, frame.globals, None, names, level))


@on("IMPORT_FROM")
def _import_from(run: Any, frame: Frame, now: Instruction) -> None:
    frame.stack.append(getattr(frame.stack[-1], now.value))
