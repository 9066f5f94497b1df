"""Statements that change and read the rows of a recording: its own row, its streams and its former structures."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    CursorResult,
    Dialect,
    Executable,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    insert,
    inspect,
    select,
    update,
)

from ..encoding.record_codec import read_layout, read_structure, structure_bytes
from ..records import Layout
from ..run_info import FormerStructure, Structure
from .table_definitions import event, former, histogram, hot, recording, stream


def touch(connection: Connection, number: int, **values: object) -> None:
    """Mark recording `number` as changed now by its writer, which is its heartbeat, and set values of its row."""
    changed = {"updated_at": time.time(), **values}
    new = {f"new_{name}": value for name, value in changed.items()}
    run_statement(connection, _touching(tuple(changed)), {"of": number, **new})


def mark_changed(connection: Connection, number: int) -> None:
    """Mark recording `number` as changed by another process; the heartbeat of its writer stays."""
    connection.execute(_touching(()), {"of": number})


@lru_cache(maxsize=16)  # building a statement takes SQLAlchemy longer than running it
def _touching(names: tuple[str, ...]) -> Update:
    new: dict[str, BindParameter[Any]] = {name: bindparam(f"new_{name}") for name in names}  # Any: of any column
    return update(recording).where(recording.c.id == bindparam("of")).values(revision=recording.c.revision + 1, **new)


def run_statement(
    connection: Connection, statement: Executable, values: Mapping[str, object]
) -> CursorResult[*tuple[Any, ...]]:  # Any: the statement's columns
    """Run a statement that is compiled once, in a third of SQLAlchemy's own time; return the result.

    Values pass to and from the driver as they are: plain numbers, text, bytes or None.
    """
    text, names, fixed = _compiled(statement, connection.dialect)
    given = {**fixed, **values}
    return connection.exec_driver_sql(text, tuple([given[name] for name in names]) if names else given)


@lru_cache(maxsize=32)
def _compiled(statement: Executable, dialect: Dialect) -> tuple[str, tuple[str, ...], dict[str, Any]]:  # Any: as above
    """Return the SQL of a statement for the driver, the order of its values (none if they go by name) and constants."""
    made = statement.compile(dialect=dialect)  # type: ignore[attr-defined]  # every statement of ours has it
    return str(made), tuple(made.positiontup or ()), dict(made.params)


def insert_rows(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:  # Any: values of any column
    """Insert rows, possibly none, with one statement.

    Values pass to the driver as they are: plain numbers, text, bytes or None, with the same columns in each row.
    """
    if rows:
        text, names = _insertion(table, connection.dialect, tuple(rows[0]))
        connection.exec_driver_sql(text, [tuple([row[name] for name in names]) for row in rows] if names else rows)


@lru_cache(maxsize=16)
def _insertion(table: Table, dialect: Dialect, columns: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the SQL of an insertion for the driver, and the order of its values (none if they go by name)."""
    made = insert(table).inline().compile(dialect=dialect, column_keys=list(columns))
    return str(made), tuple(made.positiontup or ())


def remove_record(connection: Connection, number: int, step: int, micro_step: int) -> None:
    """Remove a record, its histograms and its events from recording `number`; it must not share rows with others."""
    ours = hot.c.stream.in_(select(stream.c.id).where(stream.c.recording == number))
    connection.execute(delete(hot).where(ours, hot.c.step == step, hot.c.micro_step == micro_step))
    for table in (histogram, event):
        same = and_(table.c.recording == number, table.c.step == step, table.c.micro_step == micro_step)
        connection.execute(delete(table).where(same))


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
    """A stream and its number."""

    id: int
    layout: Layout


def earlier_layout(layout: Layout) -> Layout:
    """Return the layout of the stream for observations that join stored records of this layout."""
    return replace(layout, part=layout.part + EARLIER)


def shown_layout(layout: Layout) -> Layout:
    """Return the layout as its writer gave it."""
    return layout if layout.part < EARLIER else replace(layout, part=layout.part - EARLIER)


def read_streams(connection: Connection, number: int, subject: str | None = None) -> list[StoredStream]:
    """Return the streams of recording `number`, oldest first."""
    query = select(stream.c.id, stream.c.layout).where(stream.c.recording == number).order_by(stream.c.id)
    if subject is not None:
        query = query.where(stream.c.subject == subject)
    return [StoredStream(key, read_layout(data)) for key, data in connection.execute(query)]


#: Most former structures of a recording; later changes only replace the newest structure. Our choice: a megabyte for a
#: model of a thousand modules.
MOST_FORMER = 100


def keep_former(connection: Connection, number: int, data: bytes, last: tuple[int, int]) -> None:
    """Keep the structure of recording `number` that a new one replaces, for the records written under it.

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
    """Return the former structures of recording `number`, oldest first; none in a store of an older version."""
    if not inspect(connection).has_table(former.name):
        return ()
    query = select(former.c.step, former.c.micro_step, former.c.data).where(former.c.recording == number)
    rows = connection.execute(query.order_by(former.c.id)).all()
    return tuple(FormerStructure(row.step, row.micro_step, read_structure(row.data)) for row in rows)
