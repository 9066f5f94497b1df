"""What the maps of the page Ranks are drawn from: rows of ranks, of groups of them, or of their quantiles."""

from dataclasses import dataclass

import numpy as np

from ....insight.rank_times import WORK
from ....storage import Matrix, Run, StepRecord
from ....storage.run_info import ALL_RANKS
from ...figures.series_figure import Line
from ...queries.rank_queries import CollectiveCost, rank_matrix, rank_metrics, rank_series, rank_sites
from ...queries.rank_view import (
    RankView,
    axis_matrix,
    folded,
    is_by_axis,
    rank_spread,
    spread_matrix,
    wide_metrics,
    wide_sites,
)
from ...queries.reader import Reader
from ...queries.step_waits import Floats, Moved, Traffic, traffic

#: The choice of rows that shows every rank.
BY_RANK = "rank"
_PREFERRED = ("communication/wait_seconds", "scalar/step_seconds", "scalar/loss")


@dataclass(frozen=True, slots=True, eq=False)
class RankMap:
    """The map and the lines of a metric.

    Args:
        lines: Of every rank, or of the quantiles over all.
        note: What a reader must know beside them; empty if nothing.
    """

    matrix: Matrix
    lines: tuple[Line, ...]
    note: str


def known_metrics(reader: Reader, view: RankView) -> tuple[str, ...]:
    """Return the metrics that can be chosen, of a wide run those of its roll-up."""
    return wide_metrics(reader, view.run) if view.is_wide else rank_metrics(reader, view.run)


def known_sites(reader: Reader, view: RankView, metric: str) -> tuple[str, ...]:
    """Return the sites that have the metric."""
    return wide_sites(reader, view.run, metric) if view.is_wide else rank_sites(reader, view.run, metric)


def usual_metric(known: tuple[str, ...], view: RankView) -> str:
    """Return the metric that is shown where none was chosen."""
    preferred = (f"scalar/{WORK}", *_PREFERRED) if view.is_wide else _PREFERRED
    return next((name for name in (*preferred, *known) if name in known), "")


def row_choices(view: RankView) -> list[str]:
    """Return what the rows can be."""
    axes = [axis.name for axis in view.axes]
    return axes if view.is_wide else [BY_RANK, *axes]


def rank_map(reader: Reader, view: RankView, metric: str, site: str, rows: str) -> RankMap:
    """Return the map of a metric at a site."""
    return (
        _wide_map(reader, view, metric, site, rows) if view.is_wide else _narrow_map(reader, view, metric, site, rows)
    )


def _narrow_map(reader: Reader, view: RankView, metric: str, site: str, rows: str) -> RankMap:
    series = rank_series(reader, view.run, metric, site)
    matrix = rank_matrix(series, metric)
    axis = None if rows == BY_RANK else view.axis(rows)
    if axis is not None:
        matrix = folded(matrix, tuple(series), axis)
    lines = tuple(
        Line(f"rank {of}", values.steps, values.steps.astype(float), values.values) for of, values in series.items()
    )
    silent = [f"{of}" for of, values in series.items() if not values.total]
    return RankMap(matrix, lines, f"not recorded by rank {', '.join(silent[:12])}" if silent else "")


def _wide_map(reader: Reader, view: RankView, metric: str, site: str, rows: str) -> RankMap:
    spread = rank_spread(reader, view.run, metric, site)
    axis = view.axis(rows)
    by_axis = is_by_axis(metric) and axis is not None
    matrix = axis_matrix(reader, view.run, metric, axis) if by_axis and axis is not None else spread_matrix(spread)
    shown = {"largest": spread.high, "90 %": spread.quantiles[:, -2], "median": spread.median}
    shown |= {"10 %": spread.quantiles[:, 1], "smallest": spread.low}
    lines = tuple(Line(name, spread.steps, spread.steps.astype(float), values) for name, values in shown.items())
    return RankMap(matrix, lines, _who(spread.steps, spread.high, spread.high_rank))


def _who(steps: np.ndarray[tuple[int], np.dtype[np.int64]], high: Floats, ranks: Floats) -> str:
    """Say which rank has the largest value, at the newest step and of all shown."""
    known = np.flatnonzero(np.isfinite(high))
    if not len(known):
        return ""
    top, last = int(known[high[known].argmax()]), int(known[-1])
    return (
        f"largest of all: {high[top]:.4g} at step {int(steps[top]):,}, rank {int(ranks[top])}; "
        f"at step {int(steps[last]):,}: {high[last]:.4g}, rank {int(ranks[last])}"
    )


def rank_traffic(reader: Reader, view: RankView, costs: tuple[CollectiveCost, ...]) -> Traffic | None:
    """Return who gives how much to whom; None where no collective was recorded."""
    if view.is_wide:
        ranks = np.arange(view.topology.ranks)
        moved = {site: Moved(*np.repeat([means], len(ranks), 0).T) for site, means in _means(reader, view.run).items()}
        axis = view.axes[0]
        rows, names = axis.groups, axis.names
    else:
        ranks = np.array(view.run.ranks, dtype=np.int64)
        empty = {cost.site: np.full((2, len(ranks)), np.nan) for cost in costs if not cost.site.endswith("]")}
        for cost in costs:
            if cost.site in empty:
                empty[cost.site][:, view.run.ranks.index(cost.rank)] = cost.moved_bytes, cost.wait_seconds
        moved = {site: Moved(*values) for site, values in empty.items()}
        rows, names = np.arange(len(ranks)), tuple(f"rank {rank}" for rank in view.run.ranks)
    return traffic(moved, rows, names, view.topology, ranks) if moved else None


def _means(reader: Reader, run: Run) -> dict[str, Floats]:
    """Return what a rank hands to each collective in the newest step, and how long it waits: the means over the ranks.

    `(bytes, seconds)` by site.
    """

    def read(records: list[StepRecord]) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for block in (block for record in records for block in record.blocks):
            names = block.layout.statistics
            if block.layout.subject == "communication" and {"bytes.mean", "wait_seconds.mean"} <= set(names):
                values = block.values[:, [names.index("bytes.mean"), names.index("wait_seconds.mean")]]
                for site, row in zip(block.layout.sites, np.nan_to_num(values.astype(np.float64)), strict=True):
                    found[site] = found.get(site, np.zeros(2)) + row
        return {site: means for site, means in found.items() if not site.endswith("]")}

    return reader.cached(run.id, "mean-bytes", lambda store: read(list(store.replay(run.id, rank=ALL_RANKS, limit=1))))
