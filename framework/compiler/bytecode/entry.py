"""The capture of a whole function, if nothing in it ends the graph; else what runs it instead."""

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from ...context import quiet
from ...errors import EngineError
from ...nn.cell import Cell
from ..captured import Apart, Captured
from ..signature import Signature
from ..trace import traced_arguments
from .begin import BytecodeCapture, Unsplittable, first_frame
from .calls import is_engine
from .interpreter import Symbolic
from .split import Split
from .symbols import Break

__all__ = ["capture_bytecode"]


def capture_bytecode(fn: Callable[..., Any], signature: Signature) -> Captured:
    """The graph of a function for arguments of this signature.

    Raises:
        Apart: Something in it is no part of a graph: it is to be run as `split` does, or as plain Python.
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
            raise Apart(str(reason), lambda options: InPieces(fn, Split(fn, options))) from reason


def _check(run: Symbolic, output: Any) -> None:
    """Nothing, if the result can be made anew by every run of a graph.

    Raises:
        Break: There is an array in it, or a list or dict that was there before.
    """
    if isinstance(output, np.ndarray) or (isinstance(output, list | dict) and not run.owns(output)):
        raise Break("the function returns an object from outside")
    if isinstance(output, tuple | list | dict):
        for part in output.values() if isinstance(output, dict) else output:
            _check(run, part)


def _plainly(fn: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return fn(*arguments, **options)


class InPieces:
    """Runs a function in pieces.

    Args:
        fn: The function.
        split: Of it.
    """

    def __init__(self, fn: Callable[..., Any], split: Split) -> None:
        self._fn, self.split = fn, split

    def __call__(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What it returns for the arguments and options of a call."""
        try:
            frame = first_frame(self._fn, arguments, options)
        except Unsplittable:
            return self._fn(*arguments, **options)
        return self.split(frame)

    def places(self) -> tuple[str, ...]:
        """Where plain Python runs it, and why."""
        return self.split.places()
