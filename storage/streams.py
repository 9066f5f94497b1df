"""The streams of a recording: each a layout and a number."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from .descriptions import read_layout
from .records import Layout
from .tables import stream

#: The stream that every record has a row in: whether the step was skipped. Never shown as a layout.
STEP = "step"
STEP_LAYOUT = Layout(STEP, ("",), ("skipped",), ("uint64",))
#: The streams of scalars: their names stand where sites stand elsewhere. Never shown as layouts.
SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream and its number."""

    id: int
    layout: Layout


def read_streams(connection: Connection, number: int, subject: str | None = None) -> list[Stream]:
    """The streams of recording `number`, oldest first."""
    query = select(stream.c.id, stream.c.layout).where(stream.c.recording == number).order_by(stream.c.id)
    if subject is not None:
        query = query.where(stream.c.subject == subject)
    return [Stream(key, read_layout(data)) for key, data in connection.execute(query)]
