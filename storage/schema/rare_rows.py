"""Rows of findings, events with their attachments, histograms and outcomes: made sealed, read unsealed, and counted.

A row that cannot be read is noted as damage and left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from sqlalchemy import Connection, Row, Select, Table, and_, func, inspect, select

from ..damage import Damage, note_damage
from ..encoding.checksums import seal, seal_text, unseal, unseal_frame, unseal_text
from ..encoding.record_codec import (
    event_text,
    finding_text,
    histogram_bytes,
    outcome_text,
    read_event,
    read_finding,
    read_histogram,
    read_outcome,
)
from ..errors import StoreDamaged
from ..metric_series import SEVERITIES, Severity
from ..records import Event, Finding, Histogram, Outcome
from .ledger import check_count, read_ledger, recount, write_ledger
from .row_statements import mark_changed, replace_rows
from .table_definitions import attachment, event, finding, histogram, outcome

_AnyRow = Row[*tuple[Any, ...]]  # Any: all columns of one of these tables
_Read = TypeVar("_Read")


def write_findings(connection: Connection, number: int, findings: Iterable[Finding]) -> None:
    """Add findings to recording `number`; one of the same rule, site, rank and first step replaces the earlier."""
    rows = (
        {
            "rule": added.rule,
            "site": added.site,
            "rank": int(added.rank),
            "first_step": int(added.first_step),
            "severity": added.severity,
            "data": seal_text(finding_text(added), number, added.rule, added.site, int(added.rank), added.severity),
        }
        for added in findings
    )
    replace_rows(connection, finding, number, rows, ("rule", "site", "rank", "first_step"))


def add_findings(connection: Connection, number: int, findings: Sequence[Finding]) -> None:
    """Add findings to a recording beside its writer, if there is one."""
    write_findings(connection, number, findings)
    mark_changed(connection, number)
    if read_ledger(connection, number, is_changing=True) is not None:
        write_ledger(connection, number, recount(connection, number))


def event_row(number: int, added: Event, step: int, micro_step: int) -> dict[str, Any]:  # Any: of any column
    """Return the row of an event that came with the record of that step."""
    place = number, int(step), int(micro_step), added.kind
    key = dict(zip(("recording", "step", "micro_step", "kind"), place, strict=True))
    return {**key, "data": seal_text(event_text(added), *place)}


def attachment_row(number: int, added: Event, step: int, micro_step: int) -> dict[str, Any]:  # Any: as above
    """Return the row of the attachment of an event that has one."""
    assert added.attachment is not None
    place = number, int(step), int(micro_step), str(added.data["digest"])
    key = dict(zip(("recording", "step", "micro_step", "digest"), place, strict=True))
    return {**key, "data": seal(added.attachment.file(), *place)}


def histogram_row(number: int, added: Histogram, step: int, micro_step: int) -> dict[str, Any]:  # Any: as above
    """Return the row of a histogram that came with the record of that step."""
    place = number, int(step), int(micro_step), added.site, added.subject, added.call
    key = dict(zip(("recording", "step", "micro_step", "site", "subject", "call"), place, strict=True))
    return {**key, "data": seal(histogram_bytes(added), *place)}


def outcome_row(number: int, added: Outcome) -> dict[str, Any]:  # Any: as above
    """Return the row of an outcome, without the recording's number."""
    key = {"attack": added.attack, "norm": added.norm, "epsilon": repr(float(added.epsilon))}
    return {**key, "data": seal_text(outcome_text(added), number, *key.values())}


def read_findings(connection: Connection, number: int, minimum: Severity, limit: int) -> list[Finding]:
    """Return the first findings of recording `number`, at least as severe as `minimum`."""
    severe = SEVERITIES[SEVERITIES.index(minimum) :]
    query = (
        select(finding)
        .where(finding.c.recording == number, finding.c.severity.in_(severe))
        .order_by(finding.c.first_step, finding.c.id)
        .limit(limit)
    )
    check_count(connection, number, "findings")
    return _intact(connection, query, _finding, "a finding", lambda row: row.first_step)


def read_events(connection: Connection, number: int, kind: str | None, limit: int) -> list[Event]:
    """Return the newest events of recording `number`, in the order of their arrival."""
    query = select(event).where(event.c.recording == number)
    if kind is not None:
        query = query.where(event.c.kind == kind)
    check_count(connection, number, "events")
    return _intact(connection, query.order_by(event.c.id.desc()).limit(limit), _event, "an event", _step)[::-1]


def events_between(
    connection: Connection, number: int, first: int, last: int
) -> Iterator[tuple[tuple[int, int], Event]]:
    """Yield ((step, micro-step), event) of recording `number` between two steps, in the order of their arrival."""
    query = select(event).where(event.c.recording == number, event.c.step.between(first, last)).order_by(event.c.id)
    yield from _intact(connection, query, lambda row: ((row.step, row.micro_step), _event(row)), "an event", _step)


def histograms_between(
    connection: Connection, number: int, first: int, last: int
) -> Iterator[tuple[tuple[int, int], Histogram]]:
    """Yield ((step, micro-step), histogram) of recording `number` between two steps, in the order of their arrival."""
    ours = histogram.c.recording == number, histogram.c.step.between(first, last)
    query = select(histogram).where(*ours).order_by(histogram.c.id)
    yield from _intact(
        connection, query, lambda row: ((row.step, row.micro_step), _histogram(row)), "a histogram", _step
    )


def read_histograms(
    connection: Connection, number: int, site: str, subject: str, *, steps: tuple[int, int], limit: int
) -> list[tuple[int, Histogram]]:
    """Return (step, histogram) of one site, oldest first, evenly thinned to `limit`."""
    ours = and_(
        histogram.c.recording == number,
        histogram.c.subject == subject,
        histogram.c.site == site,
        histogram.c.step.between(*steps),
    )
    order = (histogram.c.step, histogram.c.micro_step, histogram.c.id)
    count = connection.execute(select(func.count()).select_from(histogram).where(ours)).scalar_one()
    query = select(histogram.c.id).where(ours).order_by(*order)
    wanted = connection.execute(query).scalars().all() if count > limit else None
    full = select(histogram).where(ours).order_by(*order)
    if wanted is not None:
        at = np.unique(np.linspace(0, count - 1, max(limit, 1)).round().astype(np.int64))
        full = full.where(histogram.c.id.in_([wanted[place] for place in at.tolist()]))
    check_count(connection, number, "histograms")
    return _intact(connection, full, lambda row: (row.step, _histogram(row)), "a histogram", _step)


def read_attachment(connection: Connection, number: int, digest: str) -> bytes | None:
    """Return the newest attachment of recording `number` with that digest; None if there is none, or it is damaged."""
    if not inspect(connection).has_table(attachment.name):
        return None
    ours = attachment.c.recording == number, attachment.c.digest == digest
    query = select(attachment).where(*ours).order_by(attachment.c.id.desc()).limit(1)
    return next(iter(_intact(connection, query, _attachment, f"attachment {digest}", _step)), None)


def check_attachments(connection: Connection, number: int) -> None:
    """Read every attachment of recording `number`, one at a time, and note those that are damaged or missing."""
    if not inspect(connection).has_table(attachment.name):
        return
    check_count(connection, number, "attachments")
    for key in connection.execute(select(attachment.c.id).where(attachment.c.recording == number)).scalars().all():
        query = select(attachment).where(attachment.c.id == key)
        _intact(connection, query, _attachment, "an attachment", _step)


def read_outcomes(connection: Connection, number: int, limit: int) -> list[Outcome]:
    """Return the outcomes of recording `number`."""
    query = select(outcome).where(outcome.c.recording == number).order_by(outcome.c.id).limit(limit)
    check_count(connection, number, "outcomes")
    return _intact(connection, query, _outcome, "an outcome", lambda row: None)


def _intact(
    connection: Connection,
    query: Select[*tuple[Any, ...]],  # Any: the columns of one of these tables
    read: Callable[[_AnyRow], _Read],
    what: str,
    step: Callable[[_AnyRow], int | None],
) -> list[_Read]:
    """Return what is in the rows of a query; note the damaged ones."""
    found = []
    for row in connection.execute(query):
        try:
            found.append(read(row))
        except (StoreDamaged, ValueError, KeyError, TypeError) as error:
            note_damage(Damage(what, str(error), first=step(row), last=step(row)))
    return found


def check_rare_row(table: Table, row: _AnyRow) -> None:
    """Raise `StoreDamaged`, or another error of reading, if a row of one of these tables is not what was written."""
    _READS[table.name](row)


def _step(row: _AnyRow) -> int | None:
    return row.step if isinstance(row.step, int) else None


def _finding(row: _AnyRow) -> Finding:
    return read_finding(unseal_text(row.data, row.recording, row.rule, row.site, row.rank, row.severity))


def _event(row: _AnyRow) -> Event:
    return read_event(unseal_text(row.data, row.recording, row.step, row.micro_step, row.kind))


def _histogram(row: _AnyRow) -> Histogram:
    place = row.recording, row.step, row.micro_step, row.site, row.subject, row.call
    return read_histogram(row.site, row.subject, row.call, unseal_frame(row.data, *place))


def _attachment(row: _AnyRow) -> bytes:
    return unseal(row.data, row.recording, row.step, row.micro_step, row.digest)


def _outcome(row: _AnyRow) -> Outcome:
    return read_outcome(unseal_text(row.data, row.recording, row.attack, row.norm, row.epsilon))


_READS: Final[dict[str, Callable[[_AnyRow], object]]] = {
    finding.name: _finding,
    event.name: _event,
    attachment.name: _attachment,
    histogram.name: _histogram,
    outcome.name: _outcome,
}
