"""Chunks of one statistic of a group of sites over many records: written, found and read."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, select

from ..encoding.codec import decode_narrow, encode
from ..encoding.sequences import decode_flags
from ..schema.streams import Stream
from ..schema.tables import chunk

#: Sites that share a chunk, and records (or buckets) that it holds.
GROUP, LENGTH = 16, 256


def chunk_bytes(values: NDArray[np.float64], flags: bytes, code: int | None = None) -> bytes:
    """The values `(sites, records)` of one statistic, zero where missing; `read_chunk` gives them back.

    Args:
        flags: Which of them are there, as `encode_flags` has it: the same for all statistics.
        code: As `encode` takes it.
    """
    return len(flags).to_bytes(4, "little") + flags + encode(values, code)


def read_chunk(
    data: bytes, shape: tuple[int, int], rows: slice = slice(None)
) -> tuple[NDArray[Any], NDArray[np.bool_]]:  # Any: as narrow as it is stored
    """Values, NaN where missing, and presence of some rows of a chunk of that shape."""
    size = 4 + int.from_bytes(data[:4], "little")
    values = decode_narrow(data[size:], shape, rows)
    if size == 4:
        return values, np.ones(values.shape, dtype=np.bool_)
    present = decode_flags(data[4:size], shape)[rows]
    return np.where(present, values, np.nan), present


def select_chunks(
    one: Stream, tier: int, columns: Sequence[int], rows: slice, begin: int, end: int
) -> Select[Any]:  # Any: five columns, named in the docstring
    """The query for chunks of a tier that hold these rows of records from number `begin` to before `end`.

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
    connection: Connection, one: Stream, columns: Sequence[int], rows: slice, begin: int, end: int
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:  # Any: one of two widths
    """Values `(columns, records, rows)`, presence `(records, rows)`, and what of it a chunk holds at all.

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


def group_height(one: Stream, group: int) -> int:
    """How many sites a chunk of that group holds; group -1 holds all."""
    sites = len(one.layout.sites)
    return sites if group < 0 else min(GROUP, sites - group * GROUP)
