"""The tables, for SQLite and PostgreSQL, and the numbered migrations of older stores.

A SQLite run file holds one recording, a PostgreSQL schema holds many. A *recording* is one rank of one run. Its rows
refer to its number, packed data to the number of a stream. To change a table: change it here, and append a migration to
`MIGRATIONS` that makes the same change in an existing store.
"""

import re
from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
)

from ..encoding.codec import CODEC_VERSION
from ..errors import StoreDamaged, StoreTooNew, StoreUnfinished

_Id = BigInteger().with_variant(Integer, "sqlite")

#: Tables of a run file; all tables of a PostgreSQL schema but those of `people`.
recorded = MetaData()
#: Tables of names, tags, remarks and muted rules; in the catalogue of a folder of run files.
people = MetaData()
#: Tables that only the catalogue of a folder has.
folder = MetaData()
#: Tables that only a PostgreSQL schema has, created on first use.
server = MetaData()
#: Tables that only a PostgreSQL schema has, created when a writer begins.
written = MetaData()

meta = Table("meta", recorded, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))


def _owner(table: str) -> Column[int]:
    return Column(table, ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=False)


recording = Table(
    "recording",
    recorded,
    Column("id", _Id, primary_key=True),
    Column("run", Text, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("framework", Text, nullable=False),
    Column("parent", Text),
    Column("state", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("last_step", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("writer", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("structure", LargeBinary),
    UniqueConstraint("run", "rank"),
)

#: Former values of `structure`, for the records up to that step and micro-step.
former = Table(
    "former_structure",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("recording"),
    Column("step", BigInteger, nullable=False),
    Column("micro_step", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("recording", "step", "micro_step"),
)

stream = Table(
    "stream",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("recording"),
    Column("subject", Text, nullable=False),
    Column("part", Integer, nullable=False),
    Column("layout", LargeBinary, nullable=False),
    Index("stream_subject", "recording", "subject"),
)

#: Which records a stream's chunks hold: steps, micro-steps and times of `count` records from number `first` on.
span = Table(
    "span",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("stream"),
    Column("first", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_step", BigInteger, nullable=False),
    Column("last_step", BigInteger, nullable=False),
    Column("codec", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("stream", "first"),
)

#: The newest records of a stream, not yet compacted.
hot = Table(
    "hot",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("stream"),
    Column("step", BigInteger, nullable=False),
    Column("micro_step", Integer, nullable=False),
    Column("time", Double, nullable=False),
    Column("codec", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("stream", "step", "micro_step"),
)

#: One statistic of a group of sites (-1: all) over many records (tier 1) or many buckets of `tier` records.
#: A chunk that is `kept` is never thinned: it holds non-finite values or is near a finding.
chunk = Table(
    "chunk",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("stream"),
    Column("tier", Integer, nullable=False),
    Column("statistic", Integer, nullable=False),
    Column("site_group", Integer, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("codec", Integer, nullable=False),
    Column("kept", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("stream", "tier", "statistic", "site_group", "first"),
)

histogram = Table(
    "histogram",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("recording"),
    Column("step", BigInteger, nullable=False),
    Column("micro_step", Integer, nullable=False),
    Column("site", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("call", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("histogram_series", "recording", "subject", "site", "step"),
    Index("histogram_step", "recording", "step"),
)

event = Table(
    "event",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("recording"),
    Column("step", BigInteger, nullable=False),
    Column("micro_step", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", Text, nullable=False),
    Index("event_step", "recording", "step"),
)

#: The files that events name by their digest: images and sounds.
attachment = Table(
    "attachment",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("recording"),
    Column("step", BigInteger, nullable=False),
    Column("micro_step", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("attachment_digest", "recording", "digest"),
    Index("attachment_step", "recording", "step"),
)

finding = Table(
    "finding",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("recording"),
    Column("rule", Text, nullable=False),
    Column("site", Text, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("first_step", BigInteger, nullable=False),
    Column("severity", Text, nullable=False),
    Column("data", Text, nullable=False),
    UniqueConstraint("recording", "rule", "site", "rank", "first_step"),
)

outcome = Table(
    "outcome",
    recorded,
    Column("id", _Id, primary_key=True),
    _owner("recording"),
    Column("attack", Text, nullable=False),
    Column("norm", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("data", Text, nullable=False),
    UniqueConstraint("recording", "attack", "norm", "epsilon"),
)

#: What a recording should hold, so that a reader notices what is missing (`ledger.py`).
account = Table(
    "ledger",
    recorded,
    Column("recording", ForeignKey("recording.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("data", Text, nullable=False),
)

annotation = Table(
    "annotation",
    people,
    Column("run", Text, primary_key=True),
    Column("name", Text),
    Column("tags", Text),
    Column("remark", Text),
    Column("revision", BigInteger, nullable=False),
)

muted = Table(
    "muted",
    people,
    Column("run", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("site", Text, primary_key=True),
)

#: Cached summaries of the run files of a folder, with the signature of the file.
listed = Table(
    "listed",
    folder,
    Column("file", Text, primary_key=True),
    Column("signature", Text, nullable=False),
    Column("summary", Text, nullable=False),
)

#: Documents of the control channels of runs.
control_document = Table(
    "letter",
    server,
    Column("run", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
)

#: The writer of a recording: its random token, the number of its last transaction, and how many records it has written.
#: It needs no migration: a writer that does not know it leaves it alone.
claim = Table(
    "writer_claim",
    written,
    Column("recording", BigInteger, ForeignKey(recording.c.id, ondelete="CASCADE"), primary_key=True),
    Column("token", Text, nullable=False),
    Column("commits", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
)

#: PostgreSQL would compress packed data again; EXTERNAL tells it not to.
PACKED = (("hot", "data"), ("chunk", "data"), ("span", "data"), ("histogram", "data"), ("attachment", "data"))


def _first_tables(connection: Connection) -> None:
    """Version 1: all tables."""
    recorded.create_all(connection)


def _rows_of_several(connection: Connection) -> None:
    """Version 2: a row of the newest records may hold several."""


def _former_structures(connection: Connection) -> None:
    """Version 3: structures that a model had before its newest one."""
    former.create(connection, checkfirst=True)


def _ledgers(connection: Connection) -> None:
    """Version 4: checksums, and counts of what a recording should hold."""
    account.create(connection, checkfirst=True)


def _attachments(connection: Connection) -> None:
    """Version 5: images and sounds."""
    attachment.create(connection, checkfirst=True)


#: Step `n` (from 1) leads to schema version `n`.
MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _first_tables,
    _rows_of_several,
    _former_structures,
    _ledgers,
    _attachments,
)
SCHEMA_VERSION = len(MIGRATIONS)


def schema_version(connection: Connection) -> int:
    """Return the schema version of a database, 0 if it is empty.

    Raises:
        StoreDamaged: The database has tables of another program, or a version that is none.
    """
    names = inspect(connection).get_table_names()
    if "meta" not in names:
        if "recording" in names or (connection.dialect.name == "sqlite" and names):
            raise StoreDamaged(f"{connection.engine.url.database} has tables but no version; it is no run")
        return 0
    found = connection.execute(select(meta.c.value).where(meta.c.key == "schema_version")).scalar()
    if found is None:
        return 0
    if not re.fullmatch(r"[1-9][0-9]{0,8}", str(found)):
        raise StoreDamaged(
            f"{connection.engine.url.database} must have a schema version from 1 on, got {str(found)[:40]!r}; it is "
            f"damaged: restore it from a copy or delete it"
        )
    return int(found)


def check_version(connection: Connection) -> int:
    """Return the schema version, if this version of mindscope can read it.

    Raises:
        StoreTooNew: The store was written by a newer mindscope.
        StoreUnfinished: There is no version.
    """
    version = schema_version(connection)
    name = connection.engine.url.database
    if version > SCHEMA_VERSION:
        raise StoreTooNew(
            f"{name} has schema version {version}, this mindscope reads up to {SCHEMA_VERSION}; upgrade mindscope"
        )
    if version == 0:
        raise StoreUnfinished(
            f"{name} holds no run: it has no schema version; its first transaction was never finished"
        )
    return version


def upgrade(connection: Connection) -> list[str]:
    """Bring the tables to the current version; return a line per migration.

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
