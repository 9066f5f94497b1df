"""The way in: a function and the signature of a call, to the graph for such calls."""

from collections.abc import Callable
from typing import Any

from ...context import quiet
from ...errors import EngineError
from ...nn.cell import Cell
from ..capture import traced_arguments
from ..captured_graph import Captured
from ..signature import Signature
from ..traced import CaptureError, TracedTensor
from .frames import Function, Interpreter
from .outside_reads import OutsideReads, Restart, State
from .source_calls import call, callable_of
from .staging import SourceCapture
from .traced_numbers import Gap, TracedText

__all__ = ["capture_source"]

_STATES = 64  # attributes that may turn out to be state, one at a time


def capture_source(fn: Callable[..., object], signature: Signature) -> Captured:
    """Return the graph of a function, from its source, for arguments of this signature.

    Args:
        fn: A function, a method or a cell whose source is there.
        signature: Of the arguments: tensors become parameters, everything else is known.

    Raises:
        CaptureError: A construct that cannot be part of a graph: file, line, construct, remedy.
    """
    places: dict[tuple[int, str], tuple[Any, str]] = {}
    for _ in range(_STATES):
        try:
            return _attempt(fn, signature, State(places))
        except Restart:
            continue
    raise CaptureError(f"'{fn}' changes more than {_STATES} attributes of objects; keep them in Parameters")


def _attempt(fn: Callable[..., object], signature: Signature, state: State) -> Captured:
    capture = SourceCapture(getattr(fn, "__name__", type(fn).__name__))
    outside = OutsideReads(capture, state)
    interpreter = Interpreter(capture, outside, call, callable_of)
    capture.caller, capture.acquaint = interpreter.call, outside.meet
    traced = traced_arguments(capture, signature)
    capture.recorded = [x for x in traced if isinstance(x, TracedTensor) and x.requires_grad]
    arguments, options = signature.fill(traced)
    with capture.active(), quiet():
        outside.meet(getattr(fn, "__self__", fn), "self" if isinstance(fn, Cell) or hasattr(fn, "__self__") else "fn")
        for number, argument in enumerate((*arguments, *options.values())):
            if not isinstance(argument, list | dict | tuple | set):
                outside.meet(argument, f"argument {number}")
        state.begin(capture)
        try:
            output = interpreter.call(fn, arguments, options)
        except CaptureError as error:
            raise located(error, capture) from error
        _check(output, fn)
        capture.write_back()
        state.finish()
        capture.guards += outside.guards
        outside.is_done = True
        return capture.complete(output)


def located(error: EngineError, capture: SourceCapture) -> EngineError:
    """Return the error; its message names the line that was being interpreted."""
    place = ":".join(map(str, capture.place))
    if capture.place[1] and place not in str(error):
        error.args = (f"{error.args[0]} ({place})", *error.args[1:])
    return error


def _check(output: object, fn: Callable[..., object]) -> None:
    """Raise unless what a compiled function returns exists when it has run."""
    if isinstance(output, dict):
        output = tuple(output.values())
    if isinstance(output, tuple | list):
        for part in output:
            _check(part, fn)
    elif isinstance(output, Function | Gap | TracedText):
        what = "text with traced values in it" if isinstance(output, TracedText) else "a function that it defines"
        raise CaptureError(
            f"'{getattr(fn, '__name__', fn)}' returns {what}; return tensors, and build it from them outside"
        )
