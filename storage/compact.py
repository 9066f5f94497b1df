"""Moves the oldest hot records of a stream into chunks by statistic and group of sites; one transaction, one stream a call.

Nothing is remembered between calls: what is left to do is what stands in `hot`, so a restart goes on where it was.
"""

import numpy as np
from sqlalchemy import Connection, delete, func, insert, select

from .codec import CODEC_VERSION
from .streams import GROUP, Stream, Timeline, chunk_bytes, read_hot, read_streams, span_bytes
from .tables import chunk, hot, span, stream

#: Records a chunk of tier 1 holds.
LENGTH = 256


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
    rows = connection.execute(
        select(hot.c.step, hot.c.micro_step, hot.c.time)
        .where(hot.c.stream == full)
        .order_by(hot.c.step, hot.c.micro_step)
        .limit(LENGTH)
    ).all()
    steps, micro_steps, times = zip(*rows, strict=True)
    line = Timeline(0, 0, np.array(steps), np.array(micro_steps), np.array(times))
    _write_chunks(connection, one, line)
    oldest = select(hot.c.id).where(hot.c.stream == full).order_by(hot.c.step, hot.c.micro_step).limit(LENGTH)
    connection.execute(delete(hot).where(hot.c.id.in_(oldest.scalar_subquery())))
    return True


def _write_chunks(connection: Connection, one: Stream, line: Timeline) -> None:
    first = (
        connection.execute(select(func.max(span.c.first + span.c.count)).where(span.c.stream == one.id)).scalar() or 0
    )
    head = {"stream": one.id, "first": first, "count": len(line), "codec": CODEC_VERSION}
    bounds = {"first_step": int(line.steps[0]), "last_step": int(line.steps[-1])}
    data = span_bytes(line.steps, line.micro_steps, line.times)
    connection.execute(insert(span).values(**head, **bounds, data=data))
    values, present = read_hot(connection, one, line, range(len(one.layout.statistics)))
    values, present = values[: len(line)], present[: len(line)]
    rows = []
    for group, site in enumerate(range(0, len(one.layout.sites), GROUP)):
        flags = np.ascontiguousarray(present[:, site : site + GROUP].T)
        for statistic in range(len(one.layout.statistics)):
            block = np.ascontiguousarray(values[:, site : site + GROUP, statistic].T)
            place = {"tier": 1, "statistic": statistic, "site_group": group}
            rows.append({**head, **place, "data": chunk_bytes(block, flags)})
    connection.execute(insert(chunk), rows)
