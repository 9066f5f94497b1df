"""Reads one stream of a recording: which records it holds, and the values of some sites and statistics in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, select

from .codec import decode, decode_flags, decode_steps, encode, encode_flags, encode_steps
from .layout import unpack_columns
from .records import Layout
from .rows import read_layout
from .tables import chunk, hot, span, stream

#: The stream that every record has a row in: whether the step was skipped. Never shown as a layout.
STEP = "step"
STEP_LAYOUT = Layout(STEP, ("",), ("skipped",), ("uint64",))
#: The streams of scalars: their names stand where sites stand elsewhere. Never shown as layouts.
SCALAR = "scalar"
#: Sites that share a chunk, and records (or buckets) that it holds.
GROUP, LENGTH = 16, 256
#: Bounds of a step that mean "from the start" and "to the end".
FIRST, LAST = -(2**62), 2**62


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream and its number."""

    id: int
    layout: Layout


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The records of a stream in a range of steps: those in chunks first, then the hot ones.

    Args:
        offset: Number, in the stream, of the first record here that is in chunks.
        archived: How many of the records here are in chunks.
        steps: `(n,)` int64, as `micro_steps`; `times` float64.
    """

    offset: int
    archived: int
    steps: NDArray[np.int64]
    micro_steps: NDArray[np.int64]
    times: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)


def read_streams(connection: Connection, number: int, subject: str | None = None) -> list[Stream]:
    """The streams of recording `number`, oldest first."""
    query = select(stream.c.id, stream.c.layout).where(stream.c.recording == number).order_by(stream.c.id)
    if subject is not None:
        query = query.where(stream.c.subject == subject)
    return [Stream(key, read_layout(data)) for key, data in connection.execute(query)]


def span_bytes(steps: NDArray[np.int64], micro_steps: NDArray[np.int64], times: NDArray[np.float64]) -> bytes:
    """Steps, micro-steps and times of the records of a span."""
    parts = [encode_steps(steps), encode_steps(micro_steps), encode_steps(times)]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def read_span(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """What `span_bytes` was given."""
    parts, at = [], 0
    for _ in range(3):
        size = int.from_bytes(data[at : at + 4], "little")
        parts.append(decode_steps(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return parts[0], parts[1], parts[2].view(np.float64)


def read_timeline(connection: Connection, key: int, first: int = FIRST, last: int = LAST) -> Timeline:
    """The records of stream `key` between two steps, both included."""
    found = connection.execute(
        select(span.c.first, span.c.data)
        .where(span.c.stream == key, span.c.last_step >= first, span.c.first_step <= last)
        .order_by(span.c.first)
    ).all()
    newest = connection.execute(
        select(hot.c.step, hot.c.micro_step, hot.c.time)
        .where(hot.c.stream == key, hot.c.step.between(first, last))
        .order_by(hot.c.step, hot.c.micro_step)
    ).all()
    spans = [read_span(data) for _, data in found]
    steps, micro_steps, times = (
        (np.concatenate([one[at] for one in spans]) if spans else np.empty(0, np.int64)) for at in range(3)
    )
    begin, end = np.searchsorted(steps, first, "left"), np.searchsorted(steps, last, "right")
    late = tuple(zip(*newest, strict=True)) or ((), (), ())
    return Timeline(
        offset=(found[0][0] if found else 0) + int(begin),
        archived=int(end - begin),
        steps=np.concatenate([steps[begin:end], np.array(late[0], dtype=np.int64)]),
        micro_steps=np.concatenate([micro_steps[begin:end], np.array(late[1], dtype=np.int64)]),
        times=np.concatenate([times[begin:end].astype(np.float64), np.array(late[2], dtype=np.float64)]),
    )


def read_values(
    connection: Connection, one: Stream, line: Timeline, columns: Sequence[int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values `(columns, records, rows)` and presence `(records, rows)` at full resolution.

    What retention has thinned away is not present.
    """
    late, late_present = read_hot(connection, one, line, columns, rows)
    if not line.archived:
        return late, late_present
    end = line.offset + line.archived
    values, present, _ = read_archived(connection, one, columns, rows, line.offset, end)
    return np.concatenate([values, late], axis=1), np.concatenate([present, late_present])


def read_hot(
    connection: Connection, one: Stream, line: Timeline, columns: Sequence[int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values and presence of the hot records of a timeline."""
    blocks: Sequence[bytes] = ()
    if len(line) > line.archived:
        first, last = int(line.steps[line.archived]), int(line.steps[-1])
        query = (
            select(hot.c.data)
            .where(hot.c.stream == one.id, hot.c.step.between(first, last))
            .order_by(hot.c.step, hot.c.micro_step)
        )
        blocks = connection.execute(query).scalars().all()
    return unpack_columns(blocks, columns, len(one.layout.sites), rows)


def chunk_bytes(values: NDArray[np.float64], present: NDArray[np.bool_], code: int | None = None) -> bytes:
    """The values `(sites, records)` of one statistic and which of them are there; `read_chunk` gives both back."""
    flags = encode_flags(present)
    return len(flags).to_bytes(4, "little") + flags + encode(np.where(present, values, 0.0), code)


def read_chunk(
    data: bytes, shape: tuple[int, int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values, NaN where missing, and presence of some rows of a chunk of that shape."""
    size = 4 + int.from_bytes(data[:4], "little")
    values = decode(data[size:], shape, rows)
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
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Values `(columns, records, rows)`, presence `(records, rows)`, and what of it a chunk holds at all."""
    start, stop, _ = rows.indices(len(one.layout.sites))
    values = np.full((len(columns), end - begin, stop - start), np.nan)
    present, found = np.zeros((2, end - begin, stop - start), dtype=np.bool_)
    place = {column: at for at, column in enumerate(columns)}
    for column, group, first, count, data in connection.execute(select_chunks(one, 1, columns, rows, begin, end)):
        site = group * GROUP
        low, high = max(site, start), min(site + GROUP, stop)
        block, flags = read_chunk(data, (group_height(one, group), count), slice(low - site, high - site))
        early, late = max(first, begin), min(first + count, end)
        source = (slice(None), slice(early - first, late - first))
        target = (slice(early - begin, late - begin), slice(low - start, high - start))
        values[(place[column], *target)] = block[source].T
        present[target] = flags[source].T
        found[target] = True
    return values, present, found


def group_height(one: Stream, group: int) -> int:
    """How many sites a chunk of that group holds; group -1 holds all."""
    sites = len(one.layout.sites)
    return sites if group < 0 else min(GROUP, sites - group * GROUP)
