"""A capture whose frames are interpreted, and the frame that a call begins with."""

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from ...ir import Where
from ...nn.cell import Cell
from ..capture import GraphCapture
from .calls import can_interpret, function_of, is_engine
from .frame import Frame, enter
from .interpreter import Symbolic
from .symbols import Break

__all__ = ["BytecodeCapture", "Unsplittable", "first_frame"]


class Unsplittable(Exception):
    """A function that has to run as plain Python: its instructions are not all known."""


class BytecodeCapture(GraphCapture):
    """A capture that interprets the frames of the user's functions, so that it knows their lines."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.running: list[Symbolic] = []

    def where(self) -> Where:
        """The running cell, and the line of the frame that is interpreted."""
        site = self.cells.site
        if not self.running or not self.running[-1].frames:
            return Where(site)
        frame = self.running[-1].frames[-1]
        return Where(site, frame.code.code.co_filename, frame.line)

    def construct(self, cell: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What a cell computes that another cell, one of the engine, has called."""
        function = function_of(type(cell).construct)
        if function is None or is_engine(function):
            return cell.construct(*inputs, **options)
        if not can_interpret(function.__code__):
            raise Break(f"'{function.__qualname__}' is called by the engine")
        return self.interpret(Symbolic(self, [enter(function, (cell, *inputs), options)]))

    def interpret(self, run: Symbolic) -> Any:
        """The result of the outermost frame.

        Raises:
            Break: The graph ends earlier.
        """
        self.running.append(run)
        try:
            return run.run()
        finally:
            self.running.pop()


def first_frame(fn: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Frame:
    """The frame of a call of a function, method or cell.

    Raises:
        Unsplittable: It is something else, or has instructions that are not known.
        TypeError: The function does not take such arguments.
    """
    cell = fn if isinstance(fn, Cell) else None
    function = function_of(fn if cell is None else type(cell).construct)
    if cell is not None:
        arguments = (cell, *arguments)
    elif isinstance(fn, MethodType):
        arguments = (fn.__self__, *arguments)
    if not isinstance(function, FunctionType) or is_engine(function) or not can_interpret(function.__code__):
        code = getattr(function, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        raise Unsplittable(
            f"'{getattr(function, '__qualname__', fn)}'{place} is run by plain Python as a whole: it is the "
            f"engine's, or has a try or with block, yields, defines a class or calls super"
        )
    return enter(function, arguments, options, cell)
