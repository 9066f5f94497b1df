"""Moves the oldest hot records of a stream into chunks, and chunks into coarser tiers; one stream a call.

    hot     256 records            -> tier 1     256 records x 16 sites of one statistic
                                   -> tier 16    16 buckets of all sites (group -1)
    tier 16, 16 such rows          -> tier 16    256 buckets x 16 sites
                                   -> tier 256   16 buckets of all sites
    tier 256, 16 such rows         -> tier 256   256 buckets x 16 sites

Nothing is remembered between calls: what is left to do is what stands in the tables, so a restart goes on where it was.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, func, insert, select

from .buckets import RATIO, Buckets, bucket_buckets, bucket_bytes, bucket_records, join, read_buckets
from .chunks import GROUP, LENGTH, chunk_bytes
from .codec import CODEC_VERSION, WIDEST, narrowest
from .streams import Stream, read_streams
from .tables import chunk, hot, span, stream
from .timeline import Timeline, span_bytes
from .values import read_hot

#: The tiers of buckets; the last one is not bucketed further.
TIERS = (16, 256)


def compact_once(connection: Connection, number: int) -> bool:
    """True when a stream of recording `number` had enough hot records and they are in chunks now."""
    full = connection.execute(
        select(hot.c.stream)
        .join(stream, hot.c.stream == stream.c.id)
        .where(stream.c.recording == number)
        .group_by(hot.c.stream)
        .having(func.count() >= LENGTH)
        .limit(1)
    ).scalar()
    if full is None:
        return False
    one = next(known for known in read_streams(connection, number) if known.id == full)
    order = (hot.c.step, hot.c.micro_step)
    query = select(hot.c.id, hot.c.step, hot.c.micro_step, hot.c.time).where(hot.c.stream == full)
    rows = connection.execute(query.order_by(*order).limit(LENGTH)).all()
    _, steps, micro_steps, times = zip(*rows, strict=True)
    line = Timeline(0, 0, np.array(steps), np.array(micro_steps), np.array(times))
    _write_chunks(connection, one, line)
    _merge(connection, one)
    connection.execute(delete(hot).where(hot.c.id.in_([row[0] for row in rows])))
    return True


def _write_chunks(connection: Connection, one: Stream, line: Timeline) -> None:
    """Tier 1, and the row of tier 16, of the records of a timeline."""
    first = (
        connection.execute(select(func.max(span.c.first + span.c.count)).where(span.c.stream == one.id)).scalar() or 0
    )
    bounds = {"first_step": int(line.steps[0]), "last_step": int(line.steps[-1])}
    data = span_bytes(line.steps, line.micro_steps, line.times)
    head = {"stream": one.id, "first": first, "count": len(line), "codec": CODEC_VERSION}
    connection.execute(insert(span).values(**head, **bounds, data=data))
    columns, present = read_hot(connection, one, line, range(len(one.layout.statistics)))
    columns, present = columns[:, : len(line)], present[: len(line)]
    rows: list[dict[str, Any]] = []
    for statistic, values in enumerate(columns):
        rows += _records(one, first, statistic, values, present)
        rows.append(_wide(one, TIERS[0], statistic, first, bucket_records(values, present)))
    connection.execute(insert(chunk), rows)


def _records(
    one: Stream, first: int, statistic: int, values: NDArray[np.float64], present: NDArray[np.bool_]
) -> Iterator[dict[str, Any]]:
    """The rows of tier 1 of one statistic."""
    strange = ~np.isfinite(values) & present
    any_strange, code = bool(strange.any()), narrowest(values)
    by_site, flags = values.T, present.T
    empty = chunk_bytes(values[:1], present[:1], 0) if code == 0 and bool(present.all()) else None
    for group, site in enumerate(range(0, len(one.layout.sites), GROUP)):
        few = slice(site, site + GROUP)
        kept = any_strange and bool(strange[:, few].any())
        # One site that needs float64 must not widen all others.
        data = empty or chunk_bytes(np.ascontiguousarray(by_site[few]), flags[few], None if code == WIDEST else code)
        yield _row(one, 1, statistic, group, first, len(values), data, kept=int(kept))


def _merge(connection: Connection, one: Stream) -> None:
    """Joins the rows of all sites of a tier, once there are enough of them, into rows by group of sites."""
    for tier in TIERS:
        wide = (chunk.c.stream == one.id) & (chunk.c.tier == tier) & (chunk.c.site_group == -1)
        count = select(func.count()).where(wide & (chunk.c.statistic == 0))
        if connection.execute(count).scalar_one() < RATIO:
            return
        rows: list[dict[str, Any]] = []
        for statistic in range(len(one.layout.statistics)):
            query = select(chunk.c.first, chunk.c.data).where(wide & (chunk.c.statistic == statistic))
            found = connection.execute(query.order_by(chunk.c.first)).all()
            first, shape = found[0][0], (len(one.layout.sites), RATIO)
            parts = [read_buckets(data, shape, with_places=True) for _, data in found]
            whole = join(parts)
            rows += [
                _row(
                    one,
                    tier,
                    statistic,
                    group,
                    first,
                    whole.low.shape[1],
                    bucket_bytes(whole.sites(site, site + GROUP)),
                )
                for group, site in enumerate(range(0, shape[0], GROUP))
            ]
            if tier != TIERS[-1]:
                rows.append(_wide(one, tier * RATIO, statistic, first, bucket_buckets(parts, tier)))
        connection.execute(delete(chunk).where(wide))
        connection.execute(insert(chunk), rows)


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
