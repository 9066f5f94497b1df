"""The store in memory: plain lists, read naively; tests compare every other backend with it."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .control_channel import MemoryChannel
from .errors import RunNotFound, StoreUnavailable, no_attachment
from .history.queries import (
    MatrixPart,
    MatrixQuery,
    SeriesQuery,
    every_record,
    first_calls,
    join_matrix,
    join_series,
    list_metrics,
    row_of,
    spaced,
)
from .history.timeline import FIRST, LAST
from .memory_writer import MemoryRank, MemoryWriter
from .metric_series import ROOT_SITE, SEVERITIES, Matrix, Series, Severity, split_metric
from .process import machine
from .records import Block, Event, Finding, Histogram, Json, Layout, Outcome, StepRecord, report_order
from .renamed_names import renamed_method
from .run_info import ALL_RANKS, FormerStructure, Run, RunKind, Structure, begun_run, find_run, first_rank
from .schema.row_statements import SCALAR
from .stored_tensors import remove_tensors
from .unknown_names import is_asked_by_people, warn_of_unknown_series


@dataclass(slots=True)
class _Notes:
    name: str | None = None
    tags: dict[str, Json] | None = None
    remark: str = ""
    muted: set[tuple[str, str]] = field(default_factory=set)
    revision: int = 0


class MemoryStore:
    """The `Store` in memory; `store.py` has its promises."""

    url = "memory:"

    def __init__(self) -> None:
        self._runs: dict[str, dict[int, MemoryRank]] = {}
        self._notes: dict[str, _Notes] = {}
        self._channels: dict[str, MemoryChannel] = {}
        self._lock = threading.RLock()

    @property
    def damage(self) -> tuple[str, ...]:
        """Always empty: memory is not damaged."""
        return ()

    def begin_run(
        self,
        name: str,
        *,
        kind: RunKind = "training",
        framework: str = "",
        rank: int = 0,
        run_id: str | None = None,
        parent: str | None = None,
        config: Mapping[str, Json] | None = None,
        tags: Mapping[str, Json] | None = None,
        host: Mapping[str, Json] | None = None,
    ) -> MemoryWriter:
        """Start a run, or join the run `run_id` as another rank of it."""
        run = begun_run(
            name,
            kind=kind,
            framework=framework,
            rank=rank,
            run_id=run_id,
            parent=parent,
            config=config,
            tags=tags,
            host=machine() | dict(host or {}),
        )
        with self._lock:
            ranks = self._runs.setdefault(run.id, {})
            if rank in ranks and ranks[rank].is_written:
                raise StoreUnavailable(f"rank {rank} of run {run.id!r} is being written; one rank has one writer")
            recording = ranks.setdefault(rank, MemoryRank(run))
            recording.run = replace(recording.run, state="running", error="")
            recording.is_written = True
            return MemoryWriter(recording, self._lock)

    def runs(self, *, limit: int = 1000) -> tuple[Run, ...]:
        """Return the runs of the store, newest first."""
        with self._lock:
            found = [self._merged(run) for run in self._runs]
        return tuple(sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)[:limit])

    def find_run(self, reference: str) -> Run:
        """Return the run with that id, unique id prefix, name (its newest) or `latest`."""
        return find_run(self.runs(limit=1_000_000), reference)

    def version(self, run: str) -> str:
        """Return a string that changes with every change of the run."""
        with self._lock:
            ranks = self._ranks(run)
            words = [f"{rank}:{recording.revision}" for rank, recording in ranks.items()]
            return f"{self._note(run).revision}/{','.join(words)}"

    def structure(self, run: str, *, rank: int | None = None) -> Structure:
        """Return the structure of the trained model; empty before it is known."""
        recording = self._ranks(run).get(self._number(run, rank))
        return Structure() if recording is None else recording.structure

    def former_structures(self, run: str, *, rank: int | None = None) -> tuple[FormerStructure, ...]:
        """Return the structures before each change, oldest first."""
        with self._lock:
            return tuple(self._rank(run, rank).former)

    def layouts(self, run: str, *, rank: int | None = None) -> tuple[Layout, ...]:
        """Return the streams that the rank has recorded."""
        with self._lock:
            return tuple(self._rank(run, rank).layouts)

    def metrics(self, run: str, *, rank: int | None = None) -> tuple[str, ...]:
        """Return all metrics of the rank, `scalar/...` among them, sorted."""
        with self._lock:
            recording = self._rank(run, rank)
            scalars = {f"{SCALAR}/{name}" for record in recording.records for name in record.scalars}
            return tuple(sorted(scalars.union(list_metrics(tuple(recording.layouts)))))

    def series(
        self,
        run: str,
        site: str,
        metric: str,
        *,
        rank: int | None = None,
        call: int = 0,
        first: int | None = None,
        last: int | None = None,
        limit: int = 2000,
    ) -> Series:
        """Return one series between two steps, both included; scalars have the root site. Unknown names give an empty
        one, and people a warning."""
        points, rank = [], self._number(run, rank)
        for record in self._between(run, rank, first, last):
            at = (record.step, record.micro_step, record.time)
            points += [(*at, value) for value in _values(record, site, metric, call)]
        if not points and is_asked_by_people():
            layouts, metrics = self.layouts(run, rank=rank), self.metrics(run, rank=rank)
            warn_of_unknown_series(run, site, metric, layouts, metrics, self.structure(run, rank=rank))
        columns = list(zip(*points, strict=True)) or [(), (), (), ()]
        steps, micro_steps = (np.array(column, dtype=np.int64) for column in columns[:2])
        times, values = (np.array(column, dtype=np.float64) for column in columns[2:])
        query = SeriesQuery(site, metric, rank=rank, call=call, limit=limit)
        return join_series([(steps, micro_steps, values, times)], query)

    def matrix(
        self,
        run: str,
        metric: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int = 500,
    ) -> Matrix:
        """Return one metric over all sites (first calls) in at most `limit` columns."""
        rank = self._number(run, rank)
        subject, statistic = split_metric(metric)
        grouped: dict[Layout, list[tuple[int, Block]]] = {}
        for record in self._between(run, rank, first, last):
            for block in record.blocks:
                if block.layout.subject == subject and statistic in block.layout.statistics:
                    grouped.setdefault(block.layout, []).append((record.step, block))
        parts: list[MatrixPart] = []
        for layout in (known for known in self.layouts(run, rank=rank) if known in grouped):
            rows, column = first_calls(layout), layout.statistics.index(statistic)
            steps = np.array([step for step, _ in grouped[layout]], dtype=np.int64)
            values = np.stack([block.values[rows, column] for _, block in grouped[layout]])
            present = np.stack([_presence(block)[rows] for _, block in grouped[layout]])
            parts.append(every_record(tuple(layout.sites[row] for row in rows), steps, values, present))
        return join_matrix(parts, MatrixQuery(metric, rank=rank, limit=limit))

    def replay(
        self,
        run: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
    ) -> Iterator[StepRecord]:
        """Yield the records, oldest first; with `limit`, only that many of the newest."""
        found = self._between(run, rank, first, last)
        return iter(found if limit is None else found[max(len(found) - limit, 0) :])

    def histograms(
        self,
        run: str,
        site: str,
        subject: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int = 200,
    ) -> tuple[tuple[int, Histogram], ...]:
        """Return (step, histogram), oldest first, evenly thinned to `limit`."""
        records = self._between(run, rank, first, last)
        of_site = (
            (r.step, shape) for r in records for shape in r.histograms if (shape.site, shape.subject) == (site, subject)
        )
        found = list(of_site)
        return tuple(found[at] for at in spaced(len(found), limit).tolist())

    def events(
        self, run: str, *, rank: int | None = None, kind: str | None = None, limit: int = 1000
    ) -> tuple[Event, ...]:
        """Return the newest events, in the order of their arrival."""
        with self._lock:
            events = tuple(self._rank(run, rank).events)
        found = [event for _, _, event in events if kind is None or event.kind == kind]
        return tuple(found[max(len(found) - limit, 0) :])

    def attachment(self, run: str, digest: str, *, rank: int | None = None) -> bytes:
        """Return the file that an event of the rank names by its digest."""
        with self._lock:
            events = [event for _, _, event in self._rank(run, rank).events if event.data.get("digest") == digest]
        found = next((event.attachment for event in reversed(events) if event.attachment is not None), None)
        if found is None:
            raise no_attachment(run, digest)
        return found.file()

    def findings(self, run: str, *, minimum: Severity = "info", limit: int = 1000) -> tuple[Finding, ...]:
        """Return findings of all ranks by (first_step, order); muted ones left out."""
        with self._lock:
            found = [finding for rank in self._ranks(run).values() for finding in rank.findings.values()]
            muted = self._note(run).muted
        severe = SEVERITIES[SEVERITIES.index(minimum) :]
        shown = [
            finding for finding in found if finding.severity in severe and (finding.rule, finding.site) not in muted
        ]
        return tuple(sorted(shown, key=report_order)[:limit])

    def outcomes(self, run: str, *, limit: int = 1000) -> tuple[Outcome, ...]:
        """Return the outcomes of attacks, by (attack, norm, epsilon)."""
        with self._lock:
            found = [outcome for rank in self._ranks(run).values() for outcome in rank.outcomes.values()]
        return tuple(sorted(found, key=lambda outcome: (outcome.attack, outcome.norm, outcome.epsilon))[:limit])

    def write_findings(self, run: str, findings: Sequence[Finding]) -> None:
        """Add the findings of an offline diagnosis, each to its rank, by the same rule as `RunWriter.write`."""
        with self._lock:
            ranks = self._ranks(run)
            for finding in findings:
                ranks.get(finding.rank, ranks[min(ranks)]).add_findings([finding])

    def annotate(
        self, run: str, *, name: str | None = None, tags: Mapping[str, Json] | None = None, remark: str | None = None
    ) -> Run:
        """Change the name, tags or remark that people gave a run; None leaves a value as it is."""
        with self._lock:
            self._ranks(run)
            note = self._note(run)
            note.name = note.name if name is None else name
            note.tags = note.tags if tags is None else dict(tags)
            note.remark = note.remark if remark is None else remark
            note.revision += 1
            return self._merged(run)

    def mute(self, run: str, rule: str, site: str, *, muted: bool = True) -> None:
        """Hide the findings of a rule at a site from `findings`, or show them again."""
        with self._lock:
            self._ranks(run)
            note = self._note(run)
            (note.muted.add if muted else note.muted.discard)((rule, site))
            note.revision += 1

    def muted(self, run: str) -> tuple[tuple[str, str], ...]:
        """Return the (rule, site) pairs that are muted, sorted."""
        with self._lock:
            self._ranks(run)
            return tuple(sorted(self._note(run).muted))

    def control_channel(self, run: str) -> MemoryChannel:
        """Return the documents by which observers control a running training."""
        with self._lock:
            return self._channels.setdefault(run, MemoryChannel())

    mailbox = renamed_method("mailbox", "control_channel")

    def verify(self, run: str) -> tuple[str, ...]:
        """Return nothing: memory is not damaged."""
        self.find_run(run)
        return ()

    def delete_run(self, run: str) -> None:
        """Remove a run and everything of it but checkpoints; one that is running is refused."""
        with self._lock:
            if any(recording.is_written for recording in self._ranks(run).values()):
                raise StoreUnavailable(f"run {run!r} is being written; close it before you delete it")
            known = self._merged(run)
            del self._runs[run]
            self._notes.pop(run, None)
            self._channels.pop(run, None)
        remove_tensors(self, known)

    def close(self) -> None:
        """Do nothing: memory holds no connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _note(self, run: str) -> _Notes:
        return self._notes.setdefault(run, _Notes())

    def _ranks(self, run: str) -> dict[int, MemoryRank]:
        if run not in self._runs:
            self.find_run(run)
            raise RunNotFound(f"{run!r} is not the id of a run; look it up with find_run first")
        return self._runs[run]

    def _number(self, run: str, rank: int | None) -> int:
        return first_rank(self._ranks(run)) if rank is None else rank

    def _rank(self, run: str, rank: int | None) -> MemoryRank:
        ranks, rank = self._ranks(run), self._number(run, rank)
        if rank not in ranks:
            raise RunNotFound(f"run {run!r} has no rank {rank}; it has {', '.join(map(str, sorted(ranks)))}")
        return ranks[rank]

    def _between(self, run: str, rank: int | None, first: int | None, last: int | None) -> list[StepRecord]:
        low, high = FIRST if first is None else first, LAST if last is None else last
        with self._lock:
            return [record for record in self._rank(run, rank).records if low <= record.step <= high]

    def _merged(self, run: str) -> Run:
        every = [recording for _, recording in sorted(self._runs[run].items())]
        ranks = [recording for recording in every if recording.run.ranks != (ALL_RANKS,)] or every
        note = self._note(run)
        shown = [f for recording in every for f in recording.findings.values() if (f.rule, f.site) not in note.muted]
        states = {recording.run.state for recording in ranks}
        severities = {finding.severity for finding in shown}
        first = ranks[0].run
        return replace(
            first,
            name=first.name if note.name is None else note.name,
            state=next(state for state in ("failed", "running", "finished") if state in states),
            updated_at=max(recording.run.updated_at for recording in every),
            ranks=tuple(sorted(rank for rank in self._runs[run] if rank != ALL_RANKS)) or (0,),
            last_step=max(recording.run.last_step for recording in every),
            worst=next((word for word in reversed(SEVERITIES) if word in severities), None),
            findings=len(shown),
            error=next((recording.run.error for recording in ranks if recording.run.error), ""),
            tags=first.tags if note.tags is None else note.tags,
            remark=note.remark,
        )


def _presence(block: Block) -> NDArray[np.bool_]:
    return np.ones(len(block.values), np.bool_) if block.present is None else block.present


def _values(record: StepRecord, site: str, metric: str, call: int) -> Iterator[float]:
    """Yield the values of one series in one record."""
    if metric.startswith(f"{SCALAR}/"):
        name = metric.partition("/")[2]
        if site == ROOT_SITE and not call and name in record.scalars:
            yield record.scalars[name]
        return
    subject, statistic = split_metric(metric)
    for block in record.blocks:
        row = row_of(block.layout, site, call) if block.layout.subject == subject else None
        if row is not None and statistic in block.layout.statistics and (block.present is None or block.present[row]):
            yield float(block.values[row, block.layout.statistics.index(statistic)])
