"""What the page Ranks shows of a run: all of few ranks, and of many the roll-up, a sample and who is named."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...insight.rank_verdict import RankVerdict, rank_verdict
from ...storage import ROOT_SITE, Matrix, Run
from ...storage.ranks.rollup_names import QUANTILES
from ...storage.ranks.rollup_reader import RankSpread, read_rollup, rollup_metrics
from ...storage.ranks.step_rollup import SCALARS_BY_AXIS, axis_metric
from ...storage.ranks.topology import MOST_GROUPS, RankAxis, Topology, read_topology
from ...storage.run_info import ALL_RANKS
from .reader import Reader

#: Ranks of a wide run that are read one by one: those that are named, then a sample. Our choice: a screen has the room.
_ONE_BY_ONE: Final = 16
_COLUMNS: Final = 300


@dataclass(frozen=True, slots=True)
class RankView:
    """A run as the page shows it.

    Args:
        run: With those ranks alone that are read one by one.
        verdict: Who, since when, and what it costs.
        is_wide: Whether it has so many ranks that the roll-up is shown.
        has_rollup: Whether there is one.
    """

    run: Run
    topology: Topology
    verdict: RankVerdict
    is_wide: bool
    has_rollup: bool

    @property
    def count(self) -> int:
        """How many ranks the run has."""
        return max(self.topology.ranks, len(self.run.ranks))

    @property
    def axes(self) -> tuple[RankAxis, ...]:
        """The axes, of at most 64 groups each."""
        return tuple(axis.joined() for axis in self.topology.axes)

    def axis(self, name: str) -> RankAxis | None:
        """Return the axis of that name; of a wide run the first one where there is no such."""
        return next((axis for axis in self.axes if axis.name == name), self.axes[0] if self.is_wide else None)


def rank_view(reader: Reader, run: Run) -> RankView:
    """Return what the page shows of a run."""
    return reader.cached(run.id, "rank-view", lambda _: _view(reader, run))


def _view(reader: Reader, run: Run) -> RankView:
    topology = reader.read(lambda store: read_topology(store, run.id, run.ranks))
    metrics = reader.read(lambda store: rollup_metrics(store, run.id))
    count = max(topology.ranks, len(run.ranks))
    is_wide = count > MOST_GROUPS
    named: RankVerdict
    if is_wide and not metrics:
        words = f"This run has {count:,} ranks and no roll-up: `mindscope rollup {run.id}` makes it"
        named = RankVerdict(words, "quiet")
    else:
        named = reader.read(lambda store: rank_verdict(store, run))
    ranks = _one_by_one(run, named) if is_wide else run.ranks
    return RankView(
        replace(run, ranks=ranks), topology.with_blocks() if is_wide else topology, named, is_wide, bool(metrics)
    )


def _one_by_one(run: Run, verdict: RankVerdict) -> tuple[int, ...]:
    named = {verdict.rank} & set(run.ranks)
    at = np.unique(np.linspace(0, len(run.ranks) - 1, min(_ONE_BY_ONE, len(run.ranks))).round().astype(int))
    sample = [run.ranks[place] for place in at.tolist() if run.ranks[place] not in named]
    return tuple(sorted([*(rank for rank in named if rank is not None), *sample][:_ONE_BY_ONE]))


def wide_metrics(reader: Reader, run: Run) -> tuple[str, ...]:
    """Return the metrics of the roll-up, where time goes first."""
    order = {f"scalar/{name}": at for at, name in enumerate(("work_seconds", "wait_seconds", "step_seconds", "loss"))}
    found = reader.cached(run.id, "rolled-metrics", lambda store: rollup_metrics(store, run.id))
    return tuple(sorted(found, key=lambda name: (order.get(name, 9), not name.startswith("scalar/"), name)))


def wide_sites(reader: Reader, run: Run, metric: str) -> tuple[str, ...]:
    """Return the sites of which the roll-up has the metric."""
    return (ROOT_SITE,) if metric.startswith("scalar/") else reader.sites(run.id, metric, rank=ALL_RANKS)


def rank_spread(reader: Reader, run: Run, metric: str, site: str, limit: int = 2000) -> RankSpread:
    """Return the spread of one metric over the ranks."""
    key = ("spread", metric, site, limit)
    return reader.cached(run.id, key, lambda store: read_rollup(store, run.id, site, metric, limit=limit))


def is_by_axis(metric: str) -> bool:
    """Return whether the roll-up has the metric by the groups of an axis."""
    return metric.startswith("scalar/") and metric.partition("/")[2] in SCALARS_BY_AXIS


def axis_matrix(reader: Reader, run: Run, metric: str, axis: RankAxis) -> Matrix:
    """Return a scalar with a row for each group of ranks: the range over its ranks."""
    name = metric.partition("/")[2]

    def read(part: str) -> Matrix:
        asked = axis_metric(axis.name, name, part)
        return reader.cached(
            run.id,
            ("by-axis", asked),
            lambda store: store.matrix(run.id, asked, rank=ALL_RANKS, limit=_COLUMNS),
        )

    most, least = read("max"), read("min")
    low = least.low if least.low.shape == most.high.shape else most.low
    return replace(most, metric=metric, low=low)


def spread_matrix(spread: RankSpread) -> Matrix:
    """Return a spread with a row for the largest, each quantile and the smallest, over common intervals of steps."""
    names = ("largest", *(f"{int(name[1:])} % of ranks" for name in reversed(QUANTILES)), "smallest")
    rows = np.stack([spread.high, *spread.quantiles.T[::-1], spread.low]) if len(spread.steps) else np.zeros((9, 0))
    starts = np.arange(0, rows.shape[1], max(-(-rows.shape[1] // _COLUMNS), 1))
    strange = np.zeros((len(names), len(starts)), dtype=np.int64)
    if len(starts):
        low, high = np.fmin.reduceat(rows, starts, axis=1), np.fmax.reduceat(rows, starts, axis=1)
        strange[0] = np.add.reduceat(spread.non_finite, starts)
    else:
        low = high = rows
    present = np.ones(low.shape, dtype=np.int64)
    return Matrix(spread.metric, names, spread.steps[starts], low, high, strange, present)


def folded(matrix: Matrix, ranks: Sequence[int], axis: RankAxis) -> Matrix:
    """Return a matrix with a row for every rank with one for every group of them instead."""
    groups = axis.groups[np.array(ranks, dtype=np.int64)]
    known = [group for group in range(len(axis.names)) if (groups == group).any()]

    def fold(values: NDArray[np.float64] | NDArray[np.int64], how: np.ufunc) -> NDArray[np.float64]:
        rows = [how.reduce(values[groups == group], axis=0) for group in known]
        return np.stack(rows).astype(np.float64) if rows else np.zeros((0, values.shape[1]))

    return Matrix(
        matrix.metric,
        tuple(f"{axis.name} {axis.names[group]}" for group in known),
        matrix.steps,
        fold(matrix.low, np.fmin),
        fold(matrix.high, np.fmax),
        fold(matrix.non_finite, np.add).astype(np.int64),
        fold(matrix.present, np.add).astype(np.int64),
    )
