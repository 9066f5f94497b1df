"""The small tables of what is rare: how findings, events, histograms and outcomes are written and read."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, and_, func, select

from ..encoding.rows import event_text, finding_text, read_event, read_finding, read_histogram, read_outcome
from ..history.downsample import spaced
from ..names import SEVERITIES, Severity
from ..records import Event, Finding, Histogram, Outcome
from ..schema.changes import replace_rows
from ..schema.tables import event, finding, histogram, outcome


def write_findings(connection: Connection, number: int, findings: Iterable[Finding]) -> None:
    """Adds findings to recording `number`; one of the same rule, site, rank and first step replaces the earlier."""
    rows = (
        {
            "rule": one.rule,
            "site": one.site,
            "rank": int(one.rank),
            "first_step": int(one.first_step),
            "severity": one.severity,
            "data": finding_text(one),
        }
        for one in findings
    )
    replace_rows(connection, finding, number, rows, ("rule", "site", "rank", "first_step"))


def event_row(number: int, one: Event, step: int, micro_step: int) -> dict[str, Any]:
    """The row of an event that came with the record of that step."""
    place = {"recording": number, "step": int(step), "micro_step": int(micro_step)}
    return {**place, "kind": one.kind, "data": event_text(one)}


def read_findings(connection: Connection, number: int, minimum: Severity, limit: int) -> list[Finding]:
    """The first findings of recording `number`, at least as severe as `minimum`."""
    severe = SEVERITIES[SEVERITIES.index(minimum) :]
    query = (
        select(finding.c.data)
        .where(finding.c.recording == number, finding.c.severity.in_(severe))
        .order_by(finding.c.first_step, finding.c.id)
        .limit(limit)
    )
    return [read_finding(text) for text in connection.execute(query).scalars()]


def read_events(connection: Connection, number: int, kind: str | None, limit: int) -> list[Event]:
    """The events of recording `number` that came last, in the order in which they came."""
    query = select(event.c.data).where(event.c.recording == number)
    if kind is not None:
        query = query.where(event.c.kind == kind)
    query = query.order_by(event.c.id.desc()).limit(limit)
    return [read_event(text) for text in connection.execute(query).scalars()][::-1]


def read_histograms(
    connection: Connection, number: int, site: str, subject: str, first: int, last: int, limit: int
) -> list[tuple[int, Histogram]]:
    """(step, histogram) of one site, oldest first, evenly thinned to `limit`."""
    ours = and_(
        histogram.c.recording == number,
        histogram.c.subject == subject,
        histogram.c.site == site,
        histogram.c.step.between(first, last),
    )
    order = (histogram.c.step, histogram.c.micro_step, histogram.c.id)
    count = connection.execute(select(func.count()).select_from(histogram).where(ours)).scalar_one()
    query = select(histogram.c.id).where(ours).order_by(*order)
    wanted = connection.execute(query).scalars().all() if count > limit else None
    full = select(histogram.c.step, histogram.c.call, histogram.c.data).where(ours).order_by(*order)
    if wanted is not None:
        full = full.where(histogram.c.id.in_([wanted[at] for at in spaced(count, limit).tolist()]))
    return [(step, read_histogram(site, subject, call, data)) for step, call, data in connection.execute(full)]


def read_outcomes(connection: Connection, number: int, limit: int) -> list[Outcome]:
    """The outcomes of recording `number`."""
    query = select(outcome.c.data).where(outcome.c.recording == number).order_by(outcome.c.id).limit(limit)
    return [read_outcome(text) for text in connection.execute(query).scalars()]
