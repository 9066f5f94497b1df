"""Hands records to the writer in bursts, so that fast steps share a transaction.

A transaction of one record costs the writer three times what a record costs in a transaction of sixteen, and on a small
machine the writer's time is the training's. Steps that are slower than the patience are handed over one by one.
"""

import time
from collections.abc import Callable

from ..storage.records import StepRecord

#: How old a record may get before the next one takes it along; our choice, below what a page polls.
PATIENCE_S = 0.25
_MOST = 16


class HandOver:
    """Keeps records for at most sixteen steps or a quarter of a second, whichever comes first.

    Args:
        put: Takes each record, in order.
        capacity: Records that may be on their way in all; no more than a quarter of them is kept here.

    Attributes:
        behind: What is left of the capacity for the queue behind it: a kill loses no more than both together.
    """

    def __init__(
        self, put: Callable[[StepRecord], None], capacity: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._put, self._clock = put, clock
        self._most = min(_MOST, max(capacity // 4, 1))
        self.behind = max(capacity - self._most, 1)
        self._kept: list[StepRecord] = []
        self._handed = clock()

    def add(self, record: StepRecord) -> None:
        """Nothing; the record is handed over now or with a later one."""
        self._kept.append(record)
        if len(self._kept) >= self._most or self._clock() - self._handed >= PATIENCE_S:
            self.flush()

    def flush(self) -> None:
        """Nothing; all records are handed over."""
        kept, self._kept = self._kept, []
        for record in kept:
            self._put(record)
        self._handed = self._clock()
