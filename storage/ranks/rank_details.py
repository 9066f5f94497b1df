"""Which ranks of many are recorded in full: a sample of all, and those that stand out, as long as they do."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..records import Event, StepRecord
from ..run_info import RunState
from ..store import RunWriter
from .rank_stack import RankStack
from .step_rollup import Outlier, outlier_data

_log = logging.getLogger(__name__)
#: Ranks of the sample, outlying ranks recorded at the same time, and in all of a run. Our choice: a page shows as many.
SAMPLE: Final = 8
_AT_ONCE: Final = 16
_IN_ALL: Final = 64
#: Steps for which a rank is recorded after it last stood out. Our choice.
_HOLD: Final = 64
#: The kind of the event that a rank begins to stand out.
OUTLIER: Final = "rank_outlier"


def sample_of(ranks: NDArray[np.int64], count: int = SAMPLE) -> tuple[int, ...]:
    """Return ranks that are evenly spaced, the first and the last among them."""
    at = np.unique(np.linspace(0, len(ranks) - 1, min(count, len(ranks))).round().astype(np.int64))
    return tuple(int(rank) for rank in ranks[at])


class RankDetails:
    """The records of the ranks that are recorded in full.

    At most 16 outlying ranks are recorded at the same time, and 64 in all; of further ones the roll-up has the extremes
    alone.

    Args:
        begin: Returns the writer of a rank; None where the ranks are recorded in full by themselves, so that only the
            events are made.
    """

    def __init__(self, begin: Callable[[int], RunWriter] | None) -> None:
        self._begin = begin
        self._sample: tuple[int, ...] = ()
        self._until: dict[int, int] = {}
        self._known: set[int] = set()
        self._writers: dict[int, RunWriter] = {}
        self._written: dict[int, int] = {}  # the newest step of a recording that another recorder wrote
        self._waiting: dict[int, list[StepRecord]] = {}

    def add(self, stack: RankStack, outliers: Sequence[Outlier]) -> list[Event]:
        """Keep the records of a step; return an event for each rank that begins to stand out."""
        if not self._sample:
            self._sample = sample_of(stack.ranks)
        self._until = {rank: until for rank, until in self._until.items() if until >= stack.step}
        events = [event for outlier in outliers if (event := self._follow(outlier, stack.step)) is not None]
        if self._begin is not None:
            wanted = {*self._sample, *self._until}
            for at in np.flatnonzero(np.isin(stack.ranks, list(wanted))).tolist():
                self._waiting.setdefault(int(stack.ranks[at]), []).append(stack.record_of(at))
        return events

    def _follow(self, outlier: Outlier, step: int) -> Event | None:
        """Record the rank of an outlier for some steps from now on; return an event if it was not recorded yet."""
        rank = outlier.found.rank
        if rank not in self._until:
            is_full = len(self._until) >= _AT_ONCE or (rank not in self._known and len(self._known) >= _IN_ALL)
            if is_full:
                return None
        is_new = rank not in self._until
        self._until[rank] = step + _HOLD
        self._known.add(rank)
        return Event(OUTLIER, step, outlier.site, data=outlier_data(outlier)) if is_new else None

    def write(self) -> None:
        """Write the records that wait, and close the recordings of ranks that do not stand out any more."""
        for rank, records in self._waiting.items():
            writer = self._writer(rank)
            writer.write([record for record in records if record.step > self._written.get(rank, -1)])
            while writer.maintain():
                pass
        self._waiting.clear()
        for rank in [rank for rank in self._writers if rank not in self._until and rank not in self._sample]:
            self._writers.pop(rank).close()

    def _writer(self, rank: int) -> RunWriter:
        if rank not in self._writers:
            assert self._begin is not None, "records wait only where they are to be written"
            self._writers[rank] = self._begin(rank)
            self._written[rank] = self._writers[rank].run.last_step
        return self._writers[rank]

    def close(self, state: RunState, error: str) -> None:
        """Write what waits and close the recordings."""
        self.write()
        for writer in self._writers.values():
            writer.close(state, error)
        self._writers.clear()
