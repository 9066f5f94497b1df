"""The newest collectives of this process, in memory; a wrapper of a framework's collectives fills it.

A call costs some two microseconds: a slot of a ring is replaced by a small list, whose state the end of the call
changes. No tensor, group or handle is kept alive. Only the heartbeat (`probe/heartbeat.py`) turns it into words.
"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from ...storage.code_places import OUR_FILES
from ...storage.last_words import CollectiveCall, SiteUse

__all__ = ["CollectiveRing", "Slot"]

#: Calls that are kept (our choice: several steps of a training with tens of collectives a step).
_CAPACITY: Final = 256
#: Lines that are counted, for each group; a training with more calls collectives from generated code.
_MOST_SITES: Final = 512
#: Names that are counted. Beyond these, as beyond those lines, the older half of those with a tag is forgotten, as tags
#: may be new every step.
_MOST_NAMES: Final = 4096
_TAG: Final = " tag "

#: number, site, sizes, dtype, detail, step, state, began, ended
Slot = list[Any]  # Any: unlike values in one list, which is the cheapest record that Python has
_NUMBER, _SITE, _SIZES, _DTYPE, _DETAIL, _STEP, _STATE, _BEGAN, _ENDED = range(9)
#: operation, group, code, line, calls, first step, last step
_Site = list[Any]  # Any: as above
_Key = TypeVar("_Key")


class CollectiveRing:
    """The collectives of one process.

    Args:
        foreign: How paths of files begin that are not the user's.

    Attributes:
        is_on: Whether calls are noted: while somebody listens.
        step: Returns the step in progress.
        begun, ended: How many calls have begun and ended.
    """

    def __init__(self, foreign: Iterable[str] = ()) -> None:
        self._foreign = (*OUR_FILES, *foreign, "<")
        self._slots: list[Slot | None] = [None] * _CAPACITY
        self._counts: dict[str, int] = {}
        self._sites: dict[tuple[str, str, CodeType | None, int], _Site] = {}
        self._is_foreign: dict[CodeType, bool] = {}
        self._groups: dict[str, tuple[int, ...]] = {}
        self.step: Callable[[], int] = int
        self.begun = self.ended = 0
        self.is_on = False
        self._steps: list[Callable[[], int]] = []

    def switch_on(self, step: Callable[[], int]) -> None:
        """Note calls from now on, with the steps of this listener."""
        self._steps.append(step)
        self.step, self.is_on = step, True

    def switch_off(self, step: Callable[[], int]) -> None:
        """Forget the listener; without any, note no more calls."""
        if step in self._steps:
            self._steps.remove(step)
        self.step, self.is_on = self._steps[-1] if self._steps else int, bool(self._steps)

    def knows(self, group: str) -> bool:
        """Return whether the ranks of the group are known."""
        return group in self._groups

    def learn_group(self, group: str, ranks: tuple[int, ...]) -> None:
        """Note the ranks of a group."""
        self._groups[group] = ranks

    def begin(
        self,
        operation: str,
        group: str,
        sizes: Sequence[Sequence[int]] = (),
        dtype: object = None,
        detail: Sequence[tuple[str, object]] = (),
    ) -> Slot:
        """Note a call that begins, and return its slot for `end`.

        Args:
            group: Its name; of `send` and `recv`, of both ends (`storage/transfers.py`).
            sizes, dtype: Of its tensors.
            detail: Names and values that all ranks must agree on. This and the dtype become text when they are read.
        """
        code, line = self._user_line()
        step = self.step()
        key = (operation, group, code, line)
        site = self._sites.get(key)
        if site is None:
            site = [*key, 0, step, step]
            if len(self._sites) >= _MOST_SITES and _TAG in group:
                _forget_older(self._sites, [known for known in self._sites if _TAG in known[1]])
            if len(self._sites) < _MOST_SITES:
                self._sites[key] = site
        site[4] += 1
        site[6] = step
        number = self._counts.get(group, 0)
        self._counts[group] = number + 1
        if len(self._counts) > _MOST_NAMES:
            _forget_older(self._counts, [name for name in self._counts if _TAG in name])
        slot = [number, site, sizes, dtype, detail, step, "called", time.time(), 0.0]
        self._slots[self.begun % _CAPACITY] = slot
        self.begun += 1
        return slot

    def end(self, slot: Slot, state: str = "completed") -> None:
        """Note what became of the call."""
        slot[_STATE] = state
        slot[_ENDED] = time.time()
        self.ended += 1

    def wait(self, slot: Slot) -> None:
        """Note that a thread waits for the call from now on."""
        if slot[_STATE] == "enqueued":
            slot[_STATE] = "waiting"
            slot[_ENDED] = 0.0

    def calls(self, most: int = _CAPACITY) -> tuple[CollectiveCall, ...]:
        """Return the newest calls, oldest first, and every older one that a thread is still inside of."""
        at = self.begun
        ordered = [self._slots[(at + index) % _CAPACITY] for index in range(_CAPACITY)]
        slots = [slot for slot in ordered if slot is not None]
        older = [slot for slot in slots[:-most] if slot[_STATE] in ("called", "waiting")]
        return tuple(map(_call, (*older, *slots[-most:])))

    @property
    def is_open(self) -> bool:
        """Whether a thread is inside of one of the newest calls."""
        return any(slot is not None and slot[_STATE] in ("called", "waiting") for slot in self._slots)

    def sites(self) -> tuple[SiteUse, ...]:
        """Return the lines that have called collectives."""
        sites = tuple(self._sites.values())
        return tuple(
            SiteUse(operation, group, _file(code), line, calls, first, last)
            for operation, group, code, line, calls, first, last in sites
        )

    def groups(self) -> dict[str, tuple[int, ...]]:
        """Return the ranks of every group."""
        return dict(self._groups)

    def _user_line(self) -> tuple[CodeType | None, int]:
        """Return code and line of the innermost frame of the user."""
        frame: FrameType | None = sys._getframe(2)
        known = self._is_foreign
        while frame is not None:
            code = frame.f_code
            is_foreign = known.get(code)
            if is_foreign is None:
                is_foreign = known[code] = code.co_filename.startswith(self._foreign)
            if not is_foreign:
                return code, frame.f_lineno or 0
            frame = frame.f_back
        return None, 0


def _forget_older(known: dict[_Key, Any], tagged: Sequence[_Key]) -> None:
    """Forget the older half of these keys; they are ordered by age."""
    for key in tagged[: max(len(tagged) // 2, 1)]:
        del known[key]


def _call(slot: Slot) -> CollectiveCall:
    number, site, sizes, dtype, detail, step, state, began, ended = slot
    return CollectiveCall(
        number=number,
        operation=site[0],
        group=site[1],
        state=state,
        sizes=tuple(tuple(map(int, shape)) for shape in sizes[:8]),
        dtype="" if dtype is None else str(dtype).removeprefix("torch."),
        detail=", ".join(f"{name}={value}" for name, value in detail),
        file=_file(site[2]),
        line=site[3],
        step=step,
        began_at=began,
        ended_at=ended,
    )


def _file(code: CodeType | None) -> str:
    return "" if code is None else code.co_filename
