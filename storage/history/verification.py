"""Reads everything that a recording holds, and notes what of it is damaged or missing."""

from sqlalchemy import Connection, select, text

from ..damage import Damage, note_damage
from ..errors import StoreDamaged
from ..metric_series import SEVERITIES
from ..schema.ledger import check_row, read_ledger
from ..schema.rare_rows import (
    check_attachments,
    events_between,
    histograms_between,
    read_events,
    read_findings,
    read_outcomes,
)
from ..schema.row_statements import StoredStream, read_former, read_streams, stored_structure
from ..schema.table_definitions import chunk
from .archive_chunks import CHUNK_COLUMNS, LENGTH, chunk_content, read_archived
from .hot_records import RecordTimes, read_blocks
from .queries import check_stream
from .timeline import FIRST, LAST, read_timeline

#: Records of a stream that are read at a time.
_AT_ONCE = LENGTH * 16


def verify_recording(connection: Connection, number: int) -> None:
    """Note all that is damaged or missing of recording `number`."""
    if connection.dialect.name == "sqlite":
        _check_pages(connection)
    check_row(connection, number, read_ledger(connection, number))
    stored_structure(connection, number)
    read_former(connection, number)
    read_findings(connection, number, SEVERITIES[0], 2**31)
    read_outcomes(connection, number, 2**31)
    read_events(connection, number, None, 1)
    for _ in events_between(connection, number, FIRST, LAST):
        pass
    for _ in histograms_between(connection, number, FIRST, LAST):
        pass
    check_attachments(connection, number)
    for stored in read_streams(connection, number):
        _verify_stream(connection, stored)


def _check_pages(connection: Connection) -> None:
    """Note what SQLite itself finds wrong with the pages and indices of the file."""
    for line in connection.execute(text("PRAGMA integrity_check(5)")).scalars():
        if line != "ok":
            note_damage(Damage("the file", line.replace("\n", " ")))


def _verify_stream(connection: Connection, stored: StoredStream) -> None:
    check_stream(connection, stored)
    line = read_timeline(connection, stored.id)
    if len(line) > line.archived:
        late = RecordTimes(line.steps, line.micro_steps, line.times)[line.archived :]
        read_blocks(connection, stored.id, late)
    columns, end = range(len(stored.layout.statistics)), line.offset + line.archived
    for begin in range(line.offset, end, _AT_ONCE):
        read_archived(connection, stored, columns, slice(None), begin, min(begin + _AT_ONCE, end))
    tiers = select(chunk.c.tier).where(chunk.c.stream == stored.id, chunk.c.tier > 1).distinct()
    for tier in connection.execute(tiers).scalars().all():
        if not isinstance(tier, int):
            note_damage(Damage(stored.layout.subject, f"buckets of {tier!r} records", stored.layout.sites))
            continue
        query = select(*CHUNK_COLUMNS).where(chunk.c.stream == stored.id, chunk.c.tier == tier)
        for row in connection.execute(query):
            try:
                chunk_content(stored.id, tier, row)
            except StoreDamaged as error:
                what = f"{stored.layout.subject} in buckets of {tier} records"
                note_damage(Damage(what, str(error), stored.layout.sites))
