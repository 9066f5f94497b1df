"""One rank of one run in a database: where it is, how it is read, and what it says about itself."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import cast

from sqlalchemy import Connection, Engine, func, select

from ..encoding.text import from_json, to_json
from ..names import SEVERITIES, Severity
from ..process import is_alive
from ..records import Json
from ..run import Run, RunKind, RunState
from ..schema.connect import in_our_words
from ..schema.tables import finding, recording


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recording and the engine that reaches it."""

    run: str
    rank: int
    id: int
    engine: Engine
    place: str

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees the recording as it is at this moment."""
        with in_our_words(self.place), self.engine.connect() as connection, connection.begin():
            yield connection


@dataclass(frozen=True, slots=True)
class Summary:
    """What one recording says about itself: the row, and how many findings of each (rule, site, severity)."""

    run: Run
    writer: str
    revision: int
    findings: tuple[tuple[str, str, Severity, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """What people have added to a run; None is nothing."""

    name: str | None = None
    tags: Mapping[str, Json] | None = None
    remark: str | None = None
    revision: int = 0
    muted: frozenset[tuple[str, str]] = field(default_factory=frozenset)


def summarise_recording(connection: Connection, number: int) -> Summary:
    """The summary of recording `number`."""
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
    return Summary(run, row.writer, row.revision, tuple((a, b, cast("Severity", c), n) for a, b, c, n in found))


def summary_text(summary: Summary) -> str:
    """A summary as JSON; `read_summary` gives it back."""
    return to_json(asdict(summary))


def read_summary(text: str) -> Summary:
    """The summary from its JSON."""
    raw = json.loads(text)
    run = Run(**{**raw["run"], "ranks": tuple(raw["run"]["ranks"])})
    return Summary(run, raw["writer"], raw["revision"], tuple(tuple(one) for one in raw["findings"]))


def merge(summaries: Iterable[Summary], note: Note) -> Run:
    """The run that the summaries of its ranks make up, with what people have added to it."""
    ranks = sorted(summaries, key=lambda one: one.run.ranks)
    first = ranks[0].run
    states = {_state(one) for one in ranks}
    order: tuple[RunState, ...] = ("failed", "crashed", "running", "finished")
    every = [one for rank in ranks for one in rank.findings]
    counted = [(severity, n) for rule, site, severity, n in every if (rule, site) not in note.muted]
    severities = {severity for severity, _ in counted}
    return Run(
        id=first.id,
        name=first.name if note.name is None else note.name,
        state=next(state for state in order if state in states),
        created_at=min(one.run.created_at for one in ranks),
        updated_at=max(one.run.updated_at for one in ranks),
        kind=first.kind,
        framework=first.framework,
        ranks=tuple(one.run.ranks[0] for one in ranks),
        last_step=max(one.run.last_step for one in ranks),
        worst=next((severity for severity in reversed(SEVERITIES) if severity in severities), None),
        findings=sum(n for _, n in counted),
        parent=first.parent,
        error=next((one.run.error for one in ranks if one.run.error), ""),
        tags=first.tags if note.tags is None else note.tags,
        remark=note.remark or "",
        config=first.config,
        host=first.host,
    )


def _state(summary: Summary) -> RunState:
    state = summary.run.state
    return "crashed" if state == "running" and not is_alive(summary.writer, summary.run.updated_at) else state
