"""One rank of one run in a database: its writer, its summary, its findings, events and outcomes."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast, get_args

from sqlalchemy import Connection, Engine, Row, func, insert, select

from ..damage import Damage, damage_text, gathering
from ..encoding.record_codec import from_json, to_json
from ..errors import StoreDamaged, StoreError, StoreUnavailable
from ..history.verification import verify_recording
from ..metric_series import SEVERITIES, Severity
from ..plain_text import printable
from ..process import SILENCE_OF_ONE_CLOCK_S, describe, identity, is_alive, machine, silence_since
from ..records import Json
from ..run_info import ALL_RANKS, Run, RunKind, RunState
from ..schema.connect import store_errors
from ..schema.ledger import (
    ROW_COLUMNS,
    Ledger,
    check_row,
    check_values,
    read_ledger,
    read_ledgers,
    recount,
    write_ledger,
)
from ..schema.row_statements import silence, time_of_store, touch
from ..schema.table_definitions import finding, recording
from .run_head import Newest, check_newest

_AnyRow = Row[*tuple[Any, ...]]  # Any: the columns of a recording
#: Rule, site, severity, and how many findings.
_Counted = tuple[Any, ...]  # Any: as the columns


@dataclass(frozen=True, slots=True, eq=False)
class RankRecording:
    """A recording and the engine that reaches it.

    Args:
        newest: Returns how much was committed at least, where that is known from elsewhere.
    """

    run: str
    rank: int
    id: int
    engine: Engine
    location: str
    newest: Callable[[], Newest | None] = lambda: None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that sees a snapshot of the recording."""
        with store_errors(self.location), self.engine.connect() as connection, connection.begin():
            yield connection

    def damage(self) -> list[Damage]:
        """Read everything; return what is damaged or missing."""
        newest = self.newest()
        try:
            with self.read() as connection, gathering() as damaged:
                verify_recording(connection, self.id)
                if newest is not None:
                    check_newest(connection, self.id, newest)
        except StoreDamaged as error:  # SQLite cannot walk through the file
            damaged.append(Damage("the file", str(error)))
        return damaged


@dataclass(frozen=True, slots=True)
class Feeding:
    """A process elsewhere that records a rank by messages, and the next of them.

    Args:
        process: Its identity.
        writer: The token of its writer.
        number: The message that is to be written next.
    """

    process: str
    writer: str
    number: int


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that a collector has seen to be stored in a recording: its writer's token, and its number."""

    run: str
    rank: int
    writer: str
    number: int


class MessageStored(StoreError):
    """The message that is to be written is stored already."""


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """The summary of one recording: its row, and the number of findings of each (rule, site, severity).

    Args:
        damage: Words about what of the row is not what was written; empty if all is well.
        silent_s: Seconds since the last heartbeat, by the clock of the database; None where it has none.
    """

    run: Run
    writer: str
    revision: int
    findings: tuple[tuple[str, str, Severity, int], ...] = ()
    damage: str = ""
    silent_s: float | None = None

    @property
    def is_alive(self) -> bool:
        """Whether its writer still runs."""
        if self.silent_s is not None:
            return is_alive(self.writer, self.silent_s, most_s=SILENCE_OF_ONE_CLOCK_S)
        return is_alive(self.writer, silence_since(self.run.updated_at))


@dataclass(frozen=True, slots=True)
class RunNote:
    """The name, tags, remark and muted rules that people gave a run; None means not given."""

    name: str | None = None
    tags: Mapping[str, Json] | None = None
    remark: str | None = None
    revision: int = 0
    muted: frozenset[tuple[str, str]] = field(default_factory=frozenset)


def summarise_recording(connection: Connection, number: int, newest: Newest | None = None) -> RecordingSummary:
    """Return the summary of recording `number`, which says itself where it is damaged.

    Args:
        newest: How much was committed at least, where that is known from elsewhere.
    """
    columns = (column for column in recording.c if column.name != "structure")
    row = connection.execute(select(*columns, silence(connection)).where(recording.c.id == number)).one()
    found = connection.execute(
        select(finding.c.rule, finding.c.site, finding.c.severity, func.count())
        .where(finding.c.recording == number)
        .group_by(finding.c.rule, finding.c.site, finding.c.severity)
    ).all()
    with gathering() as damaged:
        check_row(connection, number, read_ledger(connection, number))
        if newest is not None:
            check_newest(connection, number, newest)
    return _summary(row, [tuple(counted) for counted in found], damaged)


def summarise_runs(connection: Connection, runs: Collection[str]) -> dict[str, tuple[RecordingSummary, ...]]:
    """Return by run the summaries of all its ranks, with as many queries as for one; none of an unknown run."""
    columns = (column for column in recording.c if column.name != "structure")
    query = select(*columns, silence(connection)).where(recording.c.run.in_(runs)).order_by(recording.c.rank)
    rows = connection.execute(query).all()
    counts: dict[int, list[_Counted]] = {row.id: [] for row in rows}
    for number, *counted in connection.execute(
        select(finding.c.recording, finding.c.rule, finding.c.site, finding.c.severity, func.count())
        .where(finding.c.recording.in_(select(recording.c.id).where(recording.c.run.in_(runs))))
        .group_by(finding.c.recording, finding.c.rule, finding.c.site, finding.c.severity)
    ):
        counts[number].append((counted[0], counted[1], counted[2], counted[3]))
    summaries: dict[str, list[RecordingSummary]] = {run: [] for run in runs}
    with gathering() as unread:
        ledgers = read_ledgers(connection, runs)
    for row in rows:
        with gathering() as damaged:
            check_values(tuple(getattr(row, name) for name in ROW_COLUMNS), ledgers.get(row.id))
        unknown = unread if row.id in ledgers and ledgers[row.id] is None else []
        summaries[row.run].append(_summary(row, counts[row.id], [*damaged, *unknown[:1]]))
    return {run: tuple(found) for run, found in summaries.items()}


def _summary(row: _AnyRow, found: Sequence[_Counted], damaged: Sequence[Damage]) -> RecordingSummary:
    """Return the summary of a recording from its row and the counts of its findings."""
    values = _sound_values(row) if damaged else row._mapping
    words = damage_text(values["run"], values["rank"], list(damaged)) if damaged else ""
    run = Run(
        id=values["run"],
        name=values["name"],
        state=values["state"] if values["state"] in get_args(RunState) else "crashed",
        created_at=values["created_at"],
        updated_at=values["updated_at"],
        kind=cast("RunKind", values["kind"]),
        framework=values["framework"],
        ranks=(values["rank"],),
        last_step=values["last_step"],
        parent=values["parent"],
        error=words or values["error"],
        tags=_object(values["tags"]),
        config=_object(values["config"]),
        host=_object(values["host"]),
    )
    counts = tuple((rule, site, cast("Severity", severity), count) for rule, site, severity, count in found)
    return RecordingSummary(run, values["writer"], values["revision"], counts, words, values["silent_s"])


#: What stands for a value that damage made another type of, by the type of its column.
_UNREADABLE: Final[Mapping[type, Any]] = {str: "", int: 0, float: 0.0}


def _sound_values(row: _AnyRow) -> dict[str, Any]:
    """Return the values of a damaged row, each of the type of its column, so that they can be counted and printed."""
    silent_s = row.silent_s
    values: dict[str, Any] = {"silent_s": silent_s if isinstance(silent_s, int | float) else None}
    for column in recording.c:
        value, kind = row._mapping.get(column.name), column.type.python_type
        is_sound = isinstance(value, (int, float) if kind is float else kind) or (value is None and column.nullable)
        sound = value if is_sound else _UNREADABLE.get(kind)
        values[column.name] = printable(sound) if isinstance(sound, str) else sound
    return values


def _object(text: str) -> dict[str, Json]:
    """Return the object of a column; empty where it cannot be read, which its row's checksum tells."""
    try:
        return from_json(text)
    except (ValueError, TypeError):  # TypeError: no text at all
        return {}


def summary_text(summary: RecordingSummary) -> str:
    """Return a summary as JSON; `read_summary` gives it back."""
    return to_json(asdict(summary))


def read_summary(text: str) -> RecordingSummary:
    """Return the summary from its JSON."""
    raw = json.loads(text)
    run = Run(**{**raw["run"], "ranks": tuple(raw["run"]["ranks"])})
    counts = tuple(tuple(row) for row in raw["findings"])
    return RecordingSummary(run, raw["writer"], raw["revision"], counts, raw["damage"])


def merge_summaries(summaries: Iterable[RecordingSummary], note: RunNote) -> Run:
    """Return the run of these summaries of its ranks, with the note that people gave it.

    The roll-up is no rank, and the run's state is that of the training, not of who rolls it up.
    """
    every = sorted(summaries, key=lambda summary: summary.run.ranks)
    ranks = [summary for summary in every if summary.run.ranks != (ALL_RANKS,)] or every
    first = ranks[0].run
    states = {_state(summary) for summary in ranks}
    order: tuple[RunState, ...] = ("failed", "crashed", "running", "finished")
    counts_by_finding = [counts for summary in every for counts in summary.findings]
    counted = [(severity, n) for rule, site, severity, n in counts_by_finding if (rule, site) not in note.muted]
    severities = {severity for severity, _ in counted}
    return Run(
        id=first.id,
        name=first.name if note.name is None else note.name,
        state=next(state for state in order if state in states),
        created_at=min(summary.run.created_at for summary in ranks),
        updated_at=max(summary.run.updated_at for summary in every),
        kind=first.kind,
        framework=first.framework,
        ranks=tuple(summary.run.ranks[0] for summary in ranks if summary.run.ranks != (ALL_RANKS,)) or (0,),
        last_step=max(summary.run.last_step for summary in every),
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
    return "crashed" if state == "running" and not summary.is_alive else state


def claim(
    connection: Connection, run: Run, rank: int, location: str, feeding: Feeding | None = None
) -> tuple[int, Run]:
    """Make this process the writer of a recording; return its number and the run as that recording knows it.

    Args:
        feeding: The process elsewhere whose messages this one writes; a recording that is made of messages may be
            taken over at any time.

    Raises:
        MessageStored: What is to be written is stored already.
        StoreUnavailable: A process that still runs writes it.
    """
    writer = identity() if feeding is None else feeding.process
    ours = (recording.c.run == run.id) & (recording.c.rank == rank)
    if (row := connection.execute(select(recording.c.id).where(ours)).one_or_none()) is not None:
        known = summarise_recording(connection, row.id)
        ledger = read_ledger(connection, row.id)
        feed = None if ledger is None else ledger.feed
        if feeding is not None and feed is not None and feed.has(feeding.writer, feeding.number):
            raise MessageStored
        is_taken_over = feeding is not None and (known.writer == feeding.process or (feed is not None and feed.holder))
        if known.run.state == "running" and not is_taken_over and known.is_alive:
            raise StoreUnavailable(
                f"rank {rank} of run {run.id!r} in {location} is being written by {describe(known.writer)}; "
                f"one rank has one writer: wait for it, or begin another run"
            )
        touch(connection, row.id, state="running", error="", writer=writer)
        write_ledger(connection, row.id, recount(connection, row.id))
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
        "updated_at": time_of_store(connection),
        "last_step": -1,
        "revision": 0,
        "writer": writer,
        "config": to_json(run.config),
        "tags": to_json(run.tags),
        "host": to_json(machine() | dict(run.host)),
    }
    key = connection.execute(insert(recording).values(**values)).inserted_primary_key
    assert key is not None
    write_ledger(connection, int(key[0]), Ledger())
    return int(key[0]), summarise_recording(connection, int(key[0])).run
