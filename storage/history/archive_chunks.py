"""Chunks of one statistic of a group of sites over many records: written, found and read, also from coarser tiers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Select, bindparam, func, select

from ..damage import Damage, note_damage
from ..encoding.block_packing import PackedBlocks, unpack_columns
from ..encoding.checksums import unseal
from ..encoding.codec import CODEC_VERSION, all_equal, decode_flags, decode_narrow, encode
from ..errors import StoreDamaged
from ..schema.row_statements import SCALAR, STEP, StoredStream
from ..schema.table_definitions import chunk, span
from .buckets import RATIO, Buckets, read_buckets
from .hot_records import RecordTimes, read_blocks
from .timeline import SEALED, Timeline

#: Sites that share a chunk, and records (or buckets) that it holds.
GROUP, LENGTH = 16, 256
#: The number of the group that holds all sites.
ALL_SITES = -1


def chunk_bytes(values: NDArray[np.float64], flags: bytes, code: int | None = None) -> bytes:
    """Return the bytes of the values `(sites, records)` of one statistic, zero where missing; `read_chunk` reads them.

    Args:
        flags: The presence of the values, from `encode_flags`: the same for all statistics.
        code: As for `encode`.
    """
    return len(flags).to_bytes(4, "little") + flags + encode(values, code)


#: What identifies a chunk within its stream and tier, how it is stored, and its data.
CHUNK_COLUMNS = (
    chunk.c.statistic,
    chunk.c.site_group,
    chunk.c.first,
    chunk.c.count.label("size"),
    chunk.c.codec,
    chunk.c.data,
)
#: Sites and buckets of a larger array.
_Cells = tuple[slice, slice]
#: The first and the last step of the records from number `low` to before `high`, as far as the spans tell.
_STEPS = select(func.min(span.c.first_step).label("first"), func.max(span.c.last_step).label("last")).where(
    span.c.stream == bindparam("of"),
    span.c.first + span.c.count > bindparam("low"),
    span.c.first < bindparam("high"),
)
#: The coarsest tier.
LAST_TIER = 256


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
    stored: StoredStream, tier: int, columns: Sequence[int], rows: slice, begin: int, end: int
) -> Select[Any]:  # Any: six columns, named in the docstring
    """Return the query for chunks of a tier that hold these rows of records from number `begin` to before `end`.

    Columns of the answer: statistic, group, first, size, codec, data. Group -1 holds all sites.
    """
    start, stop, _ = rows.indices(len(stored.layout.sites))
    groups = chunk.c.site_group.between(start // GROUP, (max(stop, start + 1) - 1) // GROUP)
    return select(*CHUNK_COLUMNS).where(
        chunk.c.stream == stored.id,
        chunk.c.tier == tier,
        chunk.c.statistic.in_(columns),
        groups if tier == 1 else groups | (chunk.c.site_group == ALL_SITES),
        chunk.c.first > begin - LENGTH * tier,
        chunk.c.first < end,
    )


def read_archived(
    connection: Connection, stored: StoredStream, columns: Sequence[int], rows: slice, begin: int, end: int
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:  # Any: one of two widths
    """Return values `(columns, records, rows)`, presence `(records, rows)`, and which of these cells a chunk holds.

    Values are float32 if that represents all of them.
    """
    start, stop, _ = rows.indices(len(stored.layout.sites))
    pieces: list[tuple[tuple[int, slice, slice], NDArray[Any]]] = []
    # As in the chunks, the records of a site are contiguous here; the caller gets the transpose.
    present = np.zeros((stop - start, end - begin), dtype=np.bool_)
    found = np.zeros((len(columns), *present.shape), dtype=np.bool_)
    coverage = _Coverage(stored, 1, begin, start)
    position = {column: at for at, column in enumerate(columns)}
    for row in connection.execute(select_chunks(stored, 1, columns, rows, begin, end)):
        column, group, first, count = row.statistic, row.site_group, row.first, row.size
        if not _has_place(row):
            continue
        site = group * GROUP
        low, high = max(site, start), min(site + GROUP, stop)
        early, late = max(first, begin), min(first + count, end)
        source = (slice(None), slice(early - first, late - first))
        target = (slice(low - start, high - start), slice(early - begin, late - begin))
        try:
            block, flags = read_chunk(
                chunk_content(stored.id, 1, row), (group_height(stored, group), count), slice(low - site, high - site)
            )
        except StoreDamaged as error:
            coverage.note(connection, columns[position[column]], target, str(error))
            continue
        pieces.append(((position[column], *target), block[source]))
        present[target] = flags[source]
        found[position[column]][target] = True
    for column, there in zip(columns, found, strict=True):
        coverage.check(connection, column, there)
    dtype = np.result_type(np.float32, *{piece.dtype for _, piece in pieces})
    shape = (len(columns), *present.shape)
    values = np.empty(shape, dtype) if found.all() else np.full(shape, np.nan, dtype)
    for region, piece in pieces:
        values[region] = piece
    whole: NDArray[np.bool_] = np.logical_and.reduce(found, axis=0)
    return values.swapaxes(1, 2), (present & whole).T, whole.T


def chunk_content(key: int, tier: int, row: Row[*tuple[Any, ...]]) -> bytes:  # Any: the columns of `select_chunks`
    """Return the content of a chunk of stream `key`.

    Raises:
        StoreDamaged: It is not what was written.
    """
    if row.codec == SEALED:
        return unseal(row.data, key, tier, row.statistic, row.site_group, row.first, row.size)
    if row.codec != CODEC_VERSION:
        raise StoreDamaged(f"its codec {row.codec} is unknown")
    data: bytes = row.data
    return data


class _Coverage:
    """Notices which chunks of a region are damaged, and which should be there and are not.

    Args:
        begin: Number of the first record of the region.
        start: Number of its first site.
    """

    def __init__(self, stored: StoredStream, tier: int, begin: int, start: int) -> None:
        self._stored, self._tier, self._begin, self._start = stored, tier, begin, start
        self._noted: dict[int, list[_Cells]] = {}

    def note(self, connection: Connection, column: int, cells: _Cells, reason: str) -> None:
        """Note that these cells of the region (sites, buckets) cannot be read."""
        self._noted.setdefault(column, []).append(cells)
        layout = self._stored.layout
        sites = layout.sites[self._start + cells[0].start : self._start + cells[0].stop]
        low, high = (self._begin + at * self._tier for at in (cells[1].start, cells[1].stop))
        steps = connection.execute(_STEPS, {"of": self._stored.id, "low": low, "high": high}).one()
        what = "scalars" if layout.subject == SCALAR else f"{layout.subject}/{layout.statistics[column]}"
        note_damage(Damage(what, reason, () if layout.subject == STEP else sites, steps.first, steps.last))

    def check(self, connection: Connection, column: int, found: NDArray[np.bool_]) -> None:
        """Note the cells `(sites, buckets)` that no chunk holds although none of them was thinned."""
        if found.all() or self._stored.whole_from is None or self._tier == LAST_TIER:
            return
        whole_from = self._stored.whole_from[0 if self._tier == 1 else 1]
        gone = ~found
        gone[:, : max(-(-(whole_from - self._begin) // self._tier), 0)] = False
        if self._tier > 1:  # it is made of whole chunks
            made = _made(connection, self._stored, self._tier)
            gone[:, max(made - self._begin, 0) // self._tier :] = False
        for cells in self._noted.get(column, ()):
            gone[cells] = False
        if gone.any():
            sites, buckets = (np.flatnonzero(gone.any(axis=axis)) for axis in (1, 0))
            cells = slice(int(sites[0]), int(sites[-1]) + 1), slice(int(buckets[0]), int(buckets[-1]) + 1)
            self.note(connection, column, cells, "its chunk is missing")


def _has_place(row: Row[*tuple[Any, ...]]) -> bool:  # Any: the columns of `select_chunks`
    """Return whether a chunk says which records it holds; one that is damaged so is missing there."""
    return isinstance(row.first, int) and isinstance(row.size, int)


def group_height(stored: StoredStream, group: int) -> int:
    """Return how many sites a chunk of that group holds; group -1 holds all."""
    sites = len(stored.layout.sites)
    return sites if group < 0 else min(GROUP, sites - group * GROUP)


@dataclass(frozen=True, slots=True)
class ArchiveRegion:
    """Buckets of one statistic: some rows (sites) of the records from number `begin` to before `end`.

    Args:
        column: The statistic, by its position in the layout.
        tier: Records of a bucket; `begin` and `end` are multiples of it.
    """

    column: int
    rows: slice
    begin: int
    end: int
    tier: int


def choose_tier(records: int, wanted: int) -> int:
    """Return the coarsest tier with at least `wanted` buckets for so many records; 1 if none has."""
    return next((tier for tier in (LAST_TIER, RATIO) if records // tier >= wanted), 1)


def segments(connection: Connection, stored: StoredStream, line: Timeline, tier: int) -> Iterator[tuple[int, int, int]]:
    """Yield (tier, begin, end) of ranges that cover the archived records of a timeline, none coarser than `tier`.

    A tier covers whole buckets, as far as it exists; the ends are read from finer tiers.
    """
    begin, end = line.offset, line.offset + line.archived
    first = begin
    if tier > 1 and begin % tier:
        first = min(begin + (-begin) % tier, end)
        yield 1, begin, first
    while tier > 1:
        stop = min(end, _made(connection, stored, tier)) // tier * tier
        if stop > first:
            yield tier, first, stop
            first = stop
        tier //= RATIO
    if end > first:
        yield 1, first, end


def read_region(
    connection: Connection, stored: StoredStream, region: ArchiveRegion, *, with_positions: bool
) -> Buckets:
    """Return the buckets of a region.

    Where retention has thinned this tier away, the values of a coarser bucket stand in the first bucket that it covers.

    Args:
        with_positions: Whether to read `low_at` and `high_at`; without, they are zero.
    """
    if region.tier == 1:
        buckets, found = _read_records(connection, stored, region)
    else:
        buckets, found = _read_tier(connection, stored, region, with_positions=with_positions)
    if region.tier == LAST_TIER or found.all():
        return buckets
    wide = region.tier * RATIO
    starts = np.arange(-(-region.begin // wide) * wide, region.end - wide + 1, wide)
    if not len(starts):
        return buckets
    wider = replace(region, begin=int(starts[0]), end=int(starts[-1]) + wide, tier=wide)
    coarse = read_region(connection, stored, wider, with_positions=with_positions)
    at = (starts - region.begin) // region.tier
    buckets = Buckets(*(array.copy() for array in buckets.arrays()))  # two fields may share one array
    for target, source in zip(buckets.arrays(), coarse.arrays(), strict=True):
        target[:, at] = np.where(found[:, at], target[:, at], source)
    return buckets


def read_strange(
    connection: Connection, stored: StoredStream, column: int, row: int, starts: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return record numbers and values of what is not finite in some buckets of `size` records of one row."""
    ordinals: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    firsts = np.unique(starts // LENGTH * LENGTH)
    query = select_chunks(stored, 1, [column], slice(row, row + 1), int(firsts[0]), int(firsts[-1]) + 1)
    height, only = group_height(stored, row // GROUP), slice(row % GROUP, row % GROUP + 1)
    for chunk_row in connection.execute(query.where(chunk.c.first.in_(firsts.tolist()))):
        first = chunk_row.first
        if not _has_place(chunk_row):
            continue
        try:
            (line,), (there,) = read_chunk(chunk_content(stored.id, 1, chunk_row), (height, chunk_row.size), only)
        except StoreDamaged as error:
            cells = slice(0, 1), slice(first, first + chunk_row.size)
            _Coverage(stored, 1, 0, row).note(connection, column, cells, str(error))
            continue
        at = np.flatnonzero(there & ~np.isfinite(line))
        at = at[np.isin((first + at) // size * size, starts)]
        ordinals.append(first + at)
        values.append(line[at])
    return (np.concatenate(ordinals), np.concatenate(values)) if ordinals else (np.empty(0, np.int64), np.empty(0))


def _read_records(
    connection: Connection, stored: StoredStream, region: ArchiveRegion
) -> tuple[Buckets, NDArray[np.bool_]]:
    """Return buckets of one record each, and which of them a chunk holds."""
    columns = [region.column]
    values, present, found = read_archived(connection, stored, columns, region.rows, region.begin, region.end)
    low, there = values[0].T, present.T
    usable = np.isfinite(low)
    usable &= there
    if usable.all():
        zeros, ones = all_equal(np.int64(0), low.shape), all_equal(np.int64(1), low.shape)
        return Buckets(low, low, zeros, ones, zeros, zeros), found.T
    low = np.where(usable, low, np.nan)
    zero = np.zeros(low.shape, dtype=np.int64)
    return Buckets(low, low.copy(), (there & ~usable).astype(np.int64), there.astype(np.int64), zero, zero), found.T


def _read_tier(
    connection: Connection, stored: StoredStream, region: ArchiveRegion, *, with_positions: bool
) -> tuple[Buckets, NDArray[np.bool_]]:
    """Return buckets of a tier, and which of them a chunk holds."""
    begin, end, tier = region.begin, region.end, region.tier
    start, stop, _ = region.rows.indices(len(stored.layout.sites))
    shape = (stop - start, (end - begin) // tier)
    found = np.zeros(shape, dtype=np.bool_)
    pieces: list[tuple[_Cells, list[NDArray[Any]]]] = []
    coverage = _Coverage(stored, tier, begin, start)
    for row in connection.execute(select_chunks(stored, tier, [region.column], region.rows, begin, end)):
        if not _has_place(row):
            continue
        first, site = row.first, max(row.site_group, 0) * GROUP
        height = group_height(stored, row.site_group)
        low, high = max(site, start), min(site + height, stop)
        early, late = max(first, begin), min(first + row.size * tier, end)
        target = (slice(low - start, high - start), slice((early - begin) // tier, (late - begin) // tier))
        try:
            content, part = chunk_content(stored.id, tier, row), slice(low - site, high - site)
            few = read_buckets(content, (height, row.size), part, with_positions=with_positions)
        except StoreDamaged as error:
            coverage.note(connection, region.column, target, str(error))
            continue
        source = (slice(None), slice((early - first) // tier, (late - first) // tier))
        pieces.append((target, [array[source] for array in few.arrays()]))
        found[target] = True
    coverage.check(connection, region.column, found)
    is_whole = bool(found.all())
    by_array = ([(target, few[at]) for target, few in pieces] for at in range(6))
    laid = [_laid(shape, some, np.nan if at < 2 else 0, is_whole=is_whole) for at, some in enumerate(by_array)]
    return Buckets(*laid), found


def _laid(
    shape: tuple[int, int], pieces: Sequence[tuple[_Cells, NDArray[Any]]], rest: float, *, is_whole: bool
) -> NDArray[Any]:  # Any: float32 or float64 where the rest is NaN, int64 where it is 0
    """Join pieces in one array of the narrowest dtype that holds them all; equal values become one broadcast value.

    The figure of a whole run takes megabytes, and allocating them takes longer than filling them.
    """
    least = np.float32 if rest else np.int64
    dtype = np.result_type(least, *{piece.dtype for _, piece in pieces})
    values = {None if any(piece.strides) else piece.flat[0].item() for _, piece in pieces if piece.size}
    if is_whole and len(values) == 1 and (value := values.pop()) is not None:
        return all_equal(dtype.type(value), shape)
    made = np.empty(shape, dtype) if is_whole else np.full(shape, rest, dtype)
    for target, piece in pieces:
        made[target] = piece
    return made


def _made(connection: Connection, stored: StoredStream, tier: int) -> int:
    """Return the number of the first record that a tier does not hold yet."""
    query = select(func.max(span.c.first + span.c.count)).where(span.c.stream == stored.id)
    archived = connection.execute(query).scalar() or 0
    step = LENGTH if tier == RATIO else LENGTH * RATIO
    return archived // step * step


def read_values(
    connection: Connection, stored: StoredStream, line: Timeline, columns: Sequence[int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return values `(columns, records, rows)` and presence `(records, rows)` at full resolution.

    Records that retention has thinned are not present.
    """
    late, late_present = read_hot(connection, stored, line, columns, rows)
    if not line.archived:
        return late, late_present
    end = line.offset + line.archived
    values, present, _ = read_archived(connection, stored, columns, rows, line.offset, end)
    return np.concatenate([values, late], axis=1), np.concatenate([present, late_present])


def read_hot(
    connection: Connection, stored: StoredStream, line: Timeline, columns: Sequence[int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return values and presence of the hot records of a timeline."""
    sites = len(stored.layout.sites)
    if len(line) == line.archived:
        return unpack_columns(PackedBlocks.of(()), columns, sites, rows)
    late = RecordTimes(line.steps, line.micro_steps, line.times)[line.archived :]
    blocks, intact = read_blocks(connection, stored.id, late)
    values, present = unpack_columns(blocks, columns, sites, rows)
    if intact.all():
        return values, present
    whole = np.full((len(columns), len(late), values.shape[2]), np.nan)
    there = np.zeros((len(late), values.shape[2]), dtype=np.bool_)
    whole[:, intact], there[intact] = values, present
    return whole, there
