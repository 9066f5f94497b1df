"""Answers bounded queries: one series or one matrix, from the tier that has just enough points."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection
from tsdownsample import MinMaxDownsampler

from ..damage import Damage, note_damage
from ..metric_series import ROOT_SITE, Matrix, Series, split_metric
from ..records import Layout
from ..schema.row_statements import SCALAR, STEP, StoredStream, read_streams
from .archive_chunks import ArchiveRegion, choose_tier, read_hot, read_region, read_strange, segments
from .buckets import Buckets
from .timeline import FIRST, LAST, Timeline, check_extent, read_timeline


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """The request for one series.

    Args:
        call: Which call of the site in a step, 0 for the first.
        steps: The first and the last step, both included.
        limit: Most points of the answer.
    """

    site: str
    metric: str
    rank: int = 0
    call: int = 0
    steps: tuple[int, int] = (FIRST, LAST)
    limit: int = 2000


@dataclass(frozen=True, slots=True)
class MatrixQuery:
    """The request for one metric over all sites; `limit` is the most columns of the answer."""

    metric: str
    rank: int = 0
    steps: tuple[int, int] = (FIRST, LAST)
    limit: int = 500


def select_points(values: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return ascending indices of at most `limit` values to draw.

    Every non-finite value is among them (where they alone exceed half of the limit, evenly spaced ones, the first and
    the last included), and the minimum and maximum of each bucket of the finite ones, so the extremes of the whole too.
    The first and the last value are there as well, from a limit of 4 on.
    """
    if len(values) <= limit:
        return np.arange(len(values))
    finite = np.isfinite(values)
    strange = np.flatnonzero(~finite)
    if len(strange) > limit // 2:
        strange = strange[spaced(len(strange), limit // 2)]
    plain = np.flatnonzero(finite)
    ends = np.array([0, len(values) - 1] if limit > 3 else [], dtype=np.int64)
    room = max(limit - len(strange) - len(ends), 2) // 2 * 2
    if len(plain) > room:
        # The NaN-aware classes of tsdownsample keep one NaN a bucket; here all are kept apart, so the plain one serves.
        plain = plain[np.unique(MinMaxDownsampler().downsample(np.ascontiguousarray(values[plain]), n_out=room))]
    if limit < 2:
        return np.concatenate([strange, plain])[:limit]
    return np.union1d(ends, np.sort(np.concatenate([strange, plain]))[: limit - len(ends)])


def spaced(count: int, limit: int) -> NDArray[np.int64]:
    """Return at most `limit` of `count` indices, evenly spaced, the first and the last among them."""
    if count <= limit:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, max(limit, 1)).round().astype(np.int64))


#: Steps, micro-steps, values and times of some points.
Points = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class MatrixPart:
    """Buckets of consecutive records, `(sites, buckets)` as in `Matrix`; `starts` are their first steps."""

    sites: tuple[str, ...]
    starts: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    non_finite: NDArray[np.int64]
    present: NDArray[np.int64]


def join_series(parts: Sequence[Points], query: SeriesQuery, *, total: int | None = None) -> Series:
    """Return the series that parts (steps, micro-steps, values, times) make up, thinned to the query's limit.

    Args:
        total: How many points there are, where the parts are thinned already.
    """
    if not parts:
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))]
    steps, micro_steps, values, times = (np.concatenate([part[at] for part in parts]) for at in range(4))
    if len(parts) > 1:
        order = np.lexsort((micro_steps, steps))
        steps, values, times = steps[order], values[order], times[order]
    kept = select_points(values, query.limit)
    return Series(
        site=query.site,
        metric=query.metric,
        steps=steps[kept],
        values=values[kept],
        times=times[kept],
        total=len(values) if total is None else total,
        rank=query.rank,
        call=query.call,
    )


def every_record(
    sites: tuple[str, ...], steps: NDArray[np.int64], values: NDArray[np.float64], present: NDArray[np.bool_]
) -> MatrixPart:
    """Return a part with one column per record, from values and presence `(records, sites)`."""
    usable = present & np.isfinite(values)
    low = np.where(usable, values, np.nan).T
    return MatrixPart(sites, steps, low, low, (present & ~usable).T.astype(np.int64), present.T.astype(np.int64))


def join_matrix(parts: Sequence[MatrixPart], query: MatrixQuery) -> Matrix:
    """Join several streams into a matrix: a row per site, steps side by side, within the query's limit of columns."""
    sites = tuple(dict.fromkeys(site for part in parts for site in part.sites))
    starts = np.unique(np.concatenate([part.starts for part in parts])) if parts else np.empty(0, np.int64)
    starts = starts[:: max(-(-len(starts) // max(query.limit, 1)), 1)]
    shape = (len(sites), len(starts))
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    non_finite, present = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    position = {site: at for at, site in enumerate(sites)}
    touched: set[str] = set()
    for part in parts:
        if not len(part.starts):
            continue
        column = np.searchsorted(starts, part.starts, "right") - 1
        begins = np.flatnonzero(np.diff(column, prepend=-1))
        at = _index(np.array([position[site] for site in part.sites], np.int64), column[begins])
        least, most = _fold(np.fmin, part.low, begins), _fold(np.fmax, part.high, begins)
        strange, count = _fold(np.add, part.non_finite, begins), _fold(np.add, part.present, begins)
        if touched.isdisjoint(part.sites):  # no other part has these sites yet
            low[at], high[at], non_finite[at], present[at] = least, most, strange, count
        else:
            low[at], high[at] = np.fmin(low[at], least), np.fmax(high[at], most)
            non_finite[at] += strange
            present[at] += count
        touched.update(part.sites)
    return Matrix(
        metric=query.metric,
        sites=sites,
        steps=starts,
        low=low,
        high=high,
        non_finite=non_finite,
        present=present,
        rank=query.rank,
    )


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
    """Return an index of rows crossed with columns; slices, which are many times faster, if nothing is skipped."""
    spans = [slice(int(numbers[0]), int(numbers[-1]) + 1) if _is_run(numbers) else None for numbers in (rows, columns)]
    return tuple(spans) if None not in spans else np.ix_(rows, columns)


def _is_run(numbers: NDArray[np.int64]) -> bool:
    return len(numbers) > 0 and bool((np.diff(numbers) == 1).all())


def first_calls(layout: Layout) -> list[int]:
    """Return the rows of a layout that are the first call of their site."""
    return [row for row in range(len(layout.sites)) if not layout.calls or layout.calls[row] == 0]


def row_of(layout: Layout, site: str, call: int) -> int | None:
    """Return the row of a site's call in a layout, None when it has none."""
    for row, known in enumerate(layout.sites):
        if known == site and (layout.calls[row] if layout.calls else 0) == call:
            return row
    return None


def list_metrics(layouts: Sequence[Layout]) -> tuple[str, ...]:
    """Return all metrics of these layouts, scalars among them, sorted."""
    names: set[str] = set()
    for layout in layouts:
        if layout.subject == SCALAR:
            names.update(f"{SCALAR}/{name}" for name in layout.sites)
        elif layout.subject != STEP:
            names.update(f"{layout.subject}/{statistic}" for statistic in layout.statistics)
    return tuple(sorted(names))


def read_series(connection: Connection, number: int, query: SeriesQuery) -> Series:
    """Return one series of recording `number`."""
    parts: list[Points] = []
    total = 0
    for stored, row, column in _cells(connection, number, query):
        check_stream(connection, stored)
        line = read_timeline(connection, stored.id, *query.steps)
        at, values, count = _points(connection, stored, line, row, column, query.limit)
        total += count
        parts.append((line.steps[at], line.micro_steps[at], values, line.times[at]))
    return join_series(parts, query, total=total)


def read_matrix(connection: Connection, number: int, query: MatrixQuery) -> Matrix:
    """Return one metric over all sites of recording `number`."""
    subject, statistic = split_metric(query.metric)
    parts: list[MatrixPart] = []
    for stored in read_streams(connection, number, subject):
        rows = first_calls(stored.layout)
        if subject == SCALAR or statistic not in stored.layout.statistics or not rows:
            continue
        check_stream(connection, stored)
        line = read_timeline(connection, stored.id, *query.steps)
        column = stored.layout.statistics.index(statistic)
        parts += _columns(connection, stored, line, column, rows, query.limit)
    return join_matrix(parts, query)


def check_stream(connection: Connection, stored: StoredStream) -> None:
    """Note the records of a stream that are missing."""
    if stored.records is None:
        return
    for first, last in check_extent(connection, stored.id, stored.records):
        note_damage(Damage(*_named(stored.layout), first, last))


def _named(layout: Layout) -> tuple[str, str, tuple[str, ...]]:
    """Return the first three arguments of a `Damage` of all records of a layout."""
    if layout.subject == STEP:
        return "steps", "records are missing", ()
    return ("scalars" if layout.subject == SCALAR else layout.subject), "records are missing", layout.sites


def _points(
    connection: Connection, stored: StoredStream, line: Timeline, row: int, column: int, limit: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Return positions in a timeline and values of at least `limit` points of one row, with extremes and non-finite
    ones, and the number of all values.
    """
    rows = slice(row, row + 1)
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    strange: list[tuple[int, NDArray[np.int64]]] = []
    total, is_thinned = 0, False
    for tier, begin, end in segments(connection, stored, line, choose_tier(len(line), -(-limit // 2))):
        is_thinned |= tier > 1
        region = read_region(connection, stored, ArchiveRegion(column, rows, begin, end, tier), with_positions=True)
        starts = np.arange(begin, end, tier)
        finite = np.flatnonzero(region.present[0] > region.non_finite[0])
        parts.append((starts[finite] + region.low_at[0, finite], region.low[0, finite]))
        if len(finite) and (tier > 1 or region.high_at.any()):
            parts.append((starts[finite] + region.high_at[0, finite], region.high[0, finite]))
        if len(odd := starts[region.non_finite[0] > 0]):
            strange.append((tier, odd))
        total += int(region.present.sum())
    if is_thinned:
        parts += _ends(connection, stored, line, row, column)
    for tier, odd in strange:
        parts.append(read_strange(connection, stored, column, row, odd[spaced(len(odd), limit)], tier))
    late, present = read_hot(connection, stored, line, [column], rows)
    here = np.flatnonzero(present[:, 0])
    parts.append((line.offset + line.archived + here, late[0, here, 0]))
    ordinals, first = np.unique(np.concatenate([at for at, _ in parts]), return_index=True)
    values = np.concatenate([part for _, part in parts])[first]
    at = ordinals - line.offset
    if line.lost is not None:
        known = ~line.lost[at]
        return at[known], values[known], int(known.sum())
    return at, values, total + len(here)


def _ends(
    connection: Connection, stored: StoredStream, line: Timeline, row: int, column: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Yield position and value of the first and the last archived record, as far as they are kept and finite."""
    for at in sorted({line.offset, line.offset + line.archived - 1}) if line.archived else ():
        one = read_region(
            connection, stored, ArchiveRegion(column, slice(row, row + 1), at, at + 1, 1), with_positions=True
        )
        if one.present[0, 0] > one.non_finite[0, 0]:
            yield np.array([at]), one.low[0]


def _columns(
    connection: Connection, stored: StoredStream, line: Timeline, column: int, rows: list[int], limit: int
) -> Iterator[MatrixPart]:
    """Yield buckets of one statistic over a timeline, the hot records as buckets of one."""
    sites = tuple(stored.layout.sites[row] for row in rows)
    for tier, begin, end in segments(connection, stored, line, choose_tier(len(line), -(-limit // 4))):
        region = read_region(
            connection, stored, ArchiveRegion(column, slice(None), begin, end, tier), with_positions=False
        )
        at = slice(begin - line.offset, end - line.offset, tier)
        steps = line.steps[at]
        few = region if len(rows) == len(region.low) else Buckets(*(array[rows] for array in region.arrays()))
        if line.lost is not None:
            steps, few = steps[~line.lost[at]], Buckets(*(array[:, ~line.lost[at]] for array in few.arrays()))
        yield MatrixPart(sites, steps, few.low, few.high, few.non_finite, few.present)
    values, there = read_hot(connection, stored, line, [column])
    yield every_record(sites, line.steps[line.archived :], values[0][:, rows], there[:, rows])


def _cells(connection: Connection, number: int, query: SeriesQuery) -> Iterator[tuple[StoredStream, int, int]]:
    """Yield every stream, row and column that holds values of that series."""
    if query.metric.startswith(f"{SCALAR}/"):
        subject, name, statistic = SCALAR, query.metric.partition("/")[2], "value"
        if query.site != ROOT_SITE or query.call:
            return
    else:
        (subject, statistic), name = split_metric(query.metric), query.site
    for stored in read_streams(connection, number, subject):
        row = row_of(stored.layout, name, query.call)
        if row is not None and statistic in stored.layout.statistics:
            yield stored, row, stored.layout.statistics.index(statistic)
