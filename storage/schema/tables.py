"""The tables, once for SQLite and PostgreSQL; a SQLite run file holds one recording, a PostgreSQL schema holds many.

A *recording* is one rank of one run. Whatever belongs to it refers to its number, packed data to its stream's.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

_Id = BigInteger().with_variant(Integer, "sqlite")

#: Tables of a run file; all tables of a PostgreSQL schema but those of `people`.
recorded = MetaData()
#: Tables of what people add; in the catalogue of a folder of run files.
people = MetaData()
#: Tables that only the catalogue of a folder has.
folder = MetaData()
#: Tables that only a PostgreSQL schema has, made when they are first needed.
server = MetaData()

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

#: What `structure` was before, for the records up to that step and micro-step.
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

#: The newest records of a stream, one packed block each, as they came.
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
#: What is `kept` is never thinned away: it holds non-finite values.
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

#: What the run files of a folder said of themselves when they had that signature.
listed = Table(
    "listed",
    folder,
    Column("file", Text, primary_key=True),
    Column("signature", Text, nullable=False),
    Column("summary", Text, nullable=False),
)

#: What stands in the mailboxes of runs.
letter = Table(
    "letter",
    server,
    Column("run", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
)

#: PostgreSQL would compress packed data again; EXTERNAL tells it not to.
PACKED = (("hot", "data"), ("chunk", "data"), ("span", "data"), ("histogram", "data"))
