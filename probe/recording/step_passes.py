"""How many batches and forward passes each step has taken; steps that took more than usual are kept.

A step that a rank leaves out with `continue` makes no record and calls no collective. Its batch was taken all the same.
Counting costs half a microsecond.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable
from types import CodeType, FrameType

from ...storage.code_places import OUR_FILES, is_library
from ...storage.last_words import PassUse

__all__ = ["StepPasses"]

#: Steps with more than usual that are kept, and lines that are counted (our choice).
_MOST_STEPS, _MOST_LINES = 32, 64
#: Steps after which a number is usual, and the share of them that must have it (our choice, as of `insight/hangs`).
_KNOWN, _ALIKE = 5, 0.8

_Line = tuple[str, CodeType | None, int]


class _LineCount:
    """The counts of one line: of its steps by number, and the newest that had more than most."""

    __slots__ = ("count", "recent", "step", "steps")

    def __init__(self) -> None:
        self.step, self.count = -1, 0
        self.steps: Counter[int] = Counter()
        self.recent: deque[tuple[int, int]] = deque(maxlen=_MOST_STEPS)

    def add(self, step: int) -> None:
        if step != self.step:
            self._end()
            self.step, self.count = step, 0
        self.count += 1

    def _end(self) -> None:
        if self.count:
            if self.steps and self.count > self.steps.most_common(1)[0][0]:
                self.recent.append((self.step, self.count))
            self.steps[self.count] += 1

    def use(self, kind: str, file: str, line: int) -> PassUse:
        """Return what is known; the step in progress may be one of more than usual already."""
        usual, often = self.steps.most_common(1)[0] if self.steps else (0, 0)
        steps = self.steps.total()
        usual = usual if steps >= _KNOWN and often >= _ALIKE * steps else 0
        recent = [*self.recent, (self.step, self.count)]
        more = tuple((step, count) for step, count in recent if 0 < usual < count)
        return PassUse(kind, file, line, usual, more)


class StepPasses:
    """The batches and forward passes of one process.

    Args:
        step: Returns the step in progress.
        foreign: How paths of files begin that are not the user's.
    """

    def __init__(self, step: Callable[[], int], foreign: Iterable[str] = ()) -> None:
        self._step, self._foreign = step, (*OUR_FILES, *foreign, "<")
        self._lines: dict[_Line, _LineCount] = {}
        self._is_foreign: dict[CodeType, bool] = {}

    def note(self, kind: str) -> None:
        """Count one more `batch` or `forward` at the user's line."""
        key = (kind, *self._user_line())
        count = self._lines.get(key)
        if count is None:
            if len(self._lines) >= _MOST_LINES:
                return
            count = self._lines[key] = _LineCount()
        count.add(self._step())

    def uses(self) -> tuple[PassUse, ...]:
        """Return what is known of every line that was counted."""
        return tuple(
            count.use(kind, "" if code is None else code.co_filename, line)
            for (kind, code, line), count in tuple(self._lines.items())
        )

    def _user_line(self) -> tuple[CodeType | None, int]:
        """Return code and line of the innermost frame of the user: of a trainer in a library, the one that calls it."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            is_foreign = self._is_foreign.get(code)
            if is_foreign is None:
                name = code.co_filename
                is_foreign = self._is_foreign[code] = name.startswith(self._foreign) or is_library(name)
            if not is_foreign:
                return code, frame.f_lineno or 0
            frame = frame.f_back
        return None, 0
