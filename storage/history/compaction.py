"""Moves the oldest hot records of a stream into chunks, chunks into coarser tiers, and thins what retention allows.

    hot     256 records            -> tier 1     256 records x 16 sites of one statistic
                                   -> tier 16    16 buckets of all sites (group -1)
    tier 16, 16 such rows          -> tier 16    256 buckets x 16 sites
                                   -> tier 256   16 buckets of all sites
    tier 256, 16 such rows         -> tier 256   256 buckets x 16 sites

No state is kept between calls: the tables show what is left to do, so a restart continues where it was. When a run
ends, the remaining records become a smaller chunk; a run that is continued unpacks it again.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BindParameter, Connection, and_, bindparam, delete, func, select, update

from ..encoding.block_packing import pack_alike, unpack_columns
from ..encoding.checksums import seal
from ..encoding.codec import WIDEST, encode_flags, narrowest
from ..errors import StoreDamaged, StoreError
from ..records import Block, Layout
from ..schema.compiled_statements import insert_rows, run_statement
from ..schema.ledger import Ledger
from ..schema.row_statements import SCALAR, STEP, StoredStream
from ..schema.table_definitions import chunk, finding, hot, span, stream
from .archive_chunks import ALL_SITES, CHUNK_COLUMNS, GROUP, LENGTH, chunk_bytes, chunk_content, read_archived
from .buckets import RATIO, Buckets, bucket_buckets, bucket_bytes, bucket_records, join, read_buckets
from .hot_records import hot_rows, take_oldest
from .timeline import SEALED, SPAN, read_span, span_row

_log = logging.getLogger(__name__)

#: Most rows that one call deletes, so that it stays short.
_ROWS_AT_ONCE = 2000
#: Steps before and after a finding that keep their full resolution.
_AROUND = 100
#: How many records of each stream of a recording are in chunks, except scalars and steps.
_ARCHIVED = (
    select(stream.c.id, func.max(span.c.first + span.c.count))
    .join(span, span.c.stream == stream.c.id)
    .where(stream.c.recording == bindparam("of"), stream.c.subject != SCALAR, stream.c.subject != STEP)
    .group_by(stream.c.id)
)


@dataclass(frozen=True, slots=True)
class Retention:
    """How many of the newest records of a stream stay in full, and how many in buckets of 16; the rest: buckets of 256.

    Our choice: 100,000 records of 1000 tensors in full resolution take about 2 GB.
    """

    full: int = 100_000
    fine: int = 1_000_000

    def __post_init__(self) -> None:
        if not 0 <= self.full <= self.fine:
            raise StoreError(f"retention expects 0 <= full <= fine, got full={self.full} and fine={self.fine}")


def thin_once(connection: Connection, number: int, retention: Retention, ledger: Ledger) -> bool:
    """Delete some data of recording `number` that is older than the retention allows; return whether there was any.

    Scalars and the steps themselves are never thinned: they are small.
    """
    for key, records in run_statement(connection, _ARCHIVED, {"of": number}).all():
        for tier, kept in ((1, retention.full), (16, retention.fine)):
            if records - kept >= LENGTH * tier and _thin(connection, number, key, tier, records - kept):
                ledger.thin(key, tier, (records - kept) // (LENGTH * tier) * LENGTH * tier)
                return True
    return False


def _thin(connection: Connection, number: int, key: int, tier: int, before: int) -> bool:
    """Delete chunks of a tier that end before record `before`; return whether there were any."""
    ours = (chunk.c.stream == key) & (chunk.c.tier == tier) & (chunk.c.site_group >= 0) & (chunk.c.kept == 0)
    old = ours & (chunk.c.first <= before - LENGTH * tier)
    query = select(chunk.c.id).where(old).limit(_ROWS_AT_ONCE)
    if connection.execute(query.limit(1)).first() is None:
        return False
    if tier == 1:
        _protect(connection, number, key, before)
    gone = connection.execute(query).scalars().all()
    if gone:
        connection.execute(delete(chunk).where(chunk.c.id.in_(gone)))
    return True


def _protect(connection: Connection, number: int, key: int, before: int) -> None:
    """Mark the chunks around findings as kept."""
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


#: The tiers of buckets; the last one is not bucketed further.
TIERS = (16, 256)

# Built once: building a statement takes SQLAlchemy longer than running it.
_OF: BindParameter[int] = bindparam("of")
_NEXT_RECORD = select(func.max(span.c.first + span.c.count)).where(span.c.stream == _OF)
_WIDE = and_(chunk.c.stream == _OF, chunk.c.tier == bindparam("of_tier"), chunk.c.site_group == ALL_SITES)
_WIDE_ROWS = select(*CHUNK_COLUMNS).where(_WIDE).order_by(chunk.c.first)
_NO_MORE_WIDE = delete(chunk).where(_WIDE)


def compact(connection: Connection, stored: StoredStream, count: int = LENGTH) -> int:
    """Move the oldest hot records of a stream into chunks; return how many: `count`, or as many as there were.

    Only the last chunk of an ended run has fewer than `LENGTH` records.
    """
    first = run_statement(connection, _NEXT_RECORD, {"of": stored.id}).scalar() or 0
    line, blocks = take_oldest(connection, stored.id, first, count)
    if not len(blocks):
        return 0
    values, present = unpack_columns(blocks, range(len(stored.layout.statistics)), len(stored.layout.sites))
    insert_rows(connection, span, [span_row(stored.id, first, line)])
    insert_rows(connection, chunk, list(_records(stored, first, values, present)))
    if len(line) == LENGTH:
        insert_rows(connection, chunk, list(_buckets(stored, first, values, present)))
        _merge(connection, stored, first)
    return len(line)


def take_apart(connection: Connection, streams: Sequence[StoredStream]) -> None:
    """Unpack the last, incomplete chunks of an ended run, so that more records can follow.

    Raises:
        StoreDamaged: They are not what was written.
    """
    for stored in streams:
        query = SPAN.add_columns(span.c.id).where(span.c.stream == stored.id, span.c.count < LENGTH)
        for row in connection.execute(query).all():
            line, columns = read_span(stored.id, row), range(len(stored.layout.statistics))
            values, present, _ = read_archived(
                connection, stored, columns, slice(None), row.first, row.first + row.size
            )
            blocks = [Block(stored.layout, values[:, at].T, present[at]) for at in range(row.size)]
            insert_rows(connection, hot, list(hot_rows(stored.id, row.first, line, pack_alike(blocks))))
            connection.execute(
                delete(chunk).where(chunk.c.stream == stored.id, chunk.c.tier == 1, chunk.c.first == row.first)
            )
            connection.execute(delete(span).where(span.c.id == row.id))


def _records(
    stored: StoredStream, first: int, columns: NDArray[np.float64], present: NDArray[np.bool_]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of tier 1, of `(statistics, records, sites)` values and `(records, sites)` presence."""
    sites = range(0, len(stored.layout.sites), GROUP)
    is_whole = bool(present.all())
    flags = [b"" if is_whole else encode_flags(present.T[site : site + GROUP]) for site in sites]
    for statistic, values in enumerate(columns):
        finite = np.isfinite(values)
        strange = None if finite.all() else ~finite & present
        code = narrowest(values)
        by_site = values.T if is_whole else np.where(present, values, 0.0).T
        for group, site in enumerate(sites):
            few = slice(site, site + GROUP)
            kept = strange is not None and bool(strange[:, few].any())
            # One site that needs float64 must not widen the others.
            data = chunk_bytes(np.ascontiguousarray(by_site[few]), flags[group], None if code == WIDEST else code)
            key = _ChunkKey(1, statistic, group, first)
            yield _row(stored, key, len(values), data, kept=int(kept))


def _buckets(
    stored: StoredStream, first: int, columns: NDArray[np.float64], present: NDArray[np.bool_]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the finest tier of buckets; equal buckets of zeros are one object and are packed once."""
    known: dict[int, tuple[Buckets, bytes]] = {}
    for statistic, few in enumerate(bucket_records(columns, present)):
        if id(few) not in known:
            known[id(few)] = few, bucket_bytes(few)
        yield _row(stored, _ChunkKey(TIERS[0], statistic, ALL_SITES, first), few.low.shape[1], known[id(few)][1])


def _merge(connection: Connection, stored: StoredStream, first: int) -> None:
    """Merge the wide rows of a tier, once there are enough of them, into rows by group of sites.

    Args:
        first: Number of the first record of the newest wide row.
    """
    for tier in TIERS:
        if first // (tier * RATIO) % RATIO != RATIO - 1:
            return
        first -= (RATIO - 1) * tier * RATIO
        parts: dict[int, list[Buckets]] = {}
        shape = (len(stored.layout.sites), RATIO)
        for row in connection.execute(_WIDE_ROWS, {"of": stored.id, "of_tier": tier}):
            few = read_buckets(chunk_content(stored.id, tier, row), shape, with_positions=True)
            parts.setdefault(row.statistic, []).append(few)
        rows: list[dict[str, Any]] = []
        for statistic, wide_parts in parts.items():
            whole = join(wide_parts)
            for group, site in enumerate(range(0, shape[0], GROUP)):
                data = bucket_bytes(whole.sites(site, site + GROUP))
                rows.append(_row(stored, _ChunkKey(tier, statistic, group, first), whole.low.shape[1], data))
            if tier != TIERS[-1]:
                wide, key = bucket_buckets(wide_parts, tier), _ChunkKey(tier * RATIO, statistic, ALL_SITES, first)
                rows.append(_row(stored, key, wide.low.shape[1], bucket_bytes(wide)))
        connection.execute(_NO_MORE_WIDE, {"of": stored.id, "of_tier": tier})
        insert_rows(connection, chunk, rows)


@dataclass(frozen=True, slots=True)
class _ChunkKey:
    """The key of a chunk within its stream; `first` is the number of its first record."""

    tier: int
    statistic: int
    group: int
    first: int


def _row(
    stored: StoredStream, key: _ChunkKey, count: int, data: bytes, *, kept: int = 0
) -> dict[str, Any]:  # Any: values of any column
    return {
        "stream": stored.id,
        "tier": key.tier,
        "statistic": key.statistic,
        "site_group": key.group,
        "first": key.first,
        "count": count,
        "codec": SEALED,
        "kept": kept,
        "data": seal(data, stored.id, key.tier, key.statistic, key.group, key.first, count),
    }


#: Most numbers of a record that one transaction compacts: as many as the largest stream has. A transaction costs as
#: much as compacting a small stream.
_AT_ONCE = 1024 * 10


class Compactor:
    """Counts the hot records of a recording's streams, and compacts and thins them.

    Args:
        number: Number of the recording.
        hot: Number of hot records by stream.
        retention: How many records stay in full.
    """

    def __init__(self, number: int, hot: Mapping[int, int], retention: Retention) -> None:
        self._number = number
        self._hot = Counter(hot)
        self._retention = retention
        self._may_thin = True
        self._damaged: set[int] = set()

    def grow(self, written: Mapping[int, int]) -> None:
        """Add the numbers of new hot records by stream."""
        self._hot.update(written)

    def is_due(self, least: int = LENGTH) -> bool:
        """Return whether a stream has that many hot records, or some records may have to be thinned."""
        return self._may_thin or any(count >= least for count in self._hot.values())

    def run(self, connection: Connection, streams: Mapping[Layout, int], ledger: Ledger, least: int = LENGTH) -> None:
        """Compact some of the streams with that many hot records, or else thin old records.

        A stream with damaged records is left as it is: its chunks would hide the damage.

        Args:
            streams: All streams of the recording, with their numbers.
        """
        due = self._due(streams, least)
        left: dict[int, int] = {}
        for stored, count in due:
            moved = self._compact(connection, stored, count)
            left[stored.id] = self._hot[stored.id] - moved if moved >= least else 0
        may_thin = bool(due) or thin_once(connection, self._number, self._retention, ledger)
        for key, count in left.items():
            self._hot[key] = count
        self._may_thin = may_thin

    def _compact(self, connection: Connection, stored: StoredStream, count: int) -> int:
        if stored.id in self._damaged:
            return 0
        try:
            with connection.begin_nested():
                return compact(connection, stored, count)
        except StoreDamaged as error:
            self._damaged.add(stored.id)
            _log.error("records of %s are damaged and stay as they are: %s", stored.layout.subject, error)
            return 0

    def _due(self, streams: Mapping[Layout, int], least: int) -> list[tuple[StoredStream, int]]:
        """Return streams to compact together, and how many records of each."""
        found: list[tuple[StoredStream, int]] = []
        room = _AT_ONCE
        for layout, key in streams.items():
            width = len(layout.sites) * len(layout.statistics)
            if self._hot[key] >= least and (width <= room or not found):
                found.append((StoredStream(key, layout), min(self._hot[key], LENGTH)))
                room -= width
        return found
