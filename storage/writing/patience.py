"""When the writer takes what waits: in bursts, so that fast steps share a transaction.

A transaction of one record costs the writer three times what a record costs in a transaction of sixteen, and on a small
machine the writer's time is the training's. Steps that are slower than the patience are taken one by one; a training
that pauses leaves nothing waiting for longer either, since it is the writer's thread that looks at its clock. Of steps
at which nothing was recorded only the newest is taken: it tells that the training goes on.
"""

import time
from collections.abc import Callable, Sequence

from ..records import StepRecord
from ..run import Structure
from .backlog import Backlog, Item

#: How long something may wait for others to share its transaction; our choice, below what a page polls.
PATIENCE_S = 0.6
#: The same where steps tell only that the training goes on; our choice.
_QUIET_S = 0.8


class Patience:
    """Knows when something was taken last: what comes after a pause is taken at once.

    Args:
        clock: Seconds, which only grow.
    """

    def __init__(self, backlog: Backlog, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._backlog, self._clock = backlog, clock
        self._taken = clock()

    def is_over(self) -> bool:
        """Whether what waits is to be taken now; False where nothing does."""
        ends = self._backlog.ends()
        if ends is None:
            return False
        is_quiet = all(says_nothing(one) for one in ends)
        return self._clock() - self._taken >= (_QUIET_S if is_quiet else PATIENCE_S)

    def take(self) -> tuple[list[Item], int]:
        """What waits, without records that say nothing and are not the last; and how many these were."""
        items = self._backlog.take()
        if items:
            self._taken = self._clock()
        kept = without_quiet(items)
        return kept, len(items) - len(kept)


def without_quiet(items: Sequence[Item]) -> list[Item]:
    """The items in their order; of records that say nothing only one behind which there is no other record."""
    kept: list[Item] = []
    is_newest = True
    for item in reversed(items):
        if is_newest or not says_nothing(item):
            kept.append(item)
        is_newest = is_newest and isinstance(item, Structure)
    return kept[::-1]


def says_nothing(item: Item) -> bool:
    """Whether it is a record that tells no more than that there was a step."""
    if not isinstance(item, StepRecord):
        return False
    told = item.blocks or item.scalars or item.events or item.histograms
    return not (told or item.skipped or item.micro_step or item.beside)
