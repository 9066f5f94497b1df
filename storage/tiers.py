"""Reads buckets of archived records from the tier that fits, and from coarser ones where that was thinned away."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from .buckets import RATIO, Buckets, read_buckets
from .chunks import GROUP, LENGTH, group_height, read_archived, read_chunk, select_chunks
from .streams import Stream
from .tables import chunk, span
from .timeline import Timeline

#: The coarsest tier.
LAST_TIER = 256


def choose_tier(records: int, wanted: int) -> int:
    """The coarsest tier that still has `wanted` buckets of so many records; 1 when none has."""
    return next((tier for tier in (LAST_TIER, RATIO) if records // tier >= wanted), 1)


def segments(connection: Connection, one: Stream, line: Timeline, tier: int) -> Iterator[tuple[int, int, int]]:
    """(tier, begin, end) of stretches that make up the archived records of a timeline, none coarser than `tier`.

    A tier serves whole buckets, as far as it has been made; what is left at the ends is read from finer ones.
    """
    begin, end = line.offset, line.offset + line.archived
    first = begin
    if tier > 1 and begin % tier:
        first = min(begin + (-begin) % tier, end)
        yield 1, begin, first
    while tier > 1:
        stop = min(end, _made(connection, one, tier)) // tier * tier
        if stop > first:
            yield tier, first, stop
            first = stop
        tier //= RATIO
    if end > first:
        yield 1, first, end


def read_region(
    connection: Connection, one: Stream, column: int, rows: slice, begin: int, end: int, tier: int, *, places: bool
) -> Buckets:
    """Buckets of `tier` records of some rows, from record number `begin` to before `end`, both multiples of the tier.

    Where retention has thinned this tier away, the first of the buckets that a coarser one covers holds all of it.
    """
    read = _read_records if tier == 1 else _read_tier
    buckets, found = read(connection, one, column, rows, begin, end, tier, places)
    if tier == LAST_TIER or found.all():
        return buckets
    wide = tier * RATIO
    starts = np.arange(-(-begin // wide) * wide, end - wide + 1, wide)
    if not len(starts):
        return buckets
    coarse = read_region(connection, one, column, rows, int(starts[0]), int(starts[-1]) + wide, wide, places=places)
    at = (starts - begin) // tier
    for target, source in zip(buckets.arrays(), coarse.arrays(), strict=True):
        target[:, at] = np.where(found[:, at], target[:, at], source)
    return buckets


def read_strange(
    connection: Connection, one: Stream, column: int, row: int, starts: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Record numbers and values of what is not finite in some buckets of `size` records of one row."""
    ordinals: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    firsts = np.unique(starts // LENGTH * LENGTH)
    query = select_chunks(one, 1, [column], slice(row, row + 1), int(firsts[0]), int(firsts[-1]) + 1)
    height, only = group_height(one, row // GROUP), slice(row % GROUP, row % GROUP + 1)
    for _, _, first, count, data in connection.execute(query.where(chunk.c.first.in_(firsts.tolist()))):
        (line,), (there,) = read_chunk(data, (height, count), only)
        at = np.flatnonzero(there & ~np.isfinite(line))
        at = at[np.isin((first + at) // size * size, starts)]
        ordinals.append(first + at)
        values.append(line[at])
    return (np.concatenate(ordinals), np.concatenate(values)) if ordinals else (np.empty(0, np.int64), np.empty(0))


def _read_records(
    connection: Connection, one: Stream, column: int, rows: slice, begin: int, end: int, tier: int, places: bool
) -> tuple[Buckets, NDArray[np.bool_]]:
    """Buckets of one record each, and which of them a chunk holds."""
    values, present, found = read_archived(connection, one, [column], rows, begin, end)
    usable = present & np.isfinite(values[0])
    low = np.where(usable, values[0], np.nan).T
    zero = np.zeros(low.shape, dtype=np.int64)
    strange, count = (present & ~usable).T.astype(np.int64), present.T.astype(np.int64)
    return Buckets(low, low.copy(), strange, count, zero, zero.copy()), found.T


def _read_tier(
    connection: Connection, one: Stream, column: int, rows: slice, begin: int, end: int, tier: int, places: bool
) -> tuple[Buckets, NDArray[np.bool_]]:
    """Buckets of a tier, and which of them a chunk holds."""
    start, stop, _ = rows.indices(len(one.layout.sites))
    made = Buckets.empty(stop - start, (end - begin) // tier)
    found = np.zeros(made.low.shape, dtype=np.bool_)
    for _, group, first, count, data in connection.execute(select_chunks(one, tier, [column], rows, begin, end)):
        site = max(group, 0) * GROUP
        height = group_height(one, group)
        low, high = max(site, start), min(site + height, stop)
        few = read_buckets(data, (height, count), slice(low - site, high - site), with_places=places)
        early, late = max(first, begin), min(first + count * tier, end)
        target = (slice(low - start, high - start), slice((early - begin) // tier, (late - begin) // tier))
        source = (slice(None), slice((early - first) // tier, (late - first) // tier))
        made.low[target], made.high[target] = few.low[source], few.high[source]
        counts = list(zip(made.arrays(), few.arrays(), strict=True))[2 : None if places else 4]
        for into, out in counts:
            if any(out.strides) or out.flat[0]:  # otherwise all zero, as it is already
                into[target] = out[source]
        found[target] = True
    return made, found


def _made(connection: Connection, one: Stream, tier: int) -> int:
    """The number of the first record that a tier does not hold yet."""
    query = select(func.max(span.c.first + span.c.count)).where(span.c.stream == one.id)
    archived = connection.execute(query).scalar() or 0
    step = LENGTH if tier == RATIO else LENGTH * RATIO
    return archived // step * step
