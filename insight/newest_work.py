"""How long each rank works in the newest steps of a run, beside the others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..storage import Run, RunNotFound, StepRecord, Store
from ..storage.metric_series import metric_name
from ..storage.ranks.rollup_names import rolled
from ..storage.ranks.step_rollup import axis_metric
from ..storage.ranks.topology import RankAxis, Topology
from ..storage.run_info import ALL_RANKS
from .event_fields import number
from .rank_times import WORK, exchanged_times, newest_stacks, with_work

__all__ = ["NewestWork", "newest_work"]

Floats = NDArray[np.float64]
#: Steps that are averaged, so that no chance of one step colours a rank (our choice).
_STEPS = 8


@dataclass(frozen=True, slots=True, eq=False)
class NewestWork:
    """The work of each rank.

    Args:
        step: The newest step.
        work_s: `(ranks,)`, seconds of a step; NaN where that is not known.
        is_own: `(ranks,)`, whether the number is the rank's own; else it is the median of its group.
        usual_s: The median over the ranks.
    """

    step: int
    work_s: Floats
    is_own: NDArray[np.bool_]
    usual_s: float

    @property
    def ratio(self) -> Floats:
        """The work of each rank as a multiple of the median."""
        return self.work_s / self.usual_s if self.usual_s > 0.0 else np.full(len(self.work_s), np.nan)


def newest_work(store: Store, run: Run, topology: Topology) -> NewestWork | None:
    """Return the work of each rank in the newest steps; None where it was not recorded, or for one rank.

    A roll-up has the numbers of those ranks alone that are the first or the last of a group; each other rank has the
    median of its group, by the axis with most groups.
    """
    count = max(topology.ranks, max(run.ranks, default=-1) + 1)
    try:
        rolled_up = list(store.replay(run.id, rank=ALL_RANKS, limit=1))
    except RunNotFound:
        rolled_up = []
    if rolled_up:
        return _of_rollup(rolled_up[-1], topology, count)
    if len(run.ranks) < 2:
        return None
    events = store.events(run.id, rank=run.first_rank, kind="rank_times", limit=_STEPS)
    stacks = [stack for event in events if number(event, "at") > 0 and (stack := exchanged_times(event)) is not None]
    stacks = stacks or list(map(with_work, newest_stacks(store, run, most=_STEPS)))
    stacks = [stack for stack in stacks if WORK in stack.scalars][-_STEPS:]
    if not stacks:
        return None
    table = np.full((len(stacks), count), np.nan)
    for row, stack in zip(table, stacks, strict=True):
        row[stack.ranks] = stack.scalars[WORK]
    is_known = np.isfinite(table).any(axis=0)
    work = np.full(count, np.nan)
    work[is_known] = np.nanmean(table[:, is_known], axis=0)
    return NewestWork(stacks[-1].step, work, is_known, float(np.median(work[is_known])))


def _of_rollup(record: StepRecord, topology: Topology, count: int) -> NewestWork | None:
    usual = record.scalars.get(rolled(WORK, "q50"))
    tables = [(axis, _by_group(record, axis)) for axis in (axis.joined() for axis in topology.axes)]
    known = [(axis, table) for axis, table in tables if table]
    if usual is None or not known:
        return None
    finest, medians = max(known, key=lambda one: len(one[0].names))
    work, is_own = np.full(count, np.nan), np.zeros(count, dtype=np.bool_)
    at = np.flatnonzero(finest.groups[:count] >= 0)
    work[at] = medians["q50"][finest.groups[at]]
    for _, table in known:
        for end in ("min", "max"):
            ranks = np.nan_to_num(table[f"{end}_rank"], nan=-1.0).astype(np.int64)
            is_rank = (ranks >= 0) & (ranks < count)
            work[ranks[is_rank]] = table[end][is_rank]
            is_own[ranks[is_rank]] = True
    return NewestWork(record.step, work, is_own, float(usual))


def _by_group(record: StepRecord, axis: RankAxis) -> dict[str, Floats]:
    """Return the spread of the work within each group of an axis, by part; nothing where the record has none."""
    wanted = {part: axis_metric(axis.name, WORK, part) for part in ("q50", "min", "max", "min_rank", "max_rank")}
    found: dict[str, Floats] = {}
    for block in record.blocks:
        names = [metric_name(block.layout.subject, name) for name in block.layout.statistics]
        for part, metric in wanted.items():
            if metric in names and len(block.values) == len(axis.names):
                found[part] = block.values[:, names.index(metric)].astype(np.float64)
    return found if len(found) == len(wanted) else {}
