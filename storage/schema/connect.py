"""Engines for run files and databases, and the translation of their errors to `StoreError`s."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from ..errors import StoreDamaged, StoreError, StoreUnavailable

#: In this order: the page size and the vacuum mode only take effect before the first table and before WAL.
_WRITER_PRAGMAS = (
    "page_size = 4096",
    "auto_vacuum = INCREMENTAL",
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "wal_autocheckpoint = 0",
    "journal_size_limit = 67108864",
    "busy_timeout = 5000",
    "secure_delete = OFF",
    "foreign_keys = ON",
    "cache_size = -16384",
)
_READER_PRAGMAS = ("query_only = ON", "busy_timeout = 5000", "cache_size = -16384")


def file_writer(path: Path) -> Engine:
    """Return an engine with one connection that may write the file; every transaction takes the write lock when it
    begins."""
    engine = _file_engine(path, "rwc", pool_size=1, max_overflow=0)
    _on_connect(engine, _WRITER_PRAGMAS)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def file_reader(path: Path) -> Engine:
    """Return an engine whose connections read the file and never write, checkpoint or block its writer.

    On a read-only medium, where SQLite cannot create its log, the file is opened as immutable if no log is left over.
    """
    log = Path(f"{path}-wal")
    mode = "ro"
    if not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size):
        mode = "ro&immutable=1"
    engine = _file_engine(path, mode, pool_size=4, max_overflow=16)
    _on_connect(engine, _READER_PRAGMAS)
    event.listen(engine, "connect", _read_any_text)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def guard_forks(engine: Engine) -> None:
    """Make a connection that was opened before a fork unusable in the child: the pool opens a new one there."""

    @event.listens_for(engine, "connect")
    def _remember(_connection: object, record: Any) -> None:  # Any: SQLAlchemy's pool records
        record.info["pid"] = os.getpid()

    @event.listens_for(engine, "checkout")
    def _check(_connection: object, record: Any, proxy: Any) -> None:
        if record.info["pid"] != os.getpid():
            _inherited.append(record.dbapi_connection)
            record.dbapi_connection = proxy.dbapi_connection = None
            raise DisconnectionError(f"this connection belongs to process {record.info['pid']}")


#: Connections of a parent process: kept, because closing them here would disturb the parent's.
_inherited: list[object] = []


@contextmanager
def store_errors(location: object) -> Iterator[None]:
    """Translate errors of the database to `StoreError`s that name the location."""
    try:
        yield
    except DBAPIError as error:
        raise _translate(location, str(error.orig)) from error
    except UnicodeDecodeError as error:  # SQLite's own message quotes what is damaged
        raise _translate(location, "malformed names of its tables") from error
    except SQLAlchemyError as error:
        raise StoreError(f"{location}: {error}") from error


def _file_engine(path: Path, mode: str, **pool: int) -> Engine:
    target = f"sqlite+pysqlite:///file:{quote(str(path))}?mode={mode}&uri=true"
    engine = create_engine(target, poolclass=QueuePool, connect_args={"check_same_thread": False}, **pool)
    guard_forks(engine)
    return engine


def _on_connect(engine: Engine, pragmas: tuple[str, ...]) -> None:
    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _record: object) -> None:  # Any: the DBAPI's connection
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").fetchall()


def _read_any_text(connection: Any, _record: object) -> None:  # Any: the DBAPI's connection
    """Let checksums find what is no UTF-8, instead of the driver, which would refuse the other rows as well."""
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")


def _translate(location: object, message: str) -> StoreError:
    if (
        "malformed" in message
        or "not a database" in message
        or "no such table" in message
        or "no such column" in message
        or "Could not decode" in message
    ):
        return StoreDamaged(
            f"{location} cannot be read as a run: {message}; `mindscope verify --repair` mends what it can, "
            f"or restore it from a copy or delete it"
        )
    if "locked" in message:
        return StoreUnavailable(f"{location} is locked by another process for more than 5 s: {message}")
    if "full" in message:
        return StoreUnavailable(f"{location} cannot grow, the disk is full: {message}; free space and go on")
    return StoreUnavailable(f"{location} cannot be used: {message.strip()}; check that it exists and may be written")
