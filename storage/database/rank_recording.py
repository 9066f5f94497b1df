"""One rank of one run in a database: its writer, its summary, its findings, events and outcomes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from sqlalchemy import Connection, Engine, and_, func, insert, select

from ..encoding.record_codec import (
    event_text,
    finding_text,
    from_json,
    read_event,
    read_finding,
    read_histogram,
    read_outcome,
    to_json,
)
from ..errors import StoreUnavailable
from ..history.queries import spaced
from ..metric_series import SEVERITIES, Severity
from ..process import describe, identity, is_alive, machine
from ..records import Event, Finding, Histogram, Json, Outcome
from ..run_info import Run, RunKind, RunState
from ..schema.connect import store_errors
from ..schema.row_statements import replace_rows, touch
from ..schema.table_definitions import event, finding, histogram, outcome, recording


@dataclass(frozen=True, slots=True, eq=False)
class RankRecording:
    """A recording and the engine that reaches it."""

    run: str
    rank: int
    id: int
    engine: Engine
    location: str

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that sees a snapshot of the recording."""
        with store_errors(self.location), self.engine.connect() as connection, connection.begin():
            yield connection


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """The summary of one recording: its row, and the number of findings of each (rule, site, severity)."""

    run: Run
    writer: str
    revision: int
    findings: tuple[tuple[str, str, Severity, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RunNote:
    """The name, tags, remark and muted rules that people gave a run; None means not given."""

    name: str | None = None
    tags: Mapping[str, Json] | None = None
    remark: str | None = None
    revision: int = 0
    muted: frozenset[tuple[str, str]] = field(default_factory=frozenset)


def summarise_recording(connection: Connection, number: int) -> RecordingSummary:
    """Return the summary of recording `number`."""
    columns = (column for column in recording.c if column.name != "structure")
    row = connection.execute(select(*columns).where(recording.c.id == number)).one()
    found = connection.execute(
        select(finding.c.rule, finding.c.site, finding.c.severity, func.count())
        .where(finding.c.recording == number)
        .group_by(finding.c.rule, finding.c.site, finding.c.severity)
    ).all()
    run = Run(
        id=row.run,
        name=row.name,
        state=row.state,
        created_at=row.created_at,
        updated_at=row.updated_at,
        kind=cast("RunKind", row.kind),
        framework=row.framework,
        ranks=(row.rank,),
        last_step=row.last_step,
        parent=row.parent,
        error=row.error,
        tags=from_json(row.tags),
        config=from_json(row.config),
        host=from_json(row.host),
    )
    return RecordingSummary(
        run, row.writer, row.revision, tuple((a, b, cast("Severity", c), n) for a, b, c, n in found)
    )


def summary_text(summary: RecordingSummary) -> str:
    """Return a summary as JSON; `read_summary` gives it back."""
    return to_json(asdict(summary))


def read_summary(text: str) -> RecordingSummary:
    """Return the summary from its JSON."""
    raw = json.loads(text)
    run = Run(**{**raw["run"], "ranks": tuple(raw["run"]["ranks"])})
    return RecordingSummary(run, raw["writer"], raw["revision"], tuple(tuple(row) for row in raw["findings"]))


def merge_summaries(summaries: Iterable[RecordingSummary], note: RunNote) -> Run:
    """Return the run of these summaries of its ranks, with the note that people gave it."""
    ranks = sorted(summaries, key=lambda summary: summary.run.ranks)
    first = ranks[0].run
    states = {_state(summary) for summary in ranks}
    order: tuple[RunState, ...] = ("failed", "crashed", "running", "finished")
    counts_by_finding = [counts for summary in ranks for counts in summary.findings]
    counted = [(severity, n) for rule, site, severity, n in counts_by_finding if (rule, site) not in note.muted]
    severities = {severity for severity, _ in counted}
    return Run(
        id=first.id,
        name=first.name if note.name is None else note.name,
        state=next(state for state in order if state in states),
        created_at=min(summary.run.created_at for summary in ranks),
        updated_at=max(summary.run.updated_at for summary in ranks),
        kind=first.kind,
        framework=first.framework,
        ranks=tuple(summary.run.ranks[0] for summary in ranks),
        last_step=max(summary.run.last_step for summary in ranks),
        worst=next((severity for severity in reversed(SEVERITIES) if severity in severities), None),
        findings=sum(n for _, n in counted),
        parent=first.parent,
        error=next((summary.run.error for summary in ranks if summary.run.error), ""),
        tags=first.tags if note.tags is None else note.tags,
        remark=note.remark or "",
        config=first.config,
        host=first.host,
    )


def _state(summary: RecordingSummary) -> RunState:
    state = summary.run.state
    return "crashed" if state == "running" and not is_alive(summary.writer, summary.run.updated_at) else state


def claim(connection: Connection, run: Run, rank: int, location: str) -> tuple[int, Run]:
    """Make this process the writer of a recording; return its number and the run as that recording knows it.

    Raises:
        StoreUnavailable: A process that still runs writes it.
    """
    ours = (recording.c.run == run.id) & (recording.c.rank == rank)
    query = select(recording.c.id, recording.c.state, recording.c.writer, recording.c.updated_at).where(ours)
    if (row := connection.execute(query).one_or_none()) is not None:
        if row.state == "running" and is_alive(row.writer, row.updated_at):
            raise StoreUnavailable(
                f"rank {rank} of run {run.id!r} in {location} is being written by {describe(row.writer)}; "
                f"one rank has one writer: wait for it, or begin another run"
            )
        touch(connection, row.id, state="running", error="", writer=identity())
        return row.id, summarise_recording(connection, row.id).run
    values = {
        "run": run.id,
        "rank": rank,
        "name": run.name,
        "kind": run.kind,
        "framework": run.framework,
        "parent": run.parent,
        "state": "running",
        "error": "",
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "last_step": -1,
        "revision": 0,
        "writer": identity(),
        "config": to_json(run.config),
        "tags": to_json(run.tags),
        "host": to_json(machine() | dict(run.host)),
    }
    key = connection.execute(insert(recording).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0]), summarise_recording(connection, int(key[0])).run


def write_findings(connection: Connection, number: int, findings: Iterable[Finding]) -> None:
    """Add findings to recording `number`; one of the same rule, site, rank and first step replaces the earlier."""
    rows = (
        {
            "rule": added.rule,
            "site": added.site,
            "rank": int(added.rank),
            "first_step": int(added.first_step),
            "severity": added.severity,
            "data": finding_text(added),
        }
        for added in findings
    )
    replace_rows(connection, finding, number, rows, ("rule", "site", "rank", "first_step"))


def event_row(number: int, added: Event, step: int, micro_step: int) -> dict[str, Any]:  # Any: of any column
    """Return the row of an event that came with the record of that step."""
    key = {"recording": number, "step": int(step), "micro_step": int(micro_step)}
    return {**key, "kind": added.kind, "data": event_text(added)}


def read_findings(connection: Connection, number: int, minimum: Severity, limit: int) -> list[Finding]:
    """Return the first findings of recording `number`, at least as severe as `minimum`."""
    severe = SEVERITIES[SEVERITIES.index(minimum) :]
    query = (
        select(finding.c.data)
        .where(finding.c.recording == number, finding.c.severity.in_(severe))
        .order_by(finding.c.first_step, finding.c.id)
        .limit(limit)
    )
    return [read_finding(text) for text in connection.execute(query).scalars()]


def read_events(connection: Connection, number: int, kind: str | None, limit: int) -> list[Event]:
    """Return the newest events of recording `number`, in the order of their arrival."""
    query = select(event.c.data).where(event.c.recording == number)
    if kind is not None:
        query = query.where(event.c.kind == kind)
    query = query.order_by(event.c.id.desc()).limit(limit)
    return [read_event(text) for text in connection.execute(query).scalars()][::-1]


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
    full = select(histogram.c.step, histogram.c.call, histogram.c.data).where(ours).order_by(*order)
    if wanted is not None:
        full = full.where(histogram.c.id.in_([wanted[at] for at in spaced(count, limit).tolist()]))
    return [(step, read_histogram(site, subject, call, data)) for step, call, data in connection.execute(full)]


def read_outcomes(connection: Connection, number: int, limit: int) -> list[Outcome]:
    """Return the outcomes of recording `number`."""
    query = select(outcome.c.data).where(outcome.c.recording == number).order_by(outcome.c.id).limit(limit)
    return [read_outcome(text) for text in connection.execute(query).scalars()]
