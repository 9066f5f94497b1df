"""The capture of a whole function, if nothing in it ends the graph; else what runs it instead."""

from collections.abc import Callable
from functools import partial
from types import FunctionType

import numpy as np

from ...context import quiet
from ...errors import EngineError
from ...nn.cell import Cell
from ..capture import traced_arguments
from ..captured_graph import Apart, Captured
from ..signature import Signature
from .bytecode_interpreter import BytecodeCapture, Symbolic, Unsplittable, first_frame
from .concrete import GraphBreak, is_engine
from .pieces import SplitFunction

__all__ = ["capture_bytecode"]


def capture_bytecode(fn: Callable[..., object], signature: Signature) -> Captured:
    """Return the graph of a function for arguments of this signature.

    Raises:
        Apart: Something in it is no part of a graph: it is to be run in `pieces`, or as plain Python.
    """
    capture = BytecodeCapture(getattr(fn, "__name__", type(fn).__name__))
    arguments, options = signature.fill(traced_arguments(capture, signature))
    with capture.active(), quiet():
        try:
            if isinstance(fn, Cell) and (is_engine(type(fn)) or fn._cell_hooks is not None):
                return capture.complete(fn(*arguments, **options))
            if isinstance(fn, FunctionType) and is_engine(fn):
                return capture.complete(Symbolic(capture, []).interpreted(fn)(*arguments, **options))
            frame = first_frame(fn, arguments, options)
            if frame.cell is not None:
                capture.enter_cell(frame.cell)
            run = Symbolic(capture, [frame])
            output = capture.interpret(run)
            _check(run, output)
            return capture.complete(output)
        except Unsplittable as reason:
            raise Apart(str(reason), lambda options: partial(_plainly, fn)) from reason
        except EngineError as reason:
            raise Apart(str(reason), lambda options: InPieces(fn, SplitFunction(fn, options))) from reason


def _check(run: Symbolic, output: object) -> None:
    """Raise unless every run of a graph can make the result anew.

    Raises:
        GraphBreak: There is an array in it, or a list or dict that was there before.
    """
    if isinstance(output, np.ndarray) or (isinstance(output, list | dict) and not run.owns(output)):
        raise GraphBreak("the function returns an object from outside")
    if isinstance(output, tuple | list | dict):
        for part in output.values() if isinstance(output, dict) else output:
            _check(run, part)


def _plainly(fn: Callable[..., object], arguments: tuple[object, ...], options: dict[str, object]) -> object:
    return fn(*arguments, **options)


class InPieces:
    """Runs a function in pieces.

    Args:
        fn: The function.
        split: Of it.
    """

    def __init__(self, fn: Callable[..., object], split: SplitFunction) -> None:
        self._fn, self.split = fn, split

    def __call__(self, arguments: tuple[object, ...], options: dict[str, object]) -> object:
        """Return what it returns for the arguments and options of a call."""
        try:
            frame = first_frame(self._fn, arguments, options)
        except Unsplittable:
            return self._fn(*arguments, **options)
        return self.split(frame)

    def places(self) -> tuple[str, ...]:
        """List where plain Python runs it, and why."""
        return self.split.places()
