"""Collects the records of thousands of ranks, and stores of each step what all ranks together show.

A *roll-up* is the recording of rank `ALL_RANKS` of a run: of each quantity, site and step its smallest and largest
value over the ranks, which rank has it, the mean, quantiles and counts (`rollup_names.py`). It is a recording like any
other, so that checksums, compaction, coarser tiers, retention and `verify` are those of the store. Some ranks are
recorded in full beside it (`rank_details.py`).

    stacker   records of ranks at one step, side by side in arrays (`rank_stack.py`)
    spread    extremes, mean and quantiles over ranks; spreads of parts merge (`spread.py`)
    roll-up   the spread of everything at a step as one record (`step_rollup.py`)
    recorder  this file: which steps are whole, and writing

A collector calls `add` with each record that it receives, and `tick` from time to time. Collectors that form a tree
send spreads upwards and merge them with `merge_spreads`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..errors import RunNotFound
from ..records import Event, Json, StepRecord
from ..run_info import ALL_RANKS, RunState
from ..store import RunWriter, Store
from .rank_details import RankDetails
from .rank_stack import RankStack, RankStacker
from .step_rollup import roll_up
from .topology import HOST, Topology

#: Steps that are written together, and seconds after which fewer are. Our choice: a page looks every 2 s.
_TOGETHER: Final = 32
_SOON_S: Final = 0.4
_Key = tuple[int, int]


def newest_rolled(store: Store, run: str) -> tuple[int, int]:
    """Return step and micro-step of the newest record of a roll-up; (-1, 0) without one."""
    try:
        newest = list(store.replay(run, rank=ALL_RANKS, limit=1))
    except RunNotFound:
        return -1, 0
    return (newest[0].step, newest[0].micro_step) if newest else (-1, 0)


@dataclass(frozen=True, slots=True)
class RollupOptions:
    """How a run is rolled up.

    Args:
        patience_s: Seconds after which a step is rolled up without the ranks that are missing.
        has_details: Whether the sample and the outlying ranks are to be written; not where each rank records itself.
        framework: Of the run.
        derive: Returns a step with further scalars, computed from those of all ranks.
    """

    patience_s: float = 2.0
    has_details: bool = True
    framework: str = ""
    derive: Callable[[RankStack], RankStack] | None = None


@dataclass(slots=True)
class _Waiting:
    """A step of which records are missing."""

    since: float
    records: dict[int, StepRecord] = field(default_factory=dict)


class RollupRecorder:
    """Writes the roll-up of a run; used by one thread.

    Args:
        run: The id of the run; a run that is not there begins.
        name: Of the run.
        topology: How many ranks there are, and the axes along which they are divided.
        clock: Returns seconds.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        name: str,
        topology: Topology,
        options: RollupOptions | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._run, self._name = store, run, name
        self._topology, self._options, self._clock = topology.with_blocks(), options or RollupOptions(), clock
        self._axes = tuple(axis.joined() for axis in self._topology.axes)
        self._details = RankDetails(self._begin if self._options.has_details else None)
        self._stacker = RankStacker()
        self._waiting: dict[_Key, _Waiting] = {}
        self._rolled: list[StepRecord] = []
        self._events: list[Event] = []
        self._writer: RunWriter | None = None
        self._last = newest_rolled(store, run)
        self._written_at = clock()
        self.late = 0

    @property
    def last_step(self) -> int:
        """The newest step that was rolled up, -1 before the first."""
        return self._last[0]

    def add(self, rank: int, record: StepRecord) -> None:
        """Take the record of one rank; its step is rolled up when all ranks have come.

        A record of a step that is rolled up already is counted in `late` and left out.
        """
        key = int(record.step), int(record.micro_step)
        if key <= self._last:
            self.late += 1
            return
        waiting = self._waiting.setdefault(key, _Waiting(self._clock()))
        waiting.records[rank] = record
        if len(waiting.records) >= self._topology.ranks and key == min(self._waiting):
            self._finish(lambda _, step: len(step.records) >= self._topology.ranks)

    def add_step(self, stack: RankStack) -> None:
        """Take the records of a step of all ranks at once, in the order of the steps."""
        stack = stack if self._options.derive is None else self._options.derive(stack)
        found = roll_up(stack, self._axes)
        self._rolled.append(found.record)
        self._events += self._details.add(stack, found.outliers)
        self._last = stack.step, stack.micro_step
        if len(self._rolled) >= _TOGETHER or self._clock() - self._written_at >= _SOON_S:
            self.flush()

    def tick(self) -> None:
        """Roll up the steps that have waited long enough, and write; to be called several times a second."""
        now = self._clock()
        self._finish(lambda _, step: now - step.since >= self._options.patience_s)
        if self._rolled and now - self._written_at >= _SOON_S:
            self.flush()

    def _finish(self, is_done: Callable[[_Key, _Waiting], bool]) -> None:
        """Roll up waiting steps in their order, up to the last that is done."""
        done = [key for key, step in self._waiting.items() if is_done(key, step)]
        for key in sorted(key for key in self._waiting if done and key <= max(done)):
            self.add_step(self._stacker.stack(self._waiting.pop(key).records))

    def finish(self) -> None:
        """Roll up every step that is there: no more records of them will come."""
        self._finish(lambda _, __: True)

    def flush(self) -> None:
        """Write what was rolled up."""
        self._written_at = self._clock()
        self._details.write()
        writer = self._open()
        if self._rolled:
            writer.write(self._rolled)
            self._rolled = []
        if self._events:
            writer.write_events(self._events)
            self._events = []
        while writer.maintain():
            pass

    def close(self, state: RunState = "finished", error: str = "") -> None:
        """Roll up and write everything that is there, and end the recordings."""
        self.finish()
        self.flush()
        if self.late:
            self._open().write_events([Event("rank_records_late", self.last_step, data={"count": self.late})])
        self._details.close(state, error)
        self._open().close(state, error)

    def _open(self) -> RunWriter:
        """Return the writer of the roll-up; the first rank is there before it, so that the run has one."""
        if self._writer is None:
            self._writer = self._begin(ALL_RANKS)
            if self._topology.ranks and self._writer.run.last_step < 0:
                self._writer.write_events([self._topology.event()])
        return self._writer

    def _begin(self, rank: int) -> RunWriter:
        host: Mapping[str, Json] = {"ranks": self._topology.ranks}
        axis = self._topology.axis(HOST)
        if axis is not None and 0 <= rank < len(axis.groups) and axis.groups[rank] >= 0:
            host = {**host, "node": axis.names[axis.groups[rank]]}
        return self._store.begin_run(
            self._name, run_id=self._run, rank=rank, framework=self._options.framework, host=host
        )
