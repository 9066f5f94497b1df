"""Statements that change and read the rows of a recording: its own row, its streams and its former structures."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Table,
    Update,
    and_,
    bindparam,
    case,
    cast,
    delete,
    extract,
    func,
    insert,
    inspect,
    null,
    select,
    update,
)

from ..damage import Damage, note_damage
from ..encoding.checksums import seal, unseal_frame
from ..encoding.record_codec import read_layout, read_structure, structure_bytes
from ..errors import StoreDamaged
from ..records import Layout
from ..run_info import FormerStructure, Structure
from .compiled_statements import run_statement
from .ledger import RARE, STRUCTURE, Ledger, check_count, read_ledger
from .table_definitions import former, hot, recording, stream

#: Unix seconds by the clock of a database server, which the hosts that write and read it share.
SERVER_TIME = cast(extract("epoch", func.clock_timestamp()), Double)


def time_of_store(connection: Connection) -> object:
    """Return the time now by the clock of a store, as a value of a column."""
    return SERVER_TIME if connection.dialect.name == "postgresql" else time.time()


def silence(connection: Connection) -> ColumnElement[Any]:  # Any: float or None
    """Return the column of the seconds since the last heartbeat of a recording; NULL where no server's clock tells."""
    is_server = connection.dialect.name == "postgresql"
    return (SERVER_TIME - recording.c.updated_at if is_server else null()).label("silent_s")


def touch(connection: Connection, number: int, **values: object) -> None:
    """Mark recording `number` as changed now by its writer, which is its heartbeat, and set values of its row."""
    is_server = connection.dialect.name == "postgresql"
    changed = values if is_server else {"updated_at": time.time(), **values}
    new = {f"new_{name}": value for name, value in changed.items()}
    run_statement(connection, _touching(tuple(changed), is_server=is_server), {"of": number, **new})


def mark_changed(connection: Connection, number: int) -> None:
    """Mark recording `number` as changed by another process; the heartbeat of its writer stays."""
    connection.execute(_touching(()), {"of": number})


@lru_cache(maxsize=16)  # building a statement takes SQLAlchemy longer than running it
def _touching(names: tuple[str, ...], *, is_server: bool = False) -> Update:
    new: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}  # Any: of any column
    if is_server:
        new["updated_at"] = SERVER_TIME
    return update(recording).where(recording.c.id == bindparam("of")).values(revision=recording.c.revision + 1, **new)


def remove_record(connection: Connection, number: int, step: int, micro_step: int, ledger: Ledger) -> None:
    """Remove a record, its histograms, events and attachments from recording `number`; it must share no rows.

    Args:
        ledger: Counts them no longer.
    """
    streams = hot.c.stream.in_(select(stream.c.id).where(stream.c.recording == number))
    ours = and_(streams, hot.c.step == step, hot.c.micro_step == micro_step)
    ledger.grow(dict.fromkeys(connection.execute(select(hot.c.stream).where(ours)).scalars(), -1))
    connection.execute(delete(hot).where(ours))
    for name in ("histograms", "events", "attachments"):
        table = RARE[name]
        same = and_(table.c.recording == number, table.c.step == step, table.c.micro_step == micro_step)
        ledger.count(name, -connection.execute(delete(table).where(same)).rowcount)


def replace_rows(
    connection: Connection, table: Table, number: int, rows: Iterable[dict[str, Any]], key: Sequence[str]
) -> None:
    """Add rows to recording `number`; each replaces the row with the same key."""
    for row in rows:
        same = and_(table.c.recording == number, *(table.c[name] == row[name] for name in key))
        connection.execute(table.delete().where(same))
        connection.execute(insert(table).values(recording=number, **row))


#: The stream with a row for every record: whether the step was skipped. Never shown as a layout.
STEP = "step"
STEP_LAYOUT = Layout(STEP, ("",), ("skipped",), ("uint64",))
#: The streams of scalars: their layouts have names as sites. Never shown as layouts.
SCALAR = "scalar"
#: Observations that join stored records have streams of their own, so that every stream only grows at its end. The
#: parts of their layouts are numbered from here on, and shown without this offset.
EARLIER = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream and its number.

    Args:
        records: How many records it has had; None in a recording of an older version, which did not count.
        whole_from: Numbers of the records from which on full resolution, and buckets of 16, are complete.
    """

    id: int
    layout: Layout
    records: int | None = None
    whole_from: tuple[int, int] | None = None


def earlier_layout(layout: Layout) -> Layout:
    """Return the layout of the stream for observations that join stored records of this layout."""
    return replace(layout, part=layout.part + EARLIER)


def shown_layout(layout: Layout) -> Layout:
    """Return the layout as its writer gave it."""
    return layout if layout.part < EARLIER else replace(layout, part=layout.part - EARLIER)


def read_streams(connection: Connection, number: int, subject: str | None = None) -> list[StoredStream]:
    """Return the streams of recording `number`, oldest first."""
    wanted = stream.c.layout if subject is None else case((stream.c.subject == subject, stream.c.layout))
    query = select(stream.c.id, stream.c.subject, stream.c.part, wanted.label("layout"))
    query = query.where(stream.c.recording == number).order_by(stream.c.id)
    ledger, found = read_ledger(connection, number), []
    rows = connection.execute(query).all()
    for row in rows:
        if subject is not None and row.subject != subject:
            continue
        try:
            layout = read_layout(unseal_frame(row.layout, number, row.subject, row.part))
        except (StoreDamaged, ValueError) as error:
            note_damage(Damage(f"the sites of {row.subject}", str(error)))
            continue
        counted = None if ledger is None else ledger.records.get(row.id, 0)
        thinned = None if ledger is None else ledger.thinned.get(row.id, (0, 0))
        found.append(StoredStream(row.id, layout, counted, thinned))
    if ledger is not None and (lost := len(ledger.records.keys() - {row.id for row in rows})):
        note_damage(Damage(f"{lost} of {len(ledger.records)} layouts", "they are missing"))
    return found


#: Most former structures of a recording; later changes only replace the newest structure. Our choice: a megabyte for a
#: model of a thousand modules.
MOST_FORMER = 100


def seal_structure(data: bytes, number: int) -> bytes:
    """Return the bytes of the structure of recording `number` as its row holds them."""
    return seal(data, "structure", number)


def stored_structure(connection: Connection, number: int) -> Structure:
    """Return the structure of recording `number`; an empty one before it is known, or where it is damaged."""
    known = connection.execute(select(recording.c.structure).where(recording.c.id == number)).scalar()
    if known is None:
        ledger = read_ledger(connection, number)
        if ledger is not None and ledger.rows.get(STRUCTURE):
            note_damage(Damage("the structure of the model", "it is missing"))
    try:
        return read_structure(None if known is None else unseal_frame(known, "structure", number))
    except (StoreDamaged, ValueError, KeyError, TypeError) as error:
        note_damage(Damage("the structure of the model", str(error)))
        return Structure()


def keep_former(connection: Connection, number: int, data: bytes, last: tuple[int, int]) -> bool:
    """Keep the structure of recording `number` that a new one replaces, for the records written under it.

    Args:
        data: The bytes of the new one.
        last: Step and micro-step of the newest record.

    Returns:
        Whether there was one to keep.
    """
    sealed = connection.execute(select(recording.c.structure).where(recording.c.id == number)).scalar()
    known = None if sealed is None else unseal_frame(sealed, "structure", number)
    if known in (None, data, structure_bytes(Structure())):
        return False
    ours = former.c.recording == number
    places = select(former.c.step, former.c.micro_step).where(ours).order_by(former.c.step, former.c.micro_step)
    before = [(-1, 0), *((row.step, row.micro_step) for row in connection.execute(places))]
    if len(before) <= MOST_FORMER and last > before[-1]:
        row = {"recording": number, "step": last[0], "micro_step": last[1], "data": seal(known, number, *last)}
        connection.execute(insert(former).values(**row))
        return True
    return False


def read_former(connection: Connection, number: int) -> tuple[FormerStructure, ...]:
    """Return the former structures of recording `number`, oldest first; none in a store of an older version."""
    if not inspect(connection).has_table(former.name):
        return ()
    query = select(former.c.step, former.c.micro_step, former.c.data).where(former.c.recording == number)
    found = []
    for row in connection.execute(query.order_by(former.c.id)):
        try:
            data = unseal_frame(row.data, number, row.step, row.micro_step)
            found.append(FormerStructure(row.step, row.micro_step, read_structure(data)))
        except (StoreDamaged, ValueError) as error:
            note_damage(Damage("a former structure of the model", str(error), last=row.step))
    check_count(connection, number, "former")
    return tuple(found)
