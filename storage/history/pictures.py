"""Puts the parts of a picture together: points of several streams into a series, buckets of several into a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..records import Layout
from ..schema.streams import SCALAR, STEP
from ..series import Matrix, Series
from .downsample import select_points

#: Steps, micro-steps, values and times of some points.
Points = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Buckets of consecutive records, `(sites, buckets)` as in `Matrix`; `starts` are their first steps."""

    sites: tuple[str, ...]
    starts: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    non_finite: NDArray[np.int64]
    present: NDArray[np.int64]


def join_series(
    parts: Sequence[Points],
    site: str,
    metric: str,
    rank: int,
    call: int,
    limit: int,
    total: int | None = None,
) -> Series:
    """The series that parts (steps, micro-steps, values, times) make up, thinned to `limit` points.

    Args:
        total: How many points there are, where the parts are thinned already.
    """
    if not parts:
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))]
    steps, micro_steps, values, times = (np.concatenate([part[at] for part in parts]) for at in range(4))
    if len(parts) > 1:
        order = np.lexsort((micro_steps, steps))
        steps, values, times = steps[order], values[order], times[order]
    kept = select_points(values, limit)
    return Series(
        site, metric, steps[kept], values[kept], times[kept], len(values) if total is None else total, rank, call
    )


def every_record(
    sites: tuple[str, ...], steps: NDArray[np.int64], values: NDArray[np.float64], present: NDArray[np.bool_]
) -> Columns:
    """Columns of one record each, from values and presence `(records, sites)`."""
    usable = present & np.isfinite(values)
    low = np.where(usable, values, np.nan).T
    return Columns(sites, steps, low, low, (present & ~usable).T.astype(np.int64), present.T.astype(np.int64))


def join_matrix(parts: Sequence[Columns], metric: str, rank: int, limit: int) -> Matrix:
    """The matrix of several streams: sites one below the other, steps side by side, in at most `limit` columns."""
    sites = tuple(dict.fromkeys(site for part in parts for site in part.sites))
    starts = np.unique(np.concatenate([part.starts for part in parts])) if parts else np.empty(0, np.int64)
    starts = starts[:: max(-(-len(starts) // max(limit, 1)), 1)]
    shape = (len(sites), len(starts))
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    non_finite, present = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    place = {site: at for at, site in enumerate(sites)}
    touched: set[str] = set()
    for part in parts:
        if not len(part.starts):
            continue
        column = np.searchsorted(starts, part.starts, "right") - 1
        begins = np.flatnonzero(np.diff(column, prepend=-1))
        at = _index(np.array([place[site] for site in part.sites]), column[begins])
        least, most = _fold(np.fmin, part.low, begins), _fold(np.fmax, part.high, begins)
        strange, count = _fold(np.add, part.non_finite, begins), _fold(np.add, part.present, begins)
        if touched.isdisjoint(part.sites):  # there is nothing yet to be joined with
            low[at], high[at], non_finite[at], present[at] = least, most, strange, count
        else:
            low[at], high[at] = np.fmin(low[at], least), np.fmax(high[at], most)
            non_finite[at] += strange
            present[at] += count
        touched.update(part.sites)
    return Matrix(metric, sites, starts, low, high, non_finite, present, rank)


def _fold(combine: np.ufunc, values: NDArray[Any], begins: NDArray[np.int64]) -> NDArray[Any]:  # Any: floats or counts
    """`combine.reduceat(values, begins, axis=1)`, many times faster where the groups are equal and small."""
    count = values.shape[1]
    if len(begins) == count:
        return values
    if values.size and not any(values.strides):  # one value that stands for all
        sizes = np.diff(begins, append=count)
        folded_once = values.flat[0] * (sizes if combine is np.add else np.ones_like(sizes))
        return np.broadcast_to(folded_once, (len(values), len(begins)))
    size = int(begins[1] - begins[0]) if len(begins) > 1 else count
    if size > 64 or not np.array_equal(begins, np.arange(0, count, size)):
        folded: NDArray[Any] = combine.reduceat(values, begins, axis=1)
        return folded
    whole = count // size * size
    made = values[:, 0:whole:size]
    for at in range(1, size):
        made = combine(made, values[:, at:whole:size])
    if whole < count:
        made = np.concatenate([made, combine.reduce(values[:, whole:], axis=1)[:, None]], axis=1)
    return made


def _index(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Any:  # Any: slices or arrays, whatever indexes
    """Rows crossed with columns; as slices, which are many times faster, where nothing is skipped."""
    spans = [slice(int(one[0]), int(one[-1]) + 1) if _is_run(one) else None for one in (rows, columns)]
    return tuple(spans) if None not in spans else np.ix_(rows, columns)


def _is_run(numbers: NDArray[np.int64]) -> bool:
    return len(numbers) > 0 and bool((np.diff(numbers) == 1).all())


def first_calls(layout: Layout) -> list[int]:
    """The rows of a layout that are the first call of their site."""
    return [row for row in range(len(layout.sites)) if not layout.calls or layout.calls[row] == 0]


def row_of(layout: Layout, site: str, call: int) -> int | None:
    """The row of a site's call in a layout, None when it has none."""
    for row, known in enumerate(layout.sites):
        if known == site and (layout.calls[row] if layout.calls else 0) == call:
            return row
    return None


def list_metrics(layouts: Sequence[Layout]) -> tuple[str, ...]:
    """All metrics of these layouts, scalars among them, sorted."""
    names: set[str] = set()
    for layout in layouts:
        if layout.subject == SCALAR:
            names.update(f"{SCALAR}/{name}" for name in layout.sites)
        elif layout.subject != STEP:
            names.update(f"{layout.subject}/{statistic}" for statistic in layout.statistics)
    return tuple(sorted(names))
