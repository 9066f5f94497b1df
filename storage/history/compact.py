"""Moves the oldest hot records of a stream into chunks, and chunks into coarser tiers; one stream a call.

    hot     256 records            -> tier 1     256 records x 16 sites of one statistic
                                   -> tier 16    16 buckets of all sites (group -1)
    tier 16, 16 such rows          -> tier 16    256 buckets x 16 sites
                                   -> tier 256   16 buckets of all sites
    tier 256, 16 such rows         -> tier 256   256 buckets x 16 sites

Nothing is remembered between calls: what is left to do is what stands in the tables, so a restart goes on where it was.
When a run ends, what is left becomes a chunk of fewer records; a run that goes on takes it apart again.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BindParameter, Connection, and_, bindparam, delete, func, select

from ..encoding.codec import CODEC_VERSION, WIDEST, narrowest
from ..encoding.layout import pack_alike, unpack_columns
from ..encoding.sequences import encode_flags
from ..records import Block
from ..schema.changes import insert_rows, run
from ..schema.streams import Stream
from ..schema.tables import chunk, hot, span
from .buckets import RATIO, Buckets, bucket_buckets, bucket_bytes, bucket_records, join, read_buckets
from .chunks import GROUP, LENGTH, chunk_bytes, read_archived
from .hot import Line, hot_rows, take_oldest
from .timeline import read_span, span_bytes

#: The tiers of buckets; the last one is not bucketed further.
TIERS = (16, 256)

# Made once: to put a statement together takes SQLAlchemy longer than to run it.
_OF: BindParameter[int] = bindparam("of")
_ARCHIVED = select(func.max(span.c.first + span.c.count)).where(span.c.stream == _OF)
_WIDE = and_(chunk.c.stream == _OF, chunk.c.tier == bindparam("of_tier"), chunk.c.site_group == -1)
_WIDE_ROWS = select(chunk.c.statistic, chunk.c.first, chunk.c.data).where(_WIDE).order_by(chunk.c.first)
_NO_MORE_WIDE = delete(chunk).where(_WIDE)


def compact(connection: Connection, one: Stream, count: int = LENGTH) -> int:
    """How many of the oldest hot records of a stream are in chunks now: `count`, or as many as there were.

    Fewer than `LENGTH` may only be the last ones of a run that ends.
    """
    line, blocks = take_oldest(connection, one.id, count)
    if not len(blocks):
        return 0
    values, present = unpack_columns(blocks, range(len(one.layout.statistics)), len(one.layout.sites))
    first = run(connection, _ARCHIVED, {"of": one.id}).scalar() or 0
    head = {"stream": one.id, "first": first, "count": len(line), "codec": CODEC_VERSION}
    bounds = {"first_step": int(line.steps[0]), "last_step": int(line.steps[-1])}
    data = span_bytes(line.steps, line.micro_steps, line.times)
    insert_rows(connection, span, [{**head, **bounds, "data": data}])
    insert_rows(connection, chunk, list(_records(one, first, values, present)))
    if len(line) == LENGTH:
        insert_rows(connection, chunk, list(_buckets(one, first, values, present)))
        _merge(connection, one, first)
    return len(line)


def take_apart(connection: Connection, streams: Sequence[Stream]) -> None:
    """Makes the last records of a run that had ended hot again, so that more can join them."""
    for one in streams:
        query = select(span.c.id, span.c.first, span.c.count, span.c.data)
        query = query.where(span.c.stream == one.id, span.c.count < LENGTH)
        for key, begin, count, data in connection.execute(query).all():
            columns = range(len(one.layout.statistics))
            values, present, _ = read_archived(connection, one, columns, slice(None), begin, begin + count)
            blocks = [Block(one.layout, values[:, at].T, present[at]) for at in range(count)]
            insert_rows(connection, hot, list(hot_rows(one.id, Line(*read_span(data)), pack_alike(blocks))))
            connection.execute(delete(chunk).where(chunk.c.stream == one.id, chunk.c.tier == 1, chunk.c.first == begin))
            connection.execute(delete(span).where(span.c.id == key))


def _records(
    one: Stream, first: int, columns: NDArray[np.float64], present: NDArray[np.bool_]
) -> Iterator[dict[str, Any]]:
    """The rows of tier 1, of `(statistics, records, sites)` values and `(records, sites)` presence."""
    sites = range(0, len(one.layout.sites), GROUP)
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
            # One site that needs float64 must not widen all others.
            data = chunk_bytes(np.ascontiguousarray(by_site[few]), flags[group], None if code == WIDEST else code)
            yield _row(one, 1, statistic, group, first, len(values), data, kept=int(kept))


def _buckets(
    one: Stream, first: int, columns: NDArray[np.float64], present: NDArray[np.bool_]
) -> Iterator[dict[str, Any]]:
    """The rows of the finest tier of buckets, of the same; those of zeros are one object and are packed once."""
    known: dict[int, tuple[Buckets, bytes]] = {}
    for statistic, few in enumerate(bucket_records(columns, present)):
        if id(few) not in known:
            known[id(few)] = few, bucket_bytes(few)
        yield _row(one, TIERS[0], statistic, -1, first, few.low.shape[1], known[id(few)][1])


def _merge(connection: Connection, one: Stream, first: int) -> None:
    """Joins the rows of all sites of a tier, once there are enough of them, into rows by group of sites.

    Args:
        first: Number of the first record of the row that has just joined them.
    """
    for tier in TIERS:
        if first // (tier * RATIO) % RATIO != RATIO - 1:
            return
        first -= (RATIO - 1) * tier * RATIO
        parts: dict[int, list[Buckets]] = {}
        shape = (len(one.layout.sites), RATIO)
        for statistic, _, data in connection.execute(_WIDE_ROWS, {"of": one.id, "of_tier": tier}):
            parts.setdefault(statistic, []).append(read_buckets(data, shape, with_places=True))
        rows: list[dict[str, Any]] = []
        for statistic, few in parts.items():
            whole = join(few)
            for group, site in enumerate(range(0, shape[0], GROUP)):
                data = bucket_bytes(whole.sites(site, site + GROUP))
                rows.append(_row(one, tier, statistic, group, first, whole.low.shape[1], data))
            if tier != TIERS[-1]:
                rows.append(_wide(one, tier * RATIO, statistic, first, bucket_buckets(few, tier)))
        connection.execute(_NO_MORE_WIDE, {"of": one.id, "of_tier": tier})
        insert_rows(connection, chunk, rows)


def _wide(one: Stream, tier: int, statistic: int, first: int, buckets: Buckets) -> dict[str, Any]:
    return _row(one, tier, statistic, -1, first, buckets.low.shape[1], bucket_bytes(buckets))


def _row(
    one: Stream, tier: int, statistic: int, group: int, first: int, count: int, data: bytes, *, kept: int = 0
) -> dict[str, Any]:
    return {
        "stream": one.id,
        "tier": tier,
        "statistic": statistic,
        "site_group": group,
        "first": first,
        "count": count,
        "codec": CODEC_VERSION,
        "kept": kept,
        "data": data,
    }
