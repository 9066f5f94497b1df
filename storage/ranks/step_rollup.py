"""One step of all ranks as a record: the spread of everything that they recorded, and which of them stand out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..metric_series import ROOT_SITE, metric_name, split_metric
from ..records import Block, Layout, StepRecord
from .rank_stack import RankStack, StackedBlock
from .rollup_names import COUNTS, QUANTILES, RANKS, VALUES, rolled
from .spread import LEVELS, OutlyingRank, Spread, outlying_ranks, spread_of
from .topology import RankAxis

#: The subject of what is kept by the groups of an axis; the axis follows.
BY_AXIS: Final = "ranks"
#: What is kept of the spread within a group of ranks.
_OF_GROUPS: Final = ("min", "max", "mean", "q50", "min_rank", "max_rank", "count", "non_finite")
#: Scalars that are kept by axis as well: where time goes, and the loss.
SCALARS_BY_AXIS: Final = ("step_seconds", "work_seconds", "wait_seconds", "loss")


@dataclass(frozen=True, slots=True)
class Outlier:
    """A rank that stands out at a step, and where it does most."""

    site: str
    metric: str
    found: OutlyingRank


@dataclass(frozen=True, slots=True, eq=False)
class StepRollup:
    """The roll-up of a step.

    Args:
        record: What is stored of it.
        outliers: The farthest first, one for each rank.
    """

    record: StepRecord
    outliers: tuple[Outlier, ...]


def roll_up(stack: RankStack, axes: Sequence[RankAxis] = (), *, most_outliers: int = 16) -> StepRollup:
    """Return the roll-up of one step.

    Args:
        axes: Along which scalars are kept by group as well.
    """
    blocks: list[Block] = []
    found: list[Outlier] = []
    for layout, stacked in stack.blocks.items():
        spread = _spread_of_block(stacked, stack.ranks)
        blocks.append(_block(layout, spread))
        found += _outliers_of_block(layout, stacked, stack.ranks, spread, most_outliers)
    scalars: dict[str, float] = {}
    if stack.scalars:
        names = tuple(stack.scalars)
        values = np.stack([stack.scalars[name] for name in names])
        present = _presence(stack, names)
        spread = spread_of(values, stack.ranks, present)
        table = _table(spread, (*VALUES, *RANKS, *COUNTS))
        for part, row in table.items():
            scalars.update({rolled(name, part): value for name, value in zip(names, row.tolist(), strict=True)})
        outliers = outlying_ranks(values, stack.ranks, spread, most=most_outliers, present=present)
        found += [Outlier(ROOT_SITE, metric_name("scalar", names[one.cell]), one) for one in outliers]
        blocks += [block for axis in axes for block in _by_axis(stack, axis)]
    record = StepRecord(stack.step, stack.time, stack.micro_step, stack.skipped, tuple(blocks), scalars)
    return StepRollup(record, _farthest(found, most_outliers))


def _presence(stack: RankStack, names: Sequence[str]) -> NDArray[np.bool_] | None:
    if not any(name in stack.has_scalar for name in names):
        return None
    everywhere = np.ones(len(stack.ranks), dtype=np.bool_)
    return np.stack([stack.has_scalar.get(name, everywhere) for name in names])


def _spread_of_block(stacked: StackedBlock, ranks: NDArray[np.int64]) -> Spread:
    present = None if stacked.present is None else np.broadcast_to(stacked.present[:, None], stacked.values.shape)
    return spread_of(stacked.values, ranks, present)


def _outliers_of_block(
    layout: Layout, stacked: StackedBlock, ranks: NDArray[np.int64], spread: Spread, most: int
) -> Iterator[Outlier]:
    columns = len(layout.statistics)
    present = None if stacked.present is None else np.repeat(stacked.present, columns, axis=0)
    for one in outlying_ranks(stacked.values, ranks, spread, most=most, present=present):
        row, column = divmod(one.cell, columns)
        yield Outlier(layout.sites[row], metric_name(layout.subject, layout.statistics[column]), one)


def _farthest(found: Iterable[Outlier], most: int) -> tuple[Outlier, ...]:
    by_rank: dict[int, Outlier] = {}
    for outlier in sorted(found, key=lambda one: -one.found.distance):
        by_rank.setdefault(outlier.found.rank, outlier)
    return tuple(by_rank.values())[:most]


def _table(spread: Spread, parts: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the parts of a spread by name, float64 in the shape of its cells; a rank that is none is NaN."""
    made: dict[str, Callable[[], NDArray[Any]]] = {  # Any: floats or counts
        "min": lambda: spread.low,
        "max": lambda: spread.high,
        "mean": lambda: spread.mean,
        "mad": lambda: spread.deviation,
        "min_rank": lambda: spread.low_rank,
        "max_rank": lambda: spread.high_rank,
        "non_finite_rank": lambda: spread.strange_rank,
        "count": lambda: spread.count,
        "non_finite": lambda: spread.non_finite,
    }
    levels = dict(zip(QUANTILES, LEVELS, strict=True))
    table = {}
    for part in parts:
        values = spread.quantile(levels[part]) if part in levels else made[part]()
        table[part] = np.where(values < 0, np.nan, values) if part in RANKS else values.astype(np.float64)
    return table


@lru_cache(maxsize=1024)
def rolled_layout(layout: Layout, parts: tuple[str, ...] = (*VALUES, *RANKS, *COUNTS)) -> Layout:
    """Return the layout of the spread of a layout's statistics; ranks and counts up to 2^24 are exact in float32."""
    statistics = [rolled(statistic, part) for statistic in layout.statistics for part in parts]
    widths = ["float64" if dtype == "uint64" else dtype for dtype in layout.dtypes]
    dtypes = [width if part in VALUES else "float32" for width in widths for part in parts]
    return Layout(layout.subject, layout.sites, tuple(statistics), tuple(dtypes), layout.calls, layout.part)


def _block(layout: Layout, spread: Spread) -> Block:
    parts = (*VALUES, *RANKS, *COUNTS)
    columns = np.stack(list(_table(spread, parts).values()), axis=-1)
    has_any = np.logical_or.reduce(spread.count + spread.non_finite > 0, axis=1)
    return Block(rolled_layout(layout, parts), columns.reshape(len(columns), -1), None if has_any.all() else has_any)


def _by_axis(stack: RankStack, axis: RankAxis) -> Iterator[Block]:
    """Yield for each scalar that is kept by axis the spread within each group."""
    members = _members(axis, stack.ranks)
    is_member = members >= 0
    ranks = np.where(is_member, stack.ranks[members], -1)
    for name in (name for name in SCALARS_BY_AXIS if name in stack.scalars):
        has = stack.has_scalar.get(name)
        present = is_member if has is None else is_member & has[members]
        spread = spread_of(stack.scalars[name][members], ranks, present)
        subject, statistic = split_metric(axis_metric(axis.name, name))
        layout = rolled_layout(Layout(subject, axis.names, (statistic,), ("float32",)), _OF_GROUPS)
        values = np.stack(list(_table(spread, _OF_GROUPS).values()), axis=-1)
        has_any = np.logical_or.reduce(present, axis=1)
        yield Block(layout, values, None if has_any.all() else has_any)


def axis_metric(axis: str, scalar: str, part: str = "") -> str:
    """Return the metric of a scalar by the groups of an axis: `ranks/host/step_seconds.max`."""
    return f"{BY_AXIS}/{axis.replace('/', '-')}/{rolled(scalar, part) if part else scalar}"


def _members(axis: RankAxis, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of each group's ranks, `(groups, most ranks of a group)`, -1 where there is no more."""
    groups = np.where(ranks < len(axis.groups), axis.groups[np.minimum(ranks, len(axis.groups) - 1)], -1)
    sizes = np.bincount(groups[groups >= 0], minlength=len(axis.names))
    order = np.argsort(groups, kind="stable")[int((groups < 0).sum()) :]
    members = np.full((len(axis.names), max(int(sizes.max(initial=0)), 1)), -1, dtype=np.int64)
    row = np.repeat(np.arange(len(axis.names)), sizes)
    members[row, np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = order
    return members


def outlier_data(outlier: Outlier) -> Mapping[str, float | int | str | None]:
    """Return the fields of a `rank_outlier` event."""
    found = outlier.found
    return {
        "rank": found.rank,
        "metric": outlier.metric,
        "value": _json(found.value),
        "median": _json(found.middle),
        "distance": _json(found.distance),
    }


def _json(value: float) -> float | None:
    return value if np.isfinite(value) else None
