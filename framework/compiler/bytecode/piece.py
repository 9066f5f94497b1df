"""One compiled piece of a function: from a point in its code to the next break or to its end."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...context import quiet
from ..captured import Captured
from ..compiled import Compiled
from ..signature import Signature
from ..specialisation import Options
from ..trace import traced_arguments
from .begin import BytecodeCapture
from .carried import Carried, NothingToDo, inside, outside, resolved
from .frame import Frame
from .interpreter import Symbolic
from .stand_ins import Handles, Made
from .symbols import Break

__all__ = ["ASSIGNING", "PATIENCE", "Piece", "Place", "Point", "can_carry"]


# Our choice: a piece that needs more graphs than this depends on something new in every call, and is not compiled.
PATIENCE = 8


ASSIGNING = ("STORE_SUBSCR", "STORE_SLICE")


class Point(NamedTuple):
    """Where the frames stand; a piece is compiled for each."""

    places: tuple[Any, ...]


class Place:
    """A frame without its values: what a point is made of."""

    __slots__ = ("_cell", "_closure", "_code", "_index", "_key", "_names", "_space", "depth", "variables")

    def __init__(self, frame: Frame) -> None:
        self._code, self._index, self._names = frame.code, frame.index, frame.names
        self._space, self._closure, self._cell = frame.globals, frame.closure, frame.cell
        self.variables, self.depth = tuple(frame.variables), len(frame.stack)
        shared = (id(frame.cell), id(frame.globals), *map(id, frame.closure))
        self._key = (frame.code.code, frame.index, self.variables, self.depth, frame.names, shared)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._key == other._key

    @property
    def name(self) -> str:
        """Of the function."""
        return self._code.code.co_name

    def frame(self, values: Iterator[Any]) -> Frame:
        """A frame at this place with these values."""
        variables = {name: next(values) for name in self.variables}
        made = Frame(self._code, self._space, variables, self._closure, self._cell)
        made.stack = [next(values) for _ in range(self.depth)]
        made.index, made.names = self._index, self._names
        return made


class Piece:
    """The compiled code from one point to the next break, or to the end."""

    def __init__(self, point: Point, options: Options, note: Callable[[Frame, Break], None]) -> None:
        self._point, self._note = point, note
        self._handles = Handles()
        self._is_empty = False
        self.compiled = Compiled(self, capture_mode="piece", options=options, is_dynamic=False, capture=self._capture)
        self.__name__ = self.__qualname__ = point.places[-1].name

    @property
    def is_useful(self) -> bool:
        """Whether it does something, and does not have to be compiled for every call."""
        return not self._is_empty and len(self.compiled.explain()) <= PATIENCE

    def __call__(self, *values: Any) -> Any:
        """Never: it was called instead of captured, since a tensor is of a class that intercepts primitives."""
        raise NothingToDo

    def run(self, frames: list[Frame]) -> tuple[bool, Any]:
        """True and the result of the function, or False and the frames before the next break."""
        handles: list[Any] = []
        values = tuple(outside(x, handles) for frame in frames for x in (*frame.variables.values(), *frame.stack))
        self._handles.set(handles)
        try:
            outcome = self.compiled(*values)
        except NothingToDo:
            self._is_empty = True
            return False, frames
        point, given = outcome
        if point is None:
            return True, resolved(given, handles)
        rest = iter(resolved(part, handles) for part in given)
        return False, [place.frame(rest) for place in point.value.places]

    def _capture(self, fn: Callable[..., Any], signature: Signature) -> Captured:
        """The graph of this piece; it returns `(None, result)` or `(the next point, values of its frames)`."""
        del fn
        capture = BytecodeCapture(self.__name__)
        values, _ = signature.fill(traced_arguments(capture, signature))
        handles = self._handles
        rest = iter([inside(x, handles) for x in values])
        frames = [place.frame(rest) for place in self._point.places]
        with capture.active(), quiet():
            for frame in frames:
                if frame.cell is not None:
                    capture.enter_cell(frame.cell)
            return capture.complete(self._course(capture, frames))

    def _course(self, capture: BytecodeCapture, frames: list[Frame]) -> Any:
        start = [(frame.index, len(frame.stack)) for frame in frames]
        run = Symbolic(capture, frames, self._handles)
        carried = Carried(run)
        try:
            return None, carried(capture.interpret(run))
        except Break as reason:
            self._note(frames[-1], reason)
            if [(frame.index, len(frame.stack)) for frame in frames] == start:
                raise NothingToDo from None
        if not all(can_carry(frame) for frame in frames):
            raise NothingToDo
        values = tuple(carried(x) for frame in frames for x in (*frame.variables.values(), *frame.stack))
        return Made(Point(tuple(Place(frame) for frame in frames))), values


def can_carry(frame: Frame) -> bool:
    """Whether a frame can be left and entered again.

    Not one that shares variables with inner functions, nor one that assigns items: of a tensor, which is seen through
    its other names and its views, and a piece makes each of those anew.
    """
    return not frame.code.code.co_cellvars and not any(x.name in ASSIGNING for x in frame.code.instructions)
