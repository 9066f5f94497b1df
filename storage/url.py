"""Opens the store of a URL: a folder, one run's file, a PostgreSQL database, or memory."""

from pathlib import Path
from typing import Literal

from .database.database_store import DatabaseStore
from .database.folder_backend import FolderBackend, run_files
from .database.postgres_backend import PostgresBackend, connect_database, migrate_database
from .errors import InvalidName, StoreUnavailable, nearest, without_passwords
from .history.compaction import Retention
from .memory_store import MemoryStore
from .schema.connect import file_writer, store_errors
from .schema.table_definitions import upgrade
from .store import Store
from .streams.stream_store import StreamStore, not_readable
from .streams.stream_url import is_stream, open_transport

_SCHEMES = ("postgresql+psycopg", "memory", "nats", "kafka")


def open_store(
    url: str | Path, *, retention: Retention | None = None, on_damage: Literal["raise", "log"] = "raise"
) -> Store:
    """Open the store at `url`: `runs/`, one run file `x.rank0.db`, `postgresql+psycopg://...`, `memory:`, or the
    writing side of a stream, `nats://...` or `kafka://...`.

    A folder that is not there yet is an empty store; it is made when the first run begins.

    Args:
        retention: How many records of new runs stay in full resolution; a store in memory keeps all.
        on_damage: What happens when something of a run is not what was written: an error whose `rest` is what could be
            read, or a logged error, after which the rest is returned.

    Raises:
        InvalidName: The URL has an unknown scheme.
        StoreUnavailable: The file is not there, or the database does not answer.
        StoreTooNew: A newer mindscope wrote it.
    """
    text = str(url)
    kept = retention or Retention()
    if is_stream(text):
        return StreamStore(open_transport(text))
    if text == "memory:":
        return MemoryStore()
    if _is_database(text):
        return DatabaseStore(PostgresBackend(text, retention=kept), on_damage)
    path = _path(text)
    if path.suffix == ".db":
        return DatabaseStore(FolderBackend(path.parent, text, only=path, retention=kept), on_damage)
    return DatabaseStore(FolderBackend(path, text, retention=kept), on_damage)


def open_collected(url: str | Path) -> DatabaseStore:
    """Open a store that a collector fills: a folder or a database.

    Raises:
        InvalidName: It is neither.
    """
    opened = open_store(url)
    if isinstance(opened, DatabaseStore):
        return opened
    opened.close()
    raise InvalidName(
        f"store {without_passwords(str(url))!r} cannot be filled; give a folder or postgresql+psycopg://..."
    )


def migrate(url: str | Path) -> list[str]:
    """Bring every run of a store to the current schema; return a line per migration.

    Raises:
        StoreTooNew: A newer mindscope wrote it.
    """
    text = str(url)
    if text == "memory:":
        return []
    if is_stream(text):
        raise StoreUnavailable(not_readable(without_passwords(text)))
    if _is_database(text):
        engine = connect_database(text)
        try:
            return migrate_database(engine)
        finally:
            engine.dispose()
    path = _path(text)
    done = []
    for file in [path] if path.suffix == ".db" else run_files(path):
        engine = file_writer(file)
        try:
            with store_errors(file), engine.begin() as connection:
                done += [f"{file.name}: {line}" for line in upgrade(connection)]
        finally:
            engine.dispose()
    return done


def _is_database(url: str) -> bool:
    scheme, mark, _ = url.partition("://")
    if not mark:
        return False
    if scheme not in ("postgresql+psycopg", "postgresql"):
        raise InvalidName(
            f"store {without_passwords(url)!r} has an unknown scheme {scheme!r}{nearest(scheme, _SCHEMES)}; give a "
            f"folder, a run file, postgresql+psycopg://..., nats://..., kafka://... or memory:"
        )
    return True


def _path(url: str) -> Path:
    path = Path(url).expanduser()
    if path.suffix == ".db" and not path.is_file():
        raise StoreUnavailable(f"{path} is not there; give the folder of the runs, or a run's file in it")
    if path.suffix != ".db" and path.exists() and not path.is_dir():
        raise StoreUnavailable(f"{path} is neither a folder nor a run's file (*.rank0.db)")
    return path
