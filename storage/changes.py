"""The few statements that change rows of a recording."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Table, and_, insert, update

from .tables import recording


def touch(connection: Connection, number: int, **values: object) -> None:
    """Marks recording `number` as changed now, with new values for its row."""
    changed: dict[str, Any] = {"updated_at": time.time(), "revision": recording.c.revision + 1, **values}
    connection.execute(update(recording).where(recording.c.id == number).values(**changed))


def insert_rows(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:  # Any: values of any column
    """Adds rows by one statement; none is fine."""
    if rows:
        connection.execute(insert(table), rows)


def replace_rows(
    connection: Connection, table: Table, number: int, rows: Iterable[dict[str, Any]], key: Sequence[str]
) -> None:
    """Adds rows to recording `number`, each in the place of the one with the same key."""
    for row in rows:
        same = and_(table.c.recording == number, *(table.c[name] == row[name] for name in key))
        connection.execute(table.delete().where(same))
        connection.execute(insert(table).values(recording=number, **row))
