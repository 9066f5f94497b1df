"""Reads the rows of a SQLite file that is damaged, as far as SQLite can find them, and copies them to another."""

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Table

from ..errors import StoreDamaged

#: Rows are read in pieces of so many; where one fails, the numbers are halved until what cannot be read is alone.
_PIECE: Final = 256
#: After so many failures in a row, numbers are halved once less: of a table without a root, 2^63 would be asked for.
_FAILURES: Final = 256
#: The highest number that SQLite gives a row.
_LAST_ROW: Final = 2**63 - 1
_Row = tuple[Any, ...]  # Any: of any column


def open_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that reads a file, and text that is no UTF-8 as well."""
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    return connection


def copy_readable(source: sqlite3.Connection, target: sqlite3.Connection, table: Table) -> bool:
    """Copy the rows of a table that can be read; return whether there are others."""
    is_whole, statement = True, insert_statement(table, "IGNORE")
    for rows in readable_rows(source, table):
        is_whole &= rows is not None
        target.executemany(statement, map(_storable, rows or ()))
    return not is_whole


def readable_rows(source: sqlite3.Connection, table: Table) -> Iterator[list[_Row] | None]:
    """Yield the rows of a table in pieces, lowest number first, and None in place of numbers that cannot be read.

    The first column of a row is its number, the others are those of the table.

    Raises:
        StoreDamaged: The file has no such columns, or is no database.
    """
    last, failures = _last_row(source, table), 0
    waiting = [(1, last)] if last else []
    query = f"SELECT rowid, {column_names(table)} FROM {table.name} WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
    while waiting:
        low, high = waiting.pop()
        try:
            cursor = source.execute(query, (low, high))
            while rows := cursor.fetchmany(_PIECE):
                yield rows
                low, failures = rows[-1][0] + 1, 0
        except sqlite3.DatabaseError as error:
            if "malformed" not in str(error) and "disk I/O" not in str(error):
                raise StoreDamaged(f"table {table.name} cannot be read: {error}") from error
            if high - low < 1 << failures // _FAILURES:
                yield None
            else:
                middle = (low + high) // 2
                waiting += [(middle + 1, high), (low, middle)]
            failures += 1


def _last_row(source: sqlite3.Connection, table: Table) -> int:
    """Return the highest number of a row, or a bound of it where the file does not tell; 0 without such a table."""
    try:
        return int(source.execute(f"SELECT coalesce(max(rowid), 0) FROM {table.name}").fetchone()[0])
    except sqlite3.DatabaseError as error:
        return 0 if "no such table" in str(error) else _LAST_ROW


def column_names(table: Table) -> str:
    """Return the columns of a table as a statement names them."""
    return ", ".join(f'"{column.name}"' for column in table.columns)


def insert_statement(table: Table, otherwise: str) -> str:
    """Return a statement that inserts a row of all columns.

    Args:
        otherwise: What becomes of one that a constraint refuses: `IGNORE` or `REPLACE`.
    """
    marks = ", ".join("?" * len(table.columns))
    return f"INSERT OR {otherwise} INTO {table.name} ({column_names(table)}) VALUES ({marks})"


def _storable(row: _Row) -> _Row:
    """Return the columns of a row as they may be written: text that is no UTF-8 as the bytes that it was."""
    return tuple(_bytes_of(value) if isinstance(value, str) else value for value in row[1:])


def _bytes_of(text: str) -> str | bytes:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape")
    return text
