"""Functions that do not fit into one graph: compiled pieces between instructions that plain Python runs.

    frames -> piece (a compiled function of the tensors in them) -> frames before the next break
           -> that one instruction, on real values -> frames -> the next piece ...

A piece belongs to a point: the code and instruction of every frame. It is compiled by `Compiled`, so it has a table of
specialisations, guards and its place on the tape like any other function. Tensors in variables and stacks are its
arguments; all else is carried along as handles and guarded only if the piece looks at it. Lists and dicts that a piece
makes are made anew by every run of it; once they are real, pieces do not look into them: what is done to them is done
in between, to the object itself.
"""

import logging
from collections.abc import Callable, Iterator
from threading import local
from typing import Any, NamedTuple

from ...context import quiet
from ...random import Key
from ...tensor import Parameter, Tensor
from ..capture import traced_arguments
from ..captured_graph import Captured
from ..guards import is_simple
from ..jit import Compiled
from ..signature import Signature
from ..specialisation import Options
from .bytecode_frame import NULL, UNBOUND, BytecodeFrame
from .bytecode_interpreter import BytecodeCapture, Symbolic
from .concrete import Concrete, GraphBreak, Steps, ValueHandle

__all__ = [
    "ASSIGNING",
    "PATIENCE",
    "Bound",
    "Carried",
    "FixedObject",
    "FramePoint",
    "HandleSlot",
    "Handles",
    "NothingToDo",
    "Piece",
    "Point",
    "RemainingItems",
    "SplitFunction",
    "can_carry",
    "inside",
    "outside",
    "resolved",
]


class HandleSlot(NamedTuple):
    """In the place of a value that is no tensor: which handle it is."""

    number: int


class FixedObject:
    """In the place of an object that a piece found, and that is the same for every run of the piece."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class Bound(NamedTuple):
    """In the place of a method of a tensor, or of a container that a piece made."""

    owner: object
    name: str


class RemainingItems(NamedTuple):
    """In the place of an iterator: what it will still give."""

    items: tuple[object, ...]


class Handles:
    """The handles of the call that the running thread makes."""

    def __init__(self) -> None:
        self._of = local()

    def __getitem__(self, number: int) -> object:
        return self._of.values[number]

    def set(self, values: list[object]) -> None:
        """Use these handles from now on."""
        self._of.values = values


class NothingToDo(Exception):
    """A piece would do nothing, or leaves behind what cannot be carried to the next."""


def _with_parts(whole: tuple[object, ...], parts: list[object]) -> tuple[object, ...]:
    """Return a tuple of the same class that has these parts."""
    make: Callable[..., tuple[object, ...]] = type(whole)
    return make(*parts) if hasattr(whole, "_fields") else tuple(parts)


def outside(value: object, handles: list[object]) -> object:
    """Return what a piece is given for a value: a tensor or key itself, a tuple with such part by part, else a slot."""
    if (isinstance(value, Tensor) and not isinstance(value, Parameter)) or isinstance(value, Key):
        return value
    if isinstance(value, tuple) and any(isinstance(x, Tensor | Key | tuple) for x in value):
        parts = [outside(x, handles) for x in value]
        return _with_parts(value, parts)
    handles.append(value)
    return HandleSlot(len(handles) - 1)


def inside(value: object, handles: Handles) -> object:
    """Return what stands in the frames of a piece for what it was given."""
    if isinstance(value, HandleSlot):
        held = handles[value.number]
        return held if held is NULL or held is UNBOUND else ValueHandle(value.number, held)
    if isinstance(value, tuple):
        parts = [inside(x, handles) for x in value]
        return _with_parts(value, parts)
    return value


class Carried:
    """Values at the end of a piece, as the compiled piece returns them.

    Raises:
        NothingToDo: A list or dict stands in two places, so that copies of it would not be the same.
    """

    def __init__(self, run: Symbolic) -> None:
        self._run = run
        self._seen: set[int] = set()

    def __call__(self, value: Any) -> object:  # of a method its name is read
        """Return the value, or what stands for it."""
        if isinstance(value, ValueHandle):
            return HandleSlot(value.number)
        if (isinstance(value, Tensor | Key) and not isinstance(value, Parameter)) or is_simple(value):
            return value
        if isinstance(value, Steps):
            return RemainingItems(tuple(self(x) for x in value.rest()))
        if isinstance(value, tuple):
            parts = [self(x) for x in value]
            return _with_parts(value, parts)
        if self._run.owns(value) and isinstance(value, list | dict | set):
            return self._container(value)
        owner = getattr(value, "__self__", None)
        if isinstance(owner, Tensor | Key | list | dict) and callable(value):
            return Bound(self(owner), value.__name__)
        if not self._run.is_from_outside(value) or getattr(value, "__defaults__", None):
            raise NothingToDo
        return FixedObject(value)

    def _container(self, value: list[object] | dict[object, object] | set[object]) -> object:
        if id(value) in self._seen or isinstance(value, set):
            raise NothingToDo
        self._seen.add(id(value))
        if isinstance(value, dict):
            return {key: self(x) for key, x in value.items()}
        return [self(x) for x in value]


def resolved(value: object, handles: list[object]) -> object:
    """Return a value that a piece returned, as plain Python knows it."""
    if isinstance(value, HandleSlot):
        return handles[value.number]
    if isinstance(value, FixedObject):
        return value.value
    if isinstance(value, Bound):
        return getattr(resolved(value.owner, handles), value.name)
    if isinstance(value, RemainingItems):
        return iter([resolved(x, handles) for x in value.items])
    if isinstance(value, tuple):
        parts = [resolved(x, handles) for x in value]
        return _with_parts(value, parts)
    if isinstance(value, list):
        return [resolved(x, handles) for x in value]
    if isinstance(value, dict):
        return {key: resolved(x, handles) for key, x in value.items()}
    return value


# Our choice: a piece that needs more graphs than this depends on something new in every call, and is not compiled.
PATIENCE = 8


ASSIGNING = ("STORE_SUBSCR", "STORE_SLICE")


class Point(NamedTuple):
    """Where the frames stand; a piece is compiled for each."""

    places: "tuple[FramePoint, ...]"


class FramePoint:
    """A frame without its values: what a point is made of."""

    __slots__ = ("_cell", "_closure", "_code", "_index", "_key", "_names", "_space", "depth", "variables")

    def __init__(self, frame: BytecodeFrame) -> None:
        self._code, self._index, self._names = frame.code, frame.index, frame.names
        self._space, self._closure, self._cell = frame.globals, frame.closure, frame.cell
        self.variables, self.depth = tuple(frame.variables), len(frame.stack)
        shared = (id(frame.cell), id(frame.globals), *map(id, frame.closure))
        self._key = (frame.code.code, frame.index, self.variables, self.depth, frame.names, shared)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FramePoint) and self._key == other._key

    @property
    def name(self) -> str:
        """Of the function."""
        return self._code.code.co_name

    def frame(self, values: Iterator[object]) -> BytecodeFrame:
        """Return a frame at this place with these values."""
        variables = {name: next(values) for name in self.variables}
        made = BytecodeFrame(self._code, self._space, variables, self._closure, self._cell)
        made.stack = [next(values) for _ in range(self.depth)]
        made.index, made.names = self._index, self._names
        return made


class _Finished(NamedTuple):
    """What a function returned whose last piece has run."""

    value: object


class Piece:
    """The compiled code from one point to the next break, or to the end."""

    def __init__(self, point: Point, options: Options, note: Callable[[BytecodeFrame, GraphBreak], None]) -> None:
        self._point, self._note = point, note
        self._handles = Handles()
        self._is_empty = False
        self.compiled = Compiled(self, capture_mode="piece", options=options, is_dynamic=False, capture=self._capture)
        self.__name__ = self.__qualname__ = point.places[-1].name

    @property
    def is_useful(self) -> bool:
        """Whether it does something, and does not have to be compiled for every call."""
        return not self._is_empty and len(self.compiled.explain()) <= PATIENCE

    def __call__(self, *values: object) -> object:
        """Raise: it was called instead of captured, since a tensor is of a class that intercepts primitives."""
        raise NothingToDo

    def run(self, frames: list[BytecodeFrame]) -> _Finished | list[BytecodeFrame]:
        """Return the result of the function, or the frames before the next break."""
        handles: list[object] = []
        values = tuple(outside(x, handles) for frame in frames for x in (*frame.variables.values(), *frame.stack))
        self._handles.set(handles)
        try:
            outcome = self.compiled(*values)
        except NothingToDo:
            self._is_empty = True
            return frames
        point, given = outcome
        if point is None:
            return _Finished(resolved(given, handles))
        rest = iter(resolved(part, handles) for part in given)
        return [place.frame(rest) for place in point.value.places]

    def _capture(self, fn: Callable[..., object], signature: Signature) -> Captured:
        """Return the graph of this piece; it returns `(None, result)` or `(the next point, values of its frames)`."""
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

    def _course(self, capture: BytecodeCapture, frames: list[BytecodeFrame]) -> object:
        start = [(frame.index, len(frame.stack)) for frame in frames]
        run = Symbolic(capture, frames, self._handles)
        carried = Carried(run)
        try:
            return None, carried(capture.interpret(run))
        except GraphBreak as reason:
            self._note(frames[-1], reason)
            if [(frame.index, len(frame.stack)) for frame in frames] == start:
                raise NothingToDo from None
        if not all(can_carry(frame) for frame in frames):
            raise NothingToDo
        values = tuple(carried(x) for frame in frames for x in (*frame.variables.values(), *frame.stack))
        return FixedObject(Point(tuple(FramePoint(frame) for frame in frames))), values


def can_carry(frame: BytecodeFrame) -> bool:
    """Return whether a frame can be left and entered again.

    Not one that shares variables with inner functions, nor one that assigns items: of a tensor, which is seen through
    its other names and its views, and a piece makes each of those anew.
    """
    return not frame.code.code.co_cellvars and not any(x.name in ASSIGNING for x in frame.code.instructions)


_log = logging.getLogger(__name__)


class SplitFunction:
    """A function that is run as compiled pieces and single instructions.

    Args:
        fn: The function.
        options: For the compiler.
    """

    def __init__(self, fn: Callable[..., object], options: Options) -> None:
        self._fn, self._options = fn, options
        self._pieces: dict[Point, Piece] = {}
        self._breaks: dict[tuple[str, int], str] = {}

    def __call__(self, frame: BytecodeFrame) -> object:
        """Return what the function returns whose first frame this is."""
        frames = [frame]
        with quiet():
            while True:
                piece = self._piece(frames)
                if piece is not None:
                    outcome = piece.run(frames)
                    if isinstance(outcome, _Finished):
                        return outcome.value
                    frames = outcome
                run = Concrete(frames)
                if not run.step():
                    return run.result

    def _piece(self, frames: list[BytecodeFrame]) -> "Piece | None":
        """Return the piece that begins here, None where none is worth it."""
        if not all(can_carry(frame) for frame in frames):
            return None
        point = Point(tuple(FramePoint(frame) for frame in frames))
        piece = self._pieces.get(point)
        if piece is None:
            piece = self._pieces[point] = Piece(point, self._options, self._note)
        return piece if piece.is_useful else None

    def _note(self, frame: BytecodeFrame, reason: GraphBreak) -> None:
        """Note that a piece ended before an instruction of this frame."""
        place = frame.code.code.co_filename, frame.code.instructions[frame.index].line
        if place not in self._breaks:
            self._breaks[place] = str(reason).partition(", which are not known")[0]
            _log.info("plain Python at %s:%d, in '%s': %s", *place, frame.code.code.co_name, self._breaks[place])

    def places(self) -> tuple[str, ...]:
        """List where plain Python runs, and why, in the order in which it was found."""
        return tuple(f"plain Python at {file}:{line}: {reason}" for (file, line), reason in self._breaks.items())

    def count(self) -> int:
        """Return how many graphs there are."""
        return sum(len(piece.compiled.graphs()) for piece in self._pieces.values())
