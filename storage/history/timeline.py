"""The timeline of a stream: the steps and times of all its records, in chunks (by their spans) and hot."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, and_, bindparam, case, func, select

from ..damage import Damage, note_damage
from ..encoding.checksums import seal, unseal
from ..encoding.codec import decode_steps, encode_steps
from ..errors import StoreDamaged
from ..schema.table_definitions import span
from .hot_records import RecordTimes, find_holes, read_lines

#: A row of `span`. Any: the types of its columns.
_Row = Row[*tuple[Any, ...]]

#: Bounds of a step that mean "from the start" and "to the end".
FIRST, LAST = -(2**62), 2**62

#: The codec of spans and chunks with checksums; 1 is that of older versions.
SEALED = 12

# Built once: building a statement takes SQLAlchemy longer than running it.
SPAN = select(span.c.first, span.c.count.label("size"), span.c.first_step, span.c.last_step, span.c.codec, span.c.data)
_SPANS = SPAN.where(
    span.c.stream == bindparam("of"), span.c.last_step >= bindparam("low"), span.c.first_step <= bindparam("high")
).order_by(span.c.first)
#: How many records the spans of a stream tell, those in no range of steps left out, and the number after the last one.
_EXTENT = select(
    func.coalesce(
        func.sum(case((and_(span.c.first_step <= LAST, span.c.last_step >= FIRST), span.c.count), else_=0)), 0
    ),
    func.coalesce(func.max(span.c.first + span.c.count), 0),
).where(span.c.stream == bindparam("of"))


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The records of a stream in a range of steps: those in chunks first, then the hot ones.

    Args:
        offset: Number, in the stream, of the first record here that is in chunks.
        archived: How many of the records here are in chunks.
        steps: `(n,)` int64, as `micro_steps`; `times` float64.
        lost: `(n,)` bool, whether the steps of a record cannot be read; None for none.
    """

    offset: int
    archived: int
    steps: NDArray[np.int64]
    micro_steps: NDArray[np.int64]
    times: NDArray[np.float64]
    lost: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.steps)


def span_row(key: int, first: int, line: RecordTimes) -> dict[str, Any]:  # Any: values of any column
    """Return the row of `span` for the records of a stream from number `first` on."""
    parts = [encode_steps(line.steps), encode_steps(line.micro_steps), encode_steps(line.times)]
    data = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    bounds = first, len(line), int(line.steps[0]), int(line.steps[-1])
    return {
        "stream": key,
        **dict(zip(("first", "count", "first_step", "last_step"), bounds, strict=True)),
        "codec": SEALED,
        "data": seal(data, key, *bounds),
    }


def read_span(key: int, row: _Row) -> RecordTimes:
    """Return the steps and times of the records of a row of `span`, read-only.

    Raises:
        StoreDamaged: It is not what was written.
    """
    if row.codec not in (1, SEALED):
        raise StoreDamaged("its codec is unknown")
    place = key, row.first, row.size, row.first_step, row.last_step
    line = _span(row.data, place if row.codec == SEALED else None)
    if len(line) != row.size:
        raise StoreDamaged("it holds another number of records than it says")
    return line


@lru_cache(maxsize=512)  # a span is the same for every series of its stream, and took a fifth of reading one
def _span(data: bytes, place: tuple[int, ...] | None) -> RecordTimes:
    parts, at = [], 0
    content = data if place is None else unseal(data, *place)
    for _ in range(3):
        size = int.from_bytes(content[at : at + 4], "little")
        parts.append(decode_steps(content[at + 4 : at + 4 + size]))
        at += 4 + size
    return RecordTimes(parts[0], parts[1], parts[2].view(np.float64))


def read_timeline(connection: Connection, key: int, first: int = FIRST, last: int = LAST) -> Timeline:
    """Return the records of stream `key` between two steps, both included."""
    found = connection.execute(_SPANS, {"of": key, "low": first, "high": last}).all()
    spans = [(row.first, line) for row in found if (line := _intact_span(key, row)) is not None]
    archived, lost = _joined_spans(spans)
    begin, end = np.searchsorted(archived.steps, first, "left"), np.searchsorted(archived.steps, last, "right")
    hot_line = read_lines(connection, key, first, last)
    whole = RecordTimes.joined([archived[int(begin) : int(end)], hot_line])
    return Timeline(
        offset=(spans[0][0] if spans else 0) + int(begin),
        archived=int(end - begin),
        steps=whole.steps,
        micro_steps=whole.micro_steps,
        times=whole.times,
        lost=None if lost is None else np.append(lost[int(begin) : int(end)], np.zeros(len(hot_line), np.bool_)),
    )


def _intact_span(key: int, row: _Row) -> RecordTimes | None:
    """Return what is in a row of `span`; note damage and return None where it cannot be read."""
    try:
        return read_span(key, row)
    except (StoreDamaged, ValueError) as error:
        note_damage(Damage("steps and times", str(error), first=row.first_step, last=row.last_step))
        return None


def _joined_spans(spans: Sequence[tuple[int, RecordTimes]]) -> tuple[RecordTimes, NDArray[np.bool_] | None]:
    """Return one line from the first span to the last, and which records of it no span tells; None for none.

    A record of which nothing is known has the step and time of the one before.
    """
    whole = RecordTimes.joined([line for _, line in spans])
    if not spans or spans[-1][0] + len(spans[-1][1]) - spans[0][0] == len(whole):
        return whole, None
    numbers = np.concatenate([np.arange(first, first + len(line)) for first, line in spans]) - spans[0][0]
    at = np.searchsorted(numbers, np.arange(numbers[-1] + 1), "right") - 1
    lost = np.ones(len(at), dtype=np.bool_)
    lost[numbers] = False
    return RecordTimes(whole.steps[at], whole.micro_steps[at], whole.times[at]), lost


def count_archived(connection: Connection, key: int) -> int:
    """Return how many records of a stream are in chunks."""
    return int(connection.execute(_EXTENT, {"of": key}).one()[1])


def check_extent(connection: Connection, key: int, records: int) -> list[tuple[int | None, int | None]]:
    """Return the (first, last) steps of records of a stream that are missing; None where no bound is known.

    Args:
        records: How many the stream has had.
    """
    count, end = connection.execute(_EXTENT, {"of": key}).one()
    holes: list[tuple[int | None, int | None]] = [] if count == end else _span_holes(connection, key, int(end))
    return holes + find_holes(connection, key, int(end), records)


def _span_holes(connection: Connection, key: int, end: int) -> list[tuple[int | None, int | None]]:
    """Return the (first, last) steps that are missing between the spans of a stream, and behind them up to `end`."""
    holes: list[tuple[int | None, int | None]] = []
    at, last = 0, None
    for row in connection.execute(_SPANS, {"of": key, "low": FIRST, "high": LAST}):
        if not (isinstance(row.first, int) and isinstance(row.size, int)):
            continue  # a damaged row tells nothing
        if row.first != at:
            holes.append((None if last is None else last + 1, row.first_step - 1))
        at, last = row.first + row.size, row.last_step
    return holes if at >= end else [*holes, (None if last is None else last + 1, None)]
