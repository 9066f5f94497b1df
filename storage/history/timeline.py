"""Which records a stream holds: their steps, micro-steps and times."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, select

from ..encoding.sequences import decode_steps, encode_steps
from ..schema.tables import span
from .hot import Line, read_lines

#: Bounds of a step that mean "from the start" and "to the end".
FIRST, LAST = -(2**62), 2**62

# Made once: to put a statement together takes SQLAlchemy longer than to run it.
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
    """Steps, micro-steps and times of the records of a span."""
    parts = [encode_steps(steps), encode_steps(micro_steps), encode_steps(times)]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


@lru_cache(maxsize=512)  # a span is the same for every series of its stream, and took a fifth of reading one
def read_span(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """What `span_bytes` was given; arrays that are not to be written to."""
    parts, at = [], 0
    for _ in range(3):
        size = int.from_bytes(data[at : at + 4], "little")
        parts.append(decode_steps(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return parts[0], parts[1], parts[2].view(np.float64)


def read_timeline(connection: Connection, key: int, first: int = FIRST, last: int = LAST) -> Timeline:
    """The records of stream `key` between two steps, both included."""
    found = connection.execute(_SPANS, {"of": key, "low": first, "high": last}).all()
    archived = Line.joined([Line(*read_span(data)) for _, data in found])
    begin, end = np.searchsorted(archived.steps, first, "left"), np.searchsorted(archived.steps, last, "right")
    whole = Line.joined([archived[int(begin) : int(end)], read_lines(connection, key, first, last)])
    return Timeline(
        offset=(found[0][0] if found else 0) + int(begin),
        archived=int(end - begin),
        steps=whole.steps,
        micro_steps=whole.micro_steps,
        times=whole.times,
    )
