"""Rows that go to PostgreSQL with COPY, which takes them in one message and parses no statement per row."""

from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Double, Integer, LargeBinary, Table
from sqlalchemy.exc import DBAPIError

_TYPES = ((BigInteger, "int8"), (Integer, "int4"), (Double, "float8"), (LargeBinary, "bytea"))


def copy_rows(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:  # Any: of any column
    """Insert rows with the same columns each; errors are those of an insertion."""
    columns = tuple(rows[0])
    statement, types = _copying(table, columns)
    dialect, driver = connection.dialect, connection.connection
    cursor: Any = driver.cursor()  # Any: of psycopg, which is optional
    try:
        with cursor.copy(statement) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row([row[name] for name in columns])
    except dialect.loaded_dbapi.Error as error:  # not a statement of SQLAlchemy's, which would do the following
        is_gone = dialect.is_disconnect(error, driver.dbapi_connection, cursor)
        if is_gone:
            connection.invalidate(error)
        base = dialect.loaded_dbapi.Error
        raise DBAPIError.instance(
            statement, None, error, base, connection_invalidated=is_gone, dialect=dialect
        ) from error
    finally:
        cursor.close()


@lru_cache(maxsize=16)
def _copying(table: Table, columns: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the statement, and the server's names of the columns' types."""
    names = ", ".join(f'"{name}"' for name in columns)
    return f'COPY "{table.name}" ({names}) FROM STDIN (FORMAT BINARY)', tuple(_type(table.c[name]) for name in columns)


def _type(column: Column[Any]) -> str:  # Any: of any type
    return next((name for kind, name in _TYPES if isinstance(column.type, kind)), "text")
