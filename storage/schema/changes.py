"""The few statements that change rows of a recording."""

import time
from collections.abc import Iterable, Mapping, Sequence
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
    select,
    update,
)

from .tables import event, histogram, hot, recording, stream


def touch(connection: Connection, number: int, **values: object) -> None:
    """Marks recording `number` as changed now by its writer, with new values for its row."""
    changed = {"updated_at": time.time(), **values}
    new = {f"new_{name}": value for name, value in changed.items()}
    run(connection, _touching(tuple(changed)), {"of": number, **new})


def mark_changed(connection: Connection, number: int) -> None:
    """Marks recording `number` as changed by somebody else, which is no sign of life of its writer."""
    connection.execute(_touching(()), {"of": number})


@lru_cache(maxsize=16)  # to put a statement together takes SQLAlchemy longer than to run it
def _touching(names: tuple[str, ...]) -> Update:
    new: dict[str, BindParameter[Any]] = {name: bindparam(f"new_{name}") for name in names}  # Any: of any column
    return update(recording).where(recording.c.id == bindparam("of")).values(revision=recording.c.revision + 1, **new)


def run(
    connection: Connection, statement: Executable, values: Mapping[str, object]
) -> CursorResult[*tuple[Any, ...]]:  # Any: the statement's columns
    """The answer to a statement that is made once, in a third of the time that SQLAlchemy takes for others.

    The driver gets the values, and the caller what it answers, as they are: plain numbers, text, bytes or None.
    """
    text, names, fixed = _words(statement, connection.dialect)
    given = {**fixed, **values}
    return connection.exec_driver_sql(text, tuple([given[name] for name in names]) if names else given)


@lru_cache(maxsize=32)
def _words(statement: Executable, dialect: Dialect) -> tuple[str, tuple[str, ...], dict[str, Any]]:  # Any: as above
    """A statement in the driver's own words, the order of its values (none if they go by name), and its constants."""
    made = statement.compile(dialect=dialect)  # type: ignore[attr-defined]  # every statement of ours has it
    return str(made), tuple(made.positiontup or ()), dict(made.params)


def insert_rows(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:  # Any: values of any column
    """Adds rows by one statement; none is fine.

    The driver gets the values as they are: they must be plain numbers, text, bytes or None, in one set of columns.
    """
    if rows:
        text, names = _insertion(table, connection.dialect, tuple(rows[0]))
        connection.exec_driver_sql(text, [tuple([row[name] for name in names]) for row in rows] if names else rows)


@lru_cache(maxsize=16)
def _insertion(table: Table, dialect: Dialect, columns: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The statement in the driver's own words, and the order of its values; none where it takes them by name."""
    made = insert(table).inline().compile(dialect=dialect, column_keys=list(columns))
    return str(made), tuple(made.positiontup or ())


def remove_record(connection: Connection, number: int, step: int, micro_step: int) -> None:
    """Removes from recording `number` a record that shares its rows with no other, and what is rare of it."""
    ours = hot.c.stream.in_(select(stream.c.id).where(stream.c.recording == number))
    connection.execute(delete(hot).where(ours, hot.c.step == step, hot.c.micro_step == micro_step))
    for table in (histogram, event):
        same = and_(table.c.recording == number, table.c.step == step, table.c.micro_step == micro_step)
        connection.execute(delete(table).where(same))


def replace_rows(
    connection: Connection, table: Table, number: int, rows: Iterable[dict[str, Any]], key: Sequence[str]
) -> None:
    """Adds rows to recording `number`, each in the place of the one with the same key."""
    for row in rows:
        same = and_(table.c.recording == number, *(table.c[name] == row[name] for name in key))
        connection.execute(table.delete().where(same))
        connection.execute(insert(table).values(recording=number, **row))
