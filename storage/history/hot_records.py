"""The newest, not yet compacted records of a stream, and the timeline of all its records.

Records that were written together share a row. The row of a single record holds its packed block. The row of several
records holds their number, their steps, micro-steps and times, the lengths of their blocks, and the blocks; its own
step, micro-step and time are those of the first record.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, Connection, Row, bindparam, delete, func, or_, select

from ..encoding.block_packing import PACK_VERSION, PackedBlocks
from ..encoding.codec import decode_steps, encode_steps
from ..errors import StoreDamaged
from ..schema.row_statements import insert_rows, run_statement
from ..schema.table_definitions import hot, span, stream

#: A row of `hot`, possibly with only the first bytes of `data`. Any: the types of its columns.
_Row = Row[*tuple[Any, ...]]
#: The codec of a row of several records; that of a single record is `PACK_VERSION`.
_SEVERAL = PACK_VERSION + 1
#: Most records of a row: a reader of the newest records reads whole rows.
_MOST = 64
_COUNT = struct.Struct("<I")
#: Bytes at the start of a row that hold all its steps, micro-steps and times.
_LINE_BYTES = _COUNT.size + 24 * _MOST

# Built once: building a statement takes SQLAlchemy longer than running it.
_OF, _FIRST = bindparam("of", type_=BigInteger), bindparam("first", type_=BigInteger)
_EARLIER = select(func.max(hot.c.step)).where(hot.c.stream == _OF, hot.c.step < _FIRST).scalar_subquery()
_BETWEEN = (
    hot.c.stream == _OF,
    hot.c.step >= func.coalesce(_EARLIER, _FIRST),  # the row before may reach into it
    hot.c.step <= bindparam("last"),
)
_ORDER = (hot.c.step, hot.c.micro_step)
_LINES = select(
    hot.c.step, hot.c.micro_step, hot.c.time, hot.c.codec, func.substr(hot.c.data, 1, _LINE_BYTES).label("data")
)
_ROWS = select(hot.c.step, hot.c.micro_step, hot.c.time, hot.c.codec, hot.c.data)
_LINES_BETWEEN, _ROWS_BETWEEN = (query.where(*_BETWEEN).order_by(*_ORDER) for query in (_LINES, _ROWS))
_OLDEST = _ROWS.where(hot.c.stream == _OF).order_by(*_ORDER).limit(bindparam("count"))
_NEWEST = _LINES.where(hot.c.stream == _OF).order_by(hot.c.step.desc(), hot.c.micro_step.desc()).limit(1)
_UP_TO = delete(hot).where(
    hot.c.stream == _OF,
    or_(
        hot.c.step < bindparam("last"),
        (hot.c.step == bindparam("last")) & (hot.c.micro_step <= bindparam("micro_step")),
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class RecordTimes:
    """The steps and times of some records: `steps` and `micro_steps` `(n,)` int64, `times` float64."""

    steps: NDArray[np.int64]
    micro_steps: NDArray[np.int64]
    times: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, at: slice | list[int]) -> "RecordTimes":
        return RecordTimes(self.steps[at], self.micro_steps[at], self.times[at])

    @staticmethod
    def of(moments: Sequence[tuple[int, int, float]]) -> "RecordTimes":
        """Return the line of records by step, micro-step and time."""
        steps, micro_steps, times = zip(*moments, strict=True) if moments else ((), (), ())
        return RecordTimes(np.array(steps, np.int64), np.array(micro_steps, np.int64), np.array(times, np.float64))

    @staticmethod
    def joined(parts: Sequence["RecordTimes"]) -> "RecordTimes":
        """Return one line of all parts."""
        if not parts:
            return RecordTimes(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        if len(parts) == 1:
            return parts[0]
        columns = zip(*((part.steps, part.micro_steps, part.times) for part in parts), strict=True)
        return RecordTimes(*(np.concatenate(column) for column in columns))

    def tobytes(self) -> bytes:
        """Return its numbers, column by column."""
        columns = self.steps.astype("<i8"), self.micro_steps.astype("<i8"), self.times.astype("<f8")
        return b"".join(column.tobytes() for column in columns)


def hot_rows(
    key: int, line: RecordTimes, blocks: PackedBlocks
) -> Iterator[dict[str, Any]]:  # Any: values of any column
    """Yield the rows of `hot` for packed blocks of stream `key`, one of the line each."""
    for begin in range(0, len(blocks), _MOST):
        few, at = blocks[begin : begin + _MOST], line[begin : begin + _MOST]
        data, codec = few.data, PACK_VERSION
        if len(few) > 1:
            lengths = few.lengths.astype("<u4").tobytes()
            data, codec = b"".join((_COUNT.pack(len(few)), at.tobytes(), lengths, few.data)), _SEVERAL
        yield {
            "stream": key,
            "step": int(at.steps[0]),
            "micro_step": int(at.micro_steps[0]),
            "time": float(at.times[0]),
            "codec": codec,
            "data": data,
        }


def read_lines(connection: Connection, key: int, first: int, last: int) -> RecordTimes:
    """Return the steps and times of the hot records of a stream between two steps, both included."""
    found = connection.execute(_LINES_BETWEEN, {"of": key, "first": first, "last": last}).all()
    whole = RecordTimes.joined([_line(row) for row in found])
    return whole[_between(whole, first, last)]


def read_blocks(connection: Connection, key: int, first: int, last: int) -> PackedBlocks:
    """Return the packed blocks of the hot records of a stream between two steps, both included."""
    found = connection.execute(_ROWS_BETWEEN, {"of": key, "first": first, "last": last}).all()
    blocks = PackedBlocks.joined([_blocks(row) for row in found])
    return blocks[_between(RecordTimes.joined([_line(row) for row in found]), first, last)]


def take_oldest(connection: Connection, key: int, count: int) -> tuple[RecordTimes, PackedBlocks]:
    """Take the oldest hot records out of a stream: `count`, or as many as there are."""
    lines: list[RecordTimes] = []
    parts: list[PackedBlocks] = []
    last, found = (0, 0), 0
    with run_statement(connection, _OLDEST, {"of": key, "count": count}) as rows:
        for row in rows:
            last = (row.step, row.micro_step)
            lines.append(_line(row))
            parts.append(_blocks(row))
            found += len(parts[-1])
            if found >= count:
                break
    line, blocks = RecordTimes.joined(lines), PackedBlocks.joined(parts)
    if found:
        run_statement(connection, _UP_TO, {"of": key, "last": last[0], "micro_step": last[1]})
        insert_rows(connection, hot, list(hot_rows(key, line[count:], blocks[count:])))  # the rest of the last row
    return line[:count], blocks[:count]


def read_newest(connection: Connection, key: int) -> tuple[int, int] | None:
    """Return (step, micro-step) of the newest hot record of a stream; None when it has none."""
    row = connection.execute(_NEWEST, {"of": key}).one_or_none()
    if row is None:
        return None
    line = _line(row)
    return int(line.steps[-1]), int(line.micro_steps[-1])


def count_hot(connection: Connection, number: int) -> dict[int, int]:
    """Return the number of hot records by stream of recording `number`."""
    query = (
        select(hot.c.stream, hot.c.codec, func.substr(hot.c.data, 1, _COUNT.size))
        .join(stream, hot.c.stream == stream.c.id)
        .where(stream.c.recording == number)
    )
    counts: dict[int, int] = {}
    for key, codec, head in connection.execute(query):
        counts[key] = counts.get(key, 0) + (_COUNT.unpack(head)[0] if codec == _SEVERAL else 1)
    return counts


def _between(line: RecordTimes, first: int, last: int) -> slice:
    begin, end = np.searchsorted(line.steps, first, "left"), np.searchsorted(line.steps, last, "right")
    return slice(int(begin), int(end))


def _line(row: _Row) -> RecordTimes:
    """Return the steps and times of the records of a row; the first bytes of `data` are enough."""
    if row.codec != _SEVERAL:
        return RecordTimes(np.array([row.step]), np.array([row.micro_step]), np.array([row.time], dtype=np.float64))
    count = _size(row)
    if len(row.data) < _COUNT.size + 24 * count:
        raise _damaged(row)
    steps, micro_steps, times = np.frombuffer(row.data, "<i8", 3 * count, _COUNT.size).reshape(3, count)
    return RecordTimes(steps, micro_steps, times.view("<f8"))


def _blocks(row: _Row) -> PackedBlocks:
    """Return the packed blocks of a row."""
    if row.codec != _SEVERAL:
        return PackedBlocks.of([row.data])
    count = _size(row)
    at = _COUNT.size + 28 * count
    if len(row.data) < at:
        raise _damaged(row)
    lengths = np.frombuffer(row.data, "<u4", count, at - 4 * count)
    if at + int(lengths.sum()) != len(row.data):
        raise _damaged(row)
    return PackedBlocks(row.data[at:], lengths)


def _size(row: _Row) -> int:
    if len(row.data) < _COUNT.size:
        raise _damaged(row)
    count: int = _COUNT.unpack_from(row.data)[0]
    return count


def _damaged(row: _Row) -> StoreDamaged:
    return StoreDamaged(f"the newest records from step {row.step} on are shorter than their header says")


#: Bounds of a step that mean "from the start" and "to the end".
FIRST, LAST = -(2**62), 2**62

# Built once: building a statement takes SQLAlchemy longer than running it.
_SPANS = (
    select(span.c.first, span.c.data)
    .where(
        span.c.stream == bindparam("of"), span.c.last_step >= bindparam("low"), span.c.first_step <= bindparam("high")
    )
    .order_by(span.c.first)
)


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


def span_bytes(steps: NDArray[np.int64], micro_steps: NDArray[np.int64], times: NDArray[np.float64]) -> bytes:
    """Return steps, micro-steps and times of the records of a span."""
    parts = [encode_steps(steps), encode_steps(micro_steps), encode_steps(times)]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


@lru_cache(maxsize=512)  # a span is the same for every series of its stream, and took a fifth of reading one
def read_span(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return what `span_bytes` was given, as read-only arrays."""
    parts, at = [], 0
    for _ in range(3):
        size = int.from_bytes(data[at : at + 4], "little")
        parts.append(decode_steps(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return parts[0], parts[1], parts[2].view(np.float64)


def read_timeline(connection: Connection, key: int, first: int = FIRST, last: int = LAST) -> Timeline:
    """Return the records of stream `key` between two steps, both included."""
    found = connection.execute(_SPANS, {"of": key, "low": first, "high": last}).all()
    archived = RecordTimes.joined([RecordTimes(*read_span(data)) for _, data in found])
    begin, end = np.searchsorted(archived.steps, first, "left"), np.searchsorted(archived.steps, last, "right")
    whole = RecordTimes.joined([archived[int(begin) : int(end)], read_lines(connection, key, first, last)])
    return Timeline(
        offset=(found[0][0] if found else 0) + int(begin),
        archived=int(end - begin),
        steps=whole.steps,
        micro_steps=whole.micro_steps,
        times=whole.times,
    )
