"""What a long run may forget: old full resolution, then fine buckets; never what was not finite or near a finding."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, select, update

from ..errors import StoreError
from ..schema.changes import run
from ..schema.streams import SCALAR, STEP
from ..schema.tables import chunk, finding, span, stream
from .chunks import LENGTH

#: Rows that one call deletes at most, so that it stays short.
_AT_ONCE = 2000
#: Steps before and after a finding that keep their full resolution.
_AROUND = 100
#: How many records of each stream of a recording are in chunks; of scalars and of the steps themselves, none.
_ARCHIVED = (
    select(stream.c.id, func.max(span.c.first + span.c.count))
    .join(span, span.c.stream == stream.c.id)
    .where(stream.c.recording == bindparam("of"), stream.c.subject != SCALAR, stream.c.subject != STEP)
    .group_by(stream.c.id)
)


@dataclass(frozen=True, slots=True)
class Retention:
    """How many of the newest records of a stream are kept whole, and how many in buckets of 16; older: buckets of 256.

    Our choice: 100,000 records of 1000 tensors in full resolution take about 2 GB.
    """

    full: int = 100_000
    fine: int = 1_000_000

    def __post_init__(self) -> None:
        if not 0 <= self.full <= self.fine:
            raise StoreError(f"retention expects 0 <= full <= fine, got full={self.full} and fine={self.fine}")


def thin_once(connection: Connection, number: int, retention: Retention) -> bool:
    """True when something of recording `number` was older than the retention allows and is gone now.

    Scalars and the steps themselves are never thinned: they are small.
    """
    for key, records in run(connection, _ARCHIVED, {"of": number}).all():
        for tier, kept in ((1, retention.full), (16, retention.fine)):
            if records - kept >= LENGTH * tier and _thin(connection, number, key, tier, records - kept):
                return True
    return False


def _thin(connection: Connection, number: int, key: int, tier: int, before: int) -> bool:
    """True when chunks of a tier that end before record `before` are gone now."""
    ours = (chunk.c.stream == key) & (chunk.c.tier == tier) & (chunk.c.site_group >= 0) & (chunk.c.kept == 0)
    old = ours & (chunk.c.first <= before - LENGTH * tier)
    query = select(chunk.c.id).where(old).limit(_AT_ONCE)
    if connection.execute(query.limit(1)).first() is None:
        return False
    if tier == 1:
        _protect(connection, number, key, before)
    gone = connection.execute(query).scalars().all()
    if gone:
        connection.execute(delete(chunk).where(chunk.c.id.in_(gone)))
    return True


def _protect(connection: Connection, number: int, key: int, before: int) -> None:
    """Marks the chunks around findings as kept."""
    near = (
        select(span.c.first)
        .join(finding, (finding.c.recording == number))
        .where(
            span.c.stream == key,
            span.c.first < before,
            span.c.last_step >= finding.c.first_step - _AROUND,
            span.c.first_step <= finding.c.first_step + _AROUND,
        )
        .distinct()
    )
    firsts = connection.execute(near).scalars().all()
    if firsts:
        same = (chunk.c.stream == key) & (chunk.c.tier == 1) & chunk.c.first.in_(firsts) & (chunk.c.kept == 0)
        connection.execute(update(chunk).where(same).values(kept=1))
