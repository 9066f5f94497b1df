"""Hands records to the writer in bursts, so that fast steps share a transaction.

A transaction of one record costs the writer three times what a record costs in a transaction of sixteen, and on a small
machine the writer's time is the training's. Steps that are slower than the patience are handed over one by one. Of
steps at which nothing was recorded only the newest is handed over: it tells that the training goes on.
"""

import time
from collections.abc import Callable

from ...storage.records import StepRecord

#: How old a record may get before the next one takes it along; our choice, below what a page polls.
PATIENCE_S = 0.25
#: The same where steps tell only that the training goes on; our choice.
_QUIET_S = 1.0
_MOST = 32


class HandOver:
    """Keeps records for at most 32 steps or a quarter of a second, whichever comes first; empty ones for a second.

    Args:
        put: Takes each record, in order.
        capacity: Records that may be on their way in all; no more than half of them is kept here.

    Attributes:
        behind: What is left of the capacity for the queue behind it: a kill loses no more than both together.
    """

    def __init__(
        self, put: Callable[[StepRecord], None], capacity: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._put, self._clock = put, clock
        self._most = min(_MOST, max(capacity // 2, 1))
        self.behind = max(capacity - self._most, 1)
        self._kept: list[StepRecord] = []
        self._handed = clock()

    def add(self, record: StepRecord) -> None:
        """Nothing; the record is handed over now or with a later one."""
        if self._kept and says_nothing(self._kept[-1]):
            self._kept[-1] = record
        else:
            self._kept.append(record)
        patience = _QUIET_S if says_nothing(self._kept[0]) and len(self._kept) == 1 else PATIENCE_S
        if len(self._kept) >= self._most or self._clock() - self._handed >= patience:
            self.flush()

    def flush(self) -> None:
        """Nothing; all records are handed over."""
        kept, self._kept = self._kept, []
        for record in kept:
            self._put(record)
        self._handed = self._clock()


def says_nothing(record: StepRecord) -> bool:
    """Whether the record tells no more than that there was a step."""
    told = record.blocks or record.scalars or record.events or record.histograms
    return not (told or record.skipped or record.micro_step or record.beside)
