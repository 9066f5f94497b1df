"""The numbered steps from an empty place to today's tables; a store says which of them it has seen.

To change a table: change `tables.py`, append one step here that does the same to a store that stands.
"""

from collections.abc import Callable

from sqlalchemy import Connection, inspect, select

from ..encoding.codec import CODEC_VERSION
from ..errors import StoreDamaged, StoreTooNew, StoreUnfinished
from .tables import former, meta, recorded


def _first_tables(connection: Connection) -> None:
    """Version 1: all tables."""
    recorded.create_all(connection)


def _rows_of_several(connection: Connection) -> None:
    """Version 2: a row of the newest records may hold several."""


def _former_structures(connection: Connection) -> None:
    """Version 3: structures that a model had before its newest one."""
    former.create(connection, checkfirst=True)


#: Step `n` (from 1) leads to schema version `n`.
MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _first_tables,
    _rows_of_several,
    _former_structures,
)
SCHEMA_VERSION = len(MIGRATIONS)


def schema_version(connection: Connection) -> int:
    """The version of the tables that stand, 0 for an empty place.

    Raises:
        StoreDamaged: Tables stand that are not ours.
    """
    names = inspect(connection).get_table_names()
    if "meta" not in names:
        if "recording" in names or (connection.dialect.name == "sqlite" and names):
            raise StoreDamaged(f"{connection.engine.url.database} has tables but no version; it is no run")
        return 0
    found = connection.execute(select(meta.c.value).where(meta.c.key == "schema_version")).scalar()
    return int(found) if found is not None else 0


def check_version(connection: Connection) -> int:
    """The version of a store that this version of mindscope can read.

    Raises:
        StoreTooNew: The store was written by a newer mindscope.
        StoreUnfinished: There is no version.
    """
    version = schema_version(connection)
    place = connection.engine.url.database
    if version > SCHEMA_VERSION:
        raise StoreTooNew(
            f"{place} has schema version {version}, this mindscope reads up to {SCHEMA_VERSION}; upgrade mindscope"
        )
    if version == 0:
        raise StoreUnfinished(
            f"{place} holds no run: it has no schema version; its first transaction was never finished"
        )
    return version


def upgrade(connection: Connection) -> list[str]:
    """What was done, one line a step, to bring the tables to today's version; empty when they were there.

    Raises:
        StoreTooNew: The store was written by a newer mindscope.
    """
    version = schema_version(connection)
    if version > SCHEMA_VERSION:
        check_version(connection)
    done = []
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        step(connection)
        done.append(f"schema version {number}: {(step.__doc__ or '').partition(':')[2].strip().rstrip('.')}")
    if done:
        connection.execute(meta.delete().where(meta.c.key.in_(("schema_version", "codec_version"))))
        rows = [("schema_version", SCHEMA_VERSION), ("codec_version", CODEC_VERSION)]
        connection.execute(meta.insert(), [{"key": key, "value": str(value)} for key, value in rows])
    return done
