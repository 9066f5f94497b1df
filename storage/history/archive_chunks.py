"""Chunks of one statistic of a group of sites over many records: written, found and read, also from coarser tiers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, func, select

from ..encoding.block_packing import PackedBlocks, unpack_columns
from ..encoding.codec import all_equal, decode_flags, decode_narrow, encode
from ..schema.row_statements import StoredStream
from ..schema.table_definitions import chunk, span
from .buckets import RATIO, Buckets, read_buckets
from .hot_records import Timeline, read_blocks

#: Sites that share a chunk, and records (or buckets) that it holds.
GROUP, LENGTH = 16, 256


def chunk_bytes(values: NDArray[np.float64], flags: bytes, code: int | None = None) -> bytes:
    """Return the values `(sites, records)` of one statistic, zero where missing; `read_chunk` gives them back.

    Args:
        flags: Which of them are there, as `encode_flags` has it: the same for all statistics.
        code: As `encode` takes it.
    """
    return len(flags).to_bytes(4, "little") + flags + encode(values, code)


def read_chunk(
    data: bytes, shape: tuple[int, int], rows: slice = slice(None)
) -> tuple[NDArray[Any], NDArray[np.bool_]]:  # Any: as narrow as it is stored
    """Return values, NaN where missing, and presence of some rows of a chunk of that shape."""
    size = 4 + int.from_bytes(data[:4], "little")
    values = decode_narrow(data[size:], shape, rows)
    if size == 4:
        return values, np.ones(values.shape, dtype=np.bool_)
    present = decode_flags(data[4:size], shape)[rows]
    return np.where(present, values, np.nan), present


def select_chunks(
    one: StoredStream, tier: int, columns: Sequence[int], rows: slice, begin: int, end: int
) -> Select[Any]:  # Any: five columns, named in the docstring
    """Return the query for chunks of a tier that hold these rows of records from number `begin` to before `end`.

    Columns of the answer: statistic, group, first, count, data. Group -1 holds all sites.
    """
    start, stop, _ = rows.indices(len(one.layout.sites))
    groups = chunk.c.site_group.between(start // GROUP, (max(stop, start + 1) - 1) // GROUP)
    return select(chunk.c.statistic, chunk.c.site_group, chunk.c.first, chunk.c.count, chunk.c.data).where(
        chunk.c.stream == one.id,
        chunk.c.tier == tier,
        chunk.c.statistic.in_(columns),
        groups if tier == 1 else groups | (chunk.c.site_group == -1),
        chunk.c.first > begin - LENGTH * tier,
        chunk.c.first < end,
    )


def read_archived(
    connection: Connection, one: StoredStream, columns: Sequence[int], rows: slice, begin: int, end: int
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:  # Any: one of two widths
    """Return values `(columns, records, rows)`, presence `(records, rows)`, and what of it a chunk holds at all.

    Values are float32 where that holds them all.
    """
    start, stop, _ = rows.indices(len(one.layout.sites))
    pieces: list[tuple[tuple[int, slice, slice], NDArray[Any]]] = []
    # As in the chunks, the records of a site stand side by side here; the caller gets it turned.
    present, found = np.zeros((2, stop - start, end - begin), dtype=np.bool_)
    place = {column: at for at, column in enumerate(columns)}
    for column, group, first, count, data in connection.execute(select_chunks(one, 1, columns, rows, begin, end)):
        site = group * GROUP
        low, high = max(site, start), min(site + GROUP, stop)
        block, flags = read_chunk(data, (group_height(one, group), count), slice(low - site, high - site))
        early, late = max(first, begin), min(first + count, end)
        source = (slice(None), slice(early - first, late - first))
        target = (slice(low - start, high - start), slice(early - begin, late - begin))
        pieces.append(((place[column], *target), block[source]))
        present[target] = flags[source]
        found[target] = True
    dtype = np.result_type(np.float32, *{one.dtype for _, one in pieces})
    shape = (len(columns), *found.shape)
    values = np.empty(shape, dtype) if found.all() else np.full(shape, np.nan, dtype)
    for region, one_piece in pieces:
        values[region] = one_piece
    return values.swapaxes(1, 2), present.T, found.T


def group_height(one: StoredStream, group: int) -> int:
    """Return how many sites a chunk of that group holds; group -1 holds all."""
    sites = len(one.layout.sites)
    return sites if group < 0 else min(GROUP, sites - group * GROUP)


#: Sites and buckets of a larger array.
_Region = tuple[slice, slice]
#: The coarsest tier.
LAST_TIER = 256


def choose_tier(records: int, wanted: int) -> int:
    """Return the coarsest tier that still has `wanted` buckets of so many records; 1 when none has."""
    return next((tier for tier in (LAST_TIER, RATIO) if records // tier >= wanted), 1)


def segments(connection: Connection, one: StoredStream, line: Timeline, tier: int) -> Iterator[tuple[int, int, int]]:
    """Yield (tier, begin, end) of stretches that make up the archived records of a timeline, none coarser than `tier`.

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
    connection: Connection,
    one: StoredStream,
    column: int,
    rows: slice,
    begin: int,
    end: int,
    tier: int,
    *,
    places: bool,
) -> Buckets:
    """Return buckets of `tier` records of some rows, from record number `begin` to before `end`, both multiples of the
    tier.

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
    connection: Connection, one: StoredStream, column: int, row: int, starts: NDArray[np.int64], size: int
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
    connection: Connection, one: StoredStream, column: int, rows: slice, begin: int, end: int, tier: int, places: bool
) -> tuple[Buckets, NDArray[np.bool_]]:
    """Return buckets of one record each, and which of them a chunk holds."""
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
    connection: Connection, one: StoredStream, column: int, rows: slice, begin: int, end: int, tier: int, places: bool
) -> tuple[Buckets, NDArray[np.bool_]]:
    """Return buckets of a tier, and which of them a chunk holds."""
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
    """Join pieces in one array, as narrow as holds them all; a single value stands for all where there is no other.

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


def _made(connection: Connection, one: StoredStream, tier: int) -> int:
    """Return the number of the first record that a tier does not hold yet."""
    query = select(func.max(span.c.first + span.c.count)).where(span.c.stream == one.id)
    archived = connection.execute(query).scalar() or 0
    step = LENGTH if tier == RATIO else LENGTH * RATIO
    return archived // step * step


def read_values(
    connection: Connection, one: StoredStream, line: Timeline, columns: Sequence[int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return values `(columns, records, rows)` and presence `(records, rows)` at full resolution.

    What retention has thinned away is not present.
    """
    late, late_present = read_hot(connection, one, line, columns, rows)
    if not line.archived:
        return late, late_present
    end = line.offset + line.archived
    values, present, _ = read_archived(connection, one, columns, rows, line.offset, end)
    return np.concatenate([values, late], axis=1), np.concatenate([present, late_present])


def read_hot(
    connection: Connection, one: StoredStream, line: Timeline, columns: Sequence[int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return values and presence of the hot records of a timeline."""
    blocks = PackedBlocks.of(())
    if len(line) > line.archived:
        blocks = read_blocks(connection, one.id, int(line.steps[line.archived]), int(line.steps[-1]))
    return unpack_columns(blocks, columns, len(one.layout.sites), rows)
