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
from collections.abc import Callable
from typing import Any

from ...context import quiet
from ..specialisation import Options
from .concrete import Concrete
from .frame import Frame
from .piece import Piece, Place, Point, can_carry
from .symbols import Break

__all__ = ["Split"]


_log = logging.getLogger(__name__)


class Split:
    """A function that is run as compiled pieces and single instructions.

    Args:
        fn: The function.
        options: For the compiler.
    """

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        self._fn, self._options = fn, options
        self._pieces: dict[Point, Piece] = {}
        self._breaks: dict[tuple[str, int], str] = {}

    def __call__(self, frame: Frame) -> Any:
        """What the function returns whose first frame this is."""
        frames = [frame]
        with quiet():
            while True:
                piece = self._piece(frames)
                if piece is not None:
                    is_done, result = piece.run(frames)
                    if is_done:
                        return result
                    frames = result
                run = Concrete(frames)
                if not run.step():
                    return run.result

    def _piece(self, frames: list[Frame]) -> "Piece | None":
        """The piece that begins here, None where none is worth it."""
        if not all(can_carry(frame) for frame in frames):
            return None
        point = Point(tuple(Place(frame) for frame in frames))
        piece = self._pieces.get(point)
        if piece is None:
            piece = self._pieces[point] = Piece(point, self._options, self._note)
        return piece if piece.is_useful else None

    def _note(self, frame: Frame, reason: Break) -> None:
        """Nothing; a piece ended before an instruction of this frame."""
        place = frame.code.code.co_filename, frame.code.instructions[frame.index].line
        if place not in self._breaks:
            self._breaks[place] = str(reason).partition(", which are not known")[0]
            _log.info("plain Python at %s:%d, in '%s': %s", *place, frame.code.code.co_name, self._breaks[place])

    def places(self) -> tuple[str, ...]:
        """Where plain Python runs, and why, in the order in which it was found."""
        return tuple(f"plain Python at {file}:{line}: {reason}" for (file, line), reason in self._breaks.items())

    def count(self) -> int:
        """How many graphs there are."""
        return sum(len(piece.compiled.graphs()) for piece in self._pieces.values())
