"""The newest, not yet compacted records of a stream.

Records that were written together share a row. It holds two checksums, how many records it has, the number of the first
one in the stream, their steps, micro-steps and times, the lengths of their blocks, and the blocks; its own step,
micro-step and time are those of the first record. The first checksum is of everything, the second of all but the
blocks, so that the times can be read alone.

Rows of older versions have no checksums and no number: a single record is its packed block, several have a shorter
header.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, Connection, Row, bindparam, delete, func, or_, select

from ..damage import Damage, note_damage
from ..encoding.block_packing import PACK_VERSION, PackedBlocks
from ..encoding.checksums import ChecksumDiffers, checksum
from ..errors import StoreDamaged
from ..schema.compiled_statements import insert_rows, run_statement
from ..schema.table_definitions import hot, stream

#: A row of `hot`, possibly with only the first bytes of `data`. Any: the types of its columns.
_Row = Row[*tuple[Any, ...]]
_Part = TypeVar("_Part")
#: The codecs of rows without checksums: of a single record, and of several.
_SINGLE, _SEVERAL = PACK_VERSION, PACK_VERSION + 1
#: The codec of a row with checksums: more than one bit from the others.
_SEALED = 12
#: Most records of a row: a reader of the newest records reads whole rows.
_MOST = 64
_COUNT = struct.Struct("<I")
#: The checksum of all that follows, that of the head, how many records, and the number of the first one.
_HEAD = struct.Struct("<IIIq")
#: Bytes at the start of a row that hold all its steps, micro-steps and times, and the lengths of its blocks.
_LINE_BYTES = _HEAD.size + 28 * _MOST

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
_ALL_LINES = _LINES.where(hot.c.stream == _OF).order_by(*_ORDER)
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
    key: int, first: int, line: RecordTimes, blocks: PackedBlocks
) -> Iterator[dict[str, Any]]:  # Any: values of any column
    """Yield the rows of `hot` for packed blocks of stream `key`, one of the line each.

    Args:
        first: Number of the first record in the stream.
    """
    for begin in range(0, len(blocks), _MOST):
        few, at = blocks[begin : begin + _MOST], line[begin : begin + _MOST]
        head = at.tobytes() + few.lengths.astype("<u4").tobytes()
        place = key, int(at.steps[0]), int(at.micro_steps[0]), float(at.times[0]), len(few), first + begin
        data = b"".join((_HEAD.pack(0, checksum(head, *place), len(few), first + begin)[4:], head, few.data))
        yield {
            "stream": key,
            "step": place[1],
            "micro_step": place[2],
            "time": place[3],
            "codec": _SEALED,
            "data": checksum(data, *place[:4]).to_bytes(4, "little") + data,
        }


def read_lines(connection: Connection, key: int, first: int, last: int) -> RecordTimes:
    """Return the steps and times of the hot records of a stream between two steps, both included."""
    found = connection.execute(_LINES_BETWEEN, {"of": key, "first": first, "last": last}).all()
    whole = RecordTimes.joined([_read(_line, key, row) or _NO_TIMES for row in found])
    return whole[_between(whole, first, last)]


def read_blocks(connection: Connection, key: int, line: RecordTimes) -> tuple[PackedBlocks, NDArray[np.bool_]]:
    """Return the packed blocks of the records of a line, and which of them could be read.

    Args:
        line: Consecutive hot records of the stream, as `read_lines` returns them.
    """
    first, last = int(line.steps[0]), int(line.steps[-1])
    found = connection.execute(_ROWS_BETWEEN, {"of": key, "first": first, "last": last}).all()
    intact = [(times, few) for row in found if (times := _read(_line, key, row)) and (few := _read(_blocks, key, row))]
    times, blocks = RecordTimes.joined([at for at, _ in intact]), PackedBlocks.joined([few for _, few in intact])
    wanted = _between(times, first, last)
    times, blocks = times[wanted], blocks[wanted]
    if len(times) == len(line):
        return blocks, np.ones(len(line), dtype=np.bool_)
    known = set(zip(times.steps.tolist(), times.micro_steps.tolist(), strict=True))
    at = zip(line.steps.tolist(), line.micro_steps.tolist(), strict=True)
    return blocks, np.array([moment in known for moment in at], dtype=np.bool_)


def take_oldest(connection: Connection, key: int, first: int, count: int) -> tuple[RecordTimes, PackedBlocks]:
    """Take the oldest hot records out of a stream: `count`, or as many as there are.

    Args:
        first: Number of the oldest one in the stream.

    Raises:
        StoreDamaged: One of them is damaged or missing; nothing was taken.
    """
    lines: list[RecordTimes] = []
    parts: list[PackedBlocks] = []
    last, found = (0, 0), 0
    with run_statement(connection, _OLDEST, {"of": key, "count": count}) as rows:
        for row in rows:
            if row.codec == _SEALED and first_of_row(row) != first + found:
                raise StoreDamaged(f"records before step {row.step} are missing")
            last = (row.step, row.micro_step)
            lines.append(_line(key, row))
            parts.append(_blocks(key, row))
            found += len(parts[-1])
            if found >= count:
                break
    line, blocks = RecordTimes.joined(lines), PackedBlocks.joined(parts)
    if found:
        run_statement(connection, _UP_TO, {"of": key, "last": last[0], "micro_step": last[1]})
        rest = hot_rows(key, first + count, line[count:], blocks[count:])  # the rest of the last row
        insert_rows(connection, hot, list(rest))
    return line[:count], blocks[:count]


def read_newest(connection: Connection, key: int) -> tuple[int, int] | None:
    """Return (step, micro-step) of the newest hot record of a stream; None when it has none."""
    row = connection.execute(_NEWEST, {"of": key}).one_or_none()
    if row is None:
        return None
    line = _line(key, row)
    return int(line.steps[-1]), int(line.micro_steps[-1])


def count_hot(connection: Connection, number: int) -> dict[int, int]:
    """Return the number of hot records by stream of recording `number`."""
    query = (
        select(hot.c.stream, hot.c.codec, func.substr(hot.c.data, 1, _HEAD.size).label("data"))
        .join(stream, hot.c.stream == stream.c.id)
        .where(stream.c.recording == number)
    )
    counts: dict[int, int] = {}
    for row in connection.execute(query):
        counts[row.stream] = counts.get(row.stream, 0) + _size(row)
    return counts


def find_holes(connection: Connection, key: int, begin: int, end: int) -> list[tuple[int | None, int | None]]:
    """Return the (first, last) steps of hot records of a stream that are missing; None where no bound is known.

    Args:
        begin: Number of the first record that is not in chunks.
        end: Number of records that the stream has had.
    """
    holes: list[tuple[int | None, int | None]] = []
    at, last = begin, None
    for row in connection.execute(_ALL_LINES, {"of": key}):
        if row.codec != _SEALED:
            at, last = at + _size(row), row.step
            continue
        line = _read(_line, key, row)
        if line is None:
            continue
        if first_of_row(row) > at:
            holes.append((None if last is None else last + 1, max(row.step - 1, last or 0)))
        at, last = first_of_row(row) + len(line), int(line.steps[-1])
    if at < end:
        holes.append((None if last is None else last + 1, None))
    return holes


def check_hot_row(row: Any) -> None:  # Any: a row of `hot`, its columns as attributes
    """Raise `StoreDamaged` if a row of `hot` is not what was written."""
    _line(row.stream, row)
    _blocks(row.stream, row)


def first_of_row(row: Any) -> int:  # Any: as above
    """Return the number of the first record of a row; 0 in a row of an older version."""
    return int(_HEAD.unpack_from(row.data)[3]) if row.codec == _SEALED else 0


def _between(line: RecordTimes, first: int, last: int) -> slice:
    begin, end = np.searchsorted(line.steps, first, "left"), np.searchsorted(line.steps, last, "right")
    return slice(int(begin), int(end))


def _read(read: Callable[[int, _Row], _Part], key: int, row: _Row) -> _Part | None:
    """Return what is in a row; note damage and return None where it cannot be read."""
    try:
        return read(key, row)
    except (StoreDamaged, TypeError, ValueError) as error:  # TypeError: text where there were bytes
        note_damage(Damage("records", str(error), first=row.step))
        return None


def _line(key: int, row: _Row) -> RecordTimes:
    """Return the steps and times of the records of a row; the first bytes of `data` are enough."""
    if row.codec == _SINGLE:
        return RecordTimes(np.array([row.step]), np.array([row.micro_step]), np.array([row.time], dtype=np.float64))
    count, start = _size(row), _start(row)
    if len(row.data) < start + 24 * count:
        raise _damaged(row)
    if row.codec == _SEALED:
        head = row.data[start : start + 28 * count]
        if _HEAD.unpack_from(row.data)[1] != checksum(
            head, key, row.step, row.micro_step, row.time, count, first_of_row(row)
        ):
            raise ChecksumDiffers
    steps, micro_steps, times = np.frombuffer(row.data, "<i8", 3 * count, start).reshape(3, count)
    return RecordTimes(steps, micro_steps, times.view("<f8"))


def _blocks(key: int, row: _Row) -> PackedBlocks:
    """Return the packed blocks of a row."""
    if row.codec == _SINGLE:
        return PackedBlocks.of([row.data])
    if row.codec == _SEALED and int.from_bytes(row.data[:4], "little") != checksum(
        row.data[4:], key, row.step, row.micro_step, row.time
    ):
        raise ChecksumDiffers
    count = _size(row)
    at = _start(row) + 28 * count
    if len(row.data) < at:
        raise _damaged(row)
    lengths = np.frombuffer(row.data, "<u4", count, at - 4 * count)
    if at + int(lengths.sum()) != len(row.data):
        raise _damaged(row)
    return PackedBlocks(row.data[at:], lengths)


def _size(row: _Row) -> int:
    """Return how many records a row holds."""
    if row.codec == _SINGLE:
        return 1
    if row.codec not in (_SEVERAL, _SEALED) or len(row.data) < _start(row):
        raise _damaged(row)
    count: int = _HEAD.unpack_from(row.data)[2] if row.codec == _SEALED else _COUNT.unpack_from(row.data)[0]
    if count > _MOST:
        raise _damaged(row)
    return count


def _start(row: _Row) -> int:
    """Return where the steps of a row begin."""
    return _HEAD.size if row.codec == _SEALED else _COUNT.size


def _damaged(row: _Row) -> StoreDamaged:
    return StoreDamaged("its row is shorter than its header says, or of an unknown kind")


_NO_TIMES = RecordTimes(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
