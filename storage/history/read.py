"""Bounded pictures of a recording: one series, one matrix, each from the tier that has just enough points."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from ..names import ROOT_SITE, split_metric
from ..schema.streams import SCALAR, Stream, read_streams
from ..series import Matrix, Series
from .buckets import Buckets
from .downsample import spaced
from .pictures import Columns, Points, every_record, first_calls, join_matrix, join_series, row_of
from .tiers import choose_tier, read_region, read_strange, segments
from .timeline import Timeline, read_timeline
from .values import read_hot


def read_series(
    connection: Connection, number: int, rank: int, site: str, metric: str, call: int, first: int, last: int, limit: int
) -> Series:
    """One series of recording `number`, at most `limit` points of it."""
    parts: list[Points] = []
    total = 0
    for one, row, column in _places(connection, number, site, metric, call):
        line = read_timeline(connection, one.id, first, last)
        at, values, count = _points(connection, one, line, row, column, limit)
        total += count
        parts.append((line.steps[at], line.micro_steps[at], values, line.times[at]))
    return join_series(parts, site, metric, rank, call, limit, total)


def read_matrix(
    connection: Connection, number: int, rank: int, metric: str, first: int, last: int, limit: int
) -> Matrix:
    """One metric over all sites of recording `number` in at most `limit` columns."""
    subject, statistic = split_metric(metric)
    parts: list[Columns] = []
    for one in read_streams(connection, number, subject):
        rows = first_calls(one.layout)
        if subject == SCALAR or statistic not in one.layout.statistics or not rows:
            continue
        line = read_timeline(connection, one.id, first, last)
        column = one.layout.statistics.index(statistic)
        parts += _columns(connection, one, line, column, rows, limit)
    return join_matrix(parts, metric, rank, limit)


def _points(
    connection: Connection, one: Stream, line: Timeline, row: int, column: int, limit: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Places in a timeline and values of at least `limit` points of one row, extremes and non-finite ones among them.

    The last is how many values there are.
    """
    rows = slice(row, row + 1)
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    strange: list[tuple[int, NDArray[np.int64]]] = []
    total = 0
    for tier, begin, end in segments(connection, one, line, choose_tier(len(line), -(-limit // 2))):
        region = read_region(connection, one, column, rows, begin, end, tier, places=True)
        starts = np.arange(begin, end, tier)
        finite = np.flatnonzero(region.present[0] > region.non_finite[0])
        parts.append((starts[finite] + region.low_at[0, finite], region.low[0, finite]))
        if len(finite) and (tier > 1 or region.high_at.any()):
            parts.append((starts[finite] + region.high_at[0, finite], region.high[0, finite]))
        if len(odd := starts[region.non_finite[0] > 0]):
            strange.append((tier, odd))
        total += int(region.present.sum())
    for tier, odd in strange:
        parts.append(read_strange(connection, one, column, row, odd[spaced(len(odd), limit)], tier))
    late, present = read_hot(connection, one, line, [column], rows)
    here = np.flatnonzero(present[:, 0])
    parts.append((line.offset + line.archived + here, late[0, here, 0]))
    ordinals, first = np.unique(np.concatenate([at for at, _ in parts]), return_index=True)
    values = np.concatenate([part for _, part in parts])[first]
    return ordinals - line.offset, values, total + len(here)


def _columns(
    connection: Connection, one: Stream, line: Timeline, column: int, rows: list[int], limit: int
) -> Iterator[Columns]:
    """Buckets of one statistic over a timeline, the hot records as buckets of one."""
    sites = tuple(one.layout.sites[row] for row in rows)
    everything = slice(None)
    for tier, begin, end in segments(connection, one, line, choose_tier(len(line), -(-limit // 4))):
        region = read_region(connection, one, column, everything, begin, end, tier, places=False)
        steps = line.steps[begin - line.offset : end - line.offset : tier]
        few = region if len(rows) == len(region.low) else Buckets(*(array[rows] for array in region.arrays()))
        yield Columns(sites, steps, few.low, few.high, few.non_finite, few.present)
    values, there = read_hot(connection, one, line, [column])
    yield every_record(sites, line.steps[line.archived :], values[0][:, rows], there[:, rows])


def _places(
    connection: Connection, number: int, site: str, metric: str, call: int
) -> Iterator[tuple[Stream, int, int]]:
    """Every stream, row and column that holds values of that series."""
    if metric.startswith(f"{SCALAR}/"):
        subject, name, statistic = SCALAR, metric.partition("/")[2], "value"
        if site != ROOT_SITE or call:
            return
    else:
        (subject, statistic), name = split_metric(metric), site
    for one in read_streams(connection, number, subject):
        row = row_of(one.layout, name, call)
        if row is not None and statistic in one.layout.statistics:
            yield one, row, one.layout.statistics.index(statistic)
