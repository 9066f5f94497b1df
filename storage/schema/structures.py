"""The structures that a model had before its newest one, and the records for which each of them holds."""

from sqlalchemy import Connection, insert, inspect, select

from ..encoding.descriptions import read_structure, structure_bytes
from ..run import FormerStructure, Structure
from .tables import former, recording

#: Structures that are kept of one recording; those of a model that changes more often are its newest from then on. Our
#: choice: a megabyte of a model of a thousand modules.
MOST_FORMER = 100


def keep_former(connection: Connection, number: int, data: bytes, last: tuple[int, int]) -> None:
    """Nothing; the structure of recording `number`, whose place another takes, is kept for the records that it had.

    Args:
        data: The bytes of the new one.
        last: Step and micro-step of the newest record.
    """
    known = connection.execute(select(recording.c.structure).where(recording.c.id == number)).scalar()
    if known in (None, data, structure_bytes(Structure())):
        return
    ours = former.c.recording == number
    places = select(former.c.step, former.c.micro_step).where(ours).order_by(former.c.step, former.c.micro_step)
    before = [(-1, 0), *((row.step, row.micro_step) for row in connection.execute(places))]
    if len(before) <= MOST_FORMER and last > before[-1]:
        row = {"recording": number, "step": last[0], "micro_step": last[1], "data": known}
        connection.execute(insert(former).values(**row))


def read_former(connection: Connection, number: int) -> tuple[FormerStructure, ...]:
    """The former structures of recording `number`, oldest first; none of a store made before they were kept."""
    if not inspect(connection).has_table(former.name):
        return ()
    query = select(former.c.step, former.c.micro_step, former.c.data).where(former.c.recording == number)
    rows = connection.execute(query.order_by(former.c.id)).all()
    return tuple(FormerStructure(row.step, row.micro_step, read_structure(row.data)) for row in rows)
