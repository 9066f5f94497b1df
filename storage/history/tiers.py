"""Reads buckets of archived records from the tier that fits, and from coarser ones where that was thinned away."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from ..encoding.codec import all_equal
from ..schema.streams import Stream
from ..schema.tables import chunk, span
from .buckets import RATIO, Buckets, read_buckets
from .chunks import GROUP, LENGTH, group_height, read_archived, read_chunk, select_chunks
from .timeline import Timeline

#: Sites and buckets of a larger array.
_Region = tuple[slice, slice]
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
    buckets = Buckets(*(array.copy() for array in buckets.arrays()))  # of which one may have stood for two
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
    low, there = values[0].T, present.T
    usable = np.isfinite(low)
    usable &= there
    if usable.all():
        nothing, all_one = all_equal(np.int64(0), low.shape), all_equal(np.int64(1), low.shape)
        return Buckets(low, low, nothing, all_one, nothing, nothing), found.T
    low = np.where(usable, low, np.nan)
    zero = np.zeros(low.shape, dtype=np.int64)
    return Buckets(low, low.copy(), (there & ~usable).astype(np.int64), there.astype(np.int64), zero, zero), found.T


def _read_tier(
    connection: Connection, one: Stream, column: int, rows: slice, begin: int, end: int, tier: int, places: bool
) -> tuple[Buckets, NDArray[np.bool_]]:
    """Buckets of a tier, and which of them a chunk holds."""
    start, stop, _ = rows.indices(len(one.layout.sites))
    shape = (stop - start, (end - begin) // tier)
    found = np.zeros(shape, dtype=np.bool_)
    pieces: list[tuple[_Region, list[NDArray[Any]]]] = []
    for _, group, first, count, data in connection.execute(select_chunks(one, tier, [column], rows, begin, end)):
        site = max(group, 0) * GROUP
        height = group_height(one, group)
        low, high = max(site, start), min(site + height, stop)
        few = read_buckets(data, (height, count), slice(low - site, high - site), with_places=places)
        early, late = max(first, begin), min(first + count * tier, end)
        target = (slice(low - start, high - start), slice((early - begin) // tier, (late - begin) // tier))
        source = (slice(None), slice((early - first) // tier, (late - first) // tier))
        pieces.append((target, [one[source] for one in few.arrays()]))
        found[target] = True
    is_whole = bool(found.all())
    by_array = ([(target, few[at]) for target, few in pieces] for at in range(6))
    laid = [_laid(shape, some, np.nan if at < 2 else 0, is_whole=is_whole) for at, some in enumerate(by_array)]
    return Buckets(*laid), found


def _laid(
    shape: tuple[int, int], pieces: Sequence[tuple[_Region, NDArray[Any]]], rest: float, *, is_whole: bool
) -> NDArray[Any]:  # Any: float32 or float64 where the rest is NaN, int64 where it is 0
    """Pieces in one array, as narrow as holds them all; a single value that stands for all where there is no other.

    A picture of a whole run is made of megabytes, and to get them from the system takes longer than to fill them.
    """
    least = np.float32 if rest else np.int64
    dtype = np.result_type(least, *{one.dtype for _, one in pieces})
    values = {None if any(one.strides) else one.flat[0].item() for _, one in pieces if one.size}
    if is_whole and len(values) == 1 and (value := values.pop()) is not None:
        return all_equal(dtype.type(value), shape)
    made = np.empty(shape, dtype) if is_whole else np.full(shape, rest, dtype)
    for target, one in pieces:
        made[target] = one
    return made


def _made(connection: Connection, one: Stream, tier: int) -> int:
    """The number of the first record that a tier does not hold yet."""
    query = select(func.max(span.c.first + span.c.count)).where(span.c.stream == one.id)
    archived = connection.execute(query).scalar() or 0
    step = LENGTH if tier == RATIO else LENGTH * RATIO
    return archived // step * step
