"""The streams of a recording: each a layout and a number."""

from dataclasses import dataclass, replace

from sqlalchemy import Connection, select

from ..encoding.descriptions import read_layout
from ..records import Layout
from .tables import stream

#: The stream that every record has a row in: whether the step was skipped. Never shown as a layout.
STEP = "step"
STEP_LAYOUT = Layout(STEP, ("",), ("skipped",), ("uint64",))
#: The streams of scalars: their names stand where sites stand elsewhere. Never shown as layouts.
SCALAR = "scalar"
#: What joins records that were there already stands in streams of its own, so that each grows at its end alone; their
#: layouts are numbered from here on, and shown without it.
EARLIER = 1 << 20


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream and its number."""

    id: int
    layout: Layout


def earlier_layout(layout: Layout) -> Layout:
    """The layout of the stream that holds what joins records of this layout's later."""
    return replace(layout, part=layout.part + EARLIER)


def shown_layout(layout: Layout) -> Layout:
    """The layout as its writer gave it."""
    return layout if layout.part < EARLIER else replace(layout, part=layout.part - EARLIER)


def read_streams(connection: Connection, number: int, subject: str | None = None) -> list[Stream]:
    """The streams of recording `number`, oldest first."""
    query = select(stream.c.id, stream.c.layout).where(stream.c.recording == number).order_by(stream.c.id)
    if subject is not None:
        query = query.where(stream.c.subject == subject)
    return [Stream(key, read_layout(data)) for key, data in connection.execute(query)]
