"""The `Store` of every database: a folder of run files and a PostgreSQL schema differ only in their `StoreBackend`."""

import logging
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from sqlalchemy import select

from ..control_channel import ControlChannel
from ..encoding.record_codec import read_structure
from ..errors import RunNotFound, StoreDamaged, StoreTooNew, StoreUnavailable, combined_error, combined_message
from ..history.hot_records import FIRST, LAST
from ..history.queries import MatrixQuery, SeriesQuery, list_metrics, read_matrix, read_series
from ..history.record_replay import replay
from ..metric_series import Matrix, Series, Severity
from ..records import Event, Finding, Histogram, Json, Layout, Outcome, StepRecord, report_order
from ..renamed_names import renamed_method
from ..run_info import FormerStructure, Run, RunKind, Structure, check_run_id, find_run, new_run_id
from ..schema.row_statements import SCALAR, STEP, read_former, read_streams, shown_layout
from ..schema.table_definitions import recording
from ..store import RunWriter
from ..stored_tensors import remove_tensors
from ..unknown_names import is_asked_by_people, warn_of_unknown_series
from .rank_recording import (
    RankRecording,
    RecordingSummary,
    RunNote,
    merge_summaries,
    read_events,
    read_findings,
    read_histograms,
    read_outcomes,
)

_log = logging.getLogger(__name__)


class StoreBackend(Protocol):
    """Where the recordings of a store are kept."""

    url: str

    def run_ids(self) -> Sequence[str]:
        """Return the runs, newest first."""

    def recordings(self, run: str) -> tuple[RankRecording, ...]:
        """Return the ranks of a run, ascending; none for an unknown run."""

    def summaries(self, run: str) -> tuple[RecordingSummary, ...]:
        """Return a summary per rank of a run; raise StoreDamaged when none of them can be read."""

    def note(self, run: str) -> RunNote:
        """Return the name, tags, remark and muted rules that people gave a run."""

    def annotate(self, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None) -> None:
        """Change the values that are not None."""

    def mute(self, run: str, rule: str, site: str, muted: bool) -> None:
        """Hide the findings of a rule at a site, or show them again."""

    def begin(self, run: Run, rank: int) -> RunWriter:
        """Make or join the recording of a rank; refuse one that is being written."""

    def add_findings(self, target: RankRecording, findings: Sequence[Finding]) -> None:
        """Add findings to a recording."""

    def control_channel(self, run: str) -> ControlChannel:
        """Return the documents by which observers control a running training."""

    def delete(self, run: str) -> None:
        """Remove everything of a run."""

    def missing(self) -> tuple[str, bool]:
        """Return that the place of the store is not there yet, and whether its name looks misspelt; else empty."""

    def close(self) -> None:
        """Close every connection."""


class DatabaseStore:
    """The `Store` over a backend; `store.py` has its promises."""

    def __init__(self, backend: StoreBackend) -> None:
        self._backend = backend
        self.url = backend.url

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
    ) -> RunWriter:
        """Start a run, or join the run `run_id` as another rank of it."""
        now = time.time()
        run = Run(
            id=check_run_id(run_id) if run_id is not None else new_run_id(name, now),
            name=name,
            state="running",
            created_at=now,
            updated_at=now,
            kind=kind,
            framework=framework,
            ranks=(rank,),
            parent=parent,
            config=dict(config or {}),
            host=dict(host or {}),
            tags=dict(tags or {}),
        )
        return self._backend.begin(run, rank)

    def runs(self, *, limit: int = 1000) -> tuple[Run, ...]:
        """Return the runs of the store, newest first; one that cannot be read is left out with a warning.

        Raises:
            StoreDamaged, StoreTooNew: There are runs and none of them can be read.
        """
        found, unreadable = self._readable(limit)
        if not found and is_asked_by_people():
            words, is_misspelt = self._backend.missing()
            if is_misspelt:
                warnings.warn(words, stacklevel=2)
        for error in unreadable:
            _log.warning("%s", error)
        return found

    def _readable(self, limit: int) -> tuple[tuple[Run, ...], list[StoreDamaged | StoreTooNew]]:
        """Return the newest runs that can be read, and the errors of the others; raise when none can be read."""
        backend = self._backend
        found: list[Run] = []
        unreadable: list[StoreDamaged | StoreTooNew] = []
        for run in backend.run_ids():
            if len(found) >= limit:
                break
            try:
                if summaries := backend.summaries(run):
                    found.append(merge_summaries(summaries, backend.note(run)))
            except (StoreDamaged, StoreTooNew) as error:
                unreadable.append(error)
        if unreadable and not found:
            raise combined_error(self.url, unreadable)
        return tuple(sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)), unreadable

    def find_run(self, reference: str) -> Run:
        """Return the run with that id, unique id prefix, name (its newest) or `latest`.

        Raises:
            RunNotFound: No run matches; the message names the files that cannot be read, which may hold it.
        """
        if summaries := self._backend.summaries(reference):
            return merge_summaries(summaries, self._backend.note(reference))
        runs, unreadable = self._readable(1_000_000)
        try:
            return find_run(runs, reference)
        except RunNotFound as error:
            if unreadable:
                raise RunNotFound(
                    f"{error}; it may be in a file that cannot be read: {combined_message(unreadable)}"
                ) from error
            if words := self._backend.missing()[0]:
                raise RunNotFound(f"no run {reference!r}: {words}") from error
            raise

    def version(self, run: str) -> str:
        """Return a string that changes with every change of the run; cheap enough to poll."""
        words = []
        for target in self._recordings(run):
            with target.read() as connection:
                query = select(recording.c.revision).where(recording.c.id == target.id)
                words.append(f"{target.rank}:{connection.execute(query).scalar()}")
        return f"{self._backend.note(run).revision}/{','.join(words)}"

    def structure(self, run: str, *, rank: int = 0) -> Structure:
        """Return the structure of the trained model; empty before it is known."""
        target = self._recording(run, rank)
        if target is None:
            return Structure()
        with target.read() as connection:
            query = select(recording.c.structure).where(recording.c.id == target.id)
            return read_structure(connection.execute(query).scalar())

    def former_structures(self, run: str, *, rank: int = 0) -> tuple[FormerStructure, ...]:
        """Return the structures before each change, oldest first."""
        target = self._existing(run, rank)
        with target.read() as connection:
            return read_former(connection, target.id)

    def layouts(self, run: str, *, rank: int = 0) -> tuple[Layout, ...]:
        """Return the streams that the rank has recorded."""
        layouts = (layout for layout in self._all_layouts(run, rank) if layout.subject not in (SCALAR, STEP))
        return tuple(dict.fromkeys(map(shown_layout, layouts)))

    def metrics(self, run: str, *, rank: int = 0) -> tuple[str, ...]:
        """Return all metrics of the rank, `scalar/...` among them, sorted."""
        return list_metrics(self._all_layouts(run, rank))

    def series(
        self,
        run: str,
        site: str,
        metric: str,
        *,
        rank: int = 0,
        call: int = 0,
        first: int | None = None,
        last: int | None = None,
        limit: int = 2000,
    ) -> Series:
        """Return one series between two steps, both included; scalars have the root site. Unknown names give an empty
        one, and people a warning."""
        target = self._existing(run, rank)
        with target.read() as connection:
            query = SeriesQuery(site, metric, rank=rank, call=call, steps=_between(first, last), limit=limit)
            found = read_series(connection, target.id, query)
        if not found.total and is_asked_by_people():
            layouts, structure = self._all_layouts(run, rank), self.structure(run, rank=rank)
            warn_of_unknown_series(run, site, metric, layouts, list_metrics(layouts), structure)
        return found

    def matrix(
        self,
        run: str,
        metric: str,
        *,
        rank: int = 0,
        first: int | None = None,
        last: int | None = None,
        limit: int = 500,
    ) -> Matrix:
        """Return one metric over all sites (first calls) in at most `limit` columns."""
        target = self._existing(run, rank)
        with target.read() as connection:
            return read_matrix(
                connection, target.id, MatrixQuery(metric, rank=rank, steps=_between(first, last), limit=limit)
            )

    def replay(
        self, run: str, *, rank: int = 0, first: int | None = None, last: int | None = None, limit: int | None = None
    ) -> Iterator[StepRecord]:
        """Yield the stored records, oldest first; with `limit`, only that many of the newest."""
        target = self._existing(run, rank)
        return replay(target.read, target.id, *_between(first, last), limit)

    def histograms(
        self,
        run: str,
        site: str,
        subject: str,
        *,
        rank: int = 0,
        first: int | None = None,
        last: int | None = None,
        limit: int = 200,
    ) -> tuple[tuple[int, Histogram], ...]:
        """Return (step, histogram), oldest first, evenly thinned to `limit`."""
        target = self._existing(run, rank)
        with target.read() as connection:
            return tuple(
                read_histograms(connection, target.id, site, subject, steps=_between(first, last), limit=limit)
            )

    def events(self, run: str, *, rank: int = 0, kind: str | None = None, limit: int = 1000) -> tuple[Event, ...]:
        """Return the newest events, in the order of their arrival."""
        target = self._existing(run, rank)
        with target.read() as connection:
            return tuple(read_events(connection, target.id, kind, limit))

    def findings(self, run: str, *, minimum: Severity = "info", limit: int = 1000) -> tuple[Finding, ...]:
        """Return findings of all ranks by (first_step, order); muted ones left out."""
        found: list[Finding] = []
        muted = self._backend.note(run).muted
        for target in self._recordings(run):
            with target.read() as connection:
                found += read_findings(connection, target.id, minimum, limit + 1000 * bool(muted))
        shown = [finding for finding in found if (finding.rule, finding.site) not in muted]
        return tuple(sorted(shown, key=report_order)[:limit])

    def outcomes(self, run: str, *, limit: int = 1000) -> tuple[Outcome, ...]:
        """Return the outcomes of attacks, by (attack, norm, epsilon)."""
        found: list[Outcome] = []
        for target in self._recordings(run):
            with target.read() as connection:
                found += read_outcomes(connection, target.id, limit)
        return tuple(sorted(found, key=lambda outcome: (outcome.attack, outcome.norm, outcome.epsilon))[:limit])

    def write_findings(self, run: str, findings: Sequence[Finding]) -> None:
        """Add the findings of an offline diagnosis, each to its rank, by the same rule as `RunWriter.write`."""
        known = self._recordings(run)
        by_rank = {target.rank: target for target in known}
        for rank, target in by_rank.items():
            of_rank = [finding for finding in findings if by_rank.get(finding.rank, known[0]).rank == rank]
            if of_rank:
                self._backend.add_findings(target, of_rank)

    def annotate(
        self, run: str, *, name: str | None = None, tags: Mapping[str, Json] | None = None, remark: str | None = None
    ) -> Run:
        """Change the name, tags or remark that people gave a run; None leaves a value as it is."""
        self._recordings(run)
        self._backend.annotate(run, name, tags, remark)
        return self.find_run(run)

    def mute(self, run: str, rule: str, site: str, *, muted: bool = True) -> None:
        """Hide the findings of a rule at a site from `findings`, or show them again."""
        self._recordings(run)
        self._backend.mute(run, rule, site, muted)

    def muted(self, run: str) -> tuple[tuple[str, str], ...]:
        """Return the (rule, site) pairs that are muted, sorted."""
        self._recordings(run)
        return tuple(sorted(self._backend.note(run).muted))

    def control_channel(self, run: str) -> ControlChannel:
        """Return the documents by which observers control a running training."""
        return self._backend.control_channel(run)

    mailbox = renamed_method("mailbox", "control_channel")

    def delete_run(self, run: str) -> None:
        """Remove a run and everything of it but checkpoints; one that is running is refused."""
        known = self.find_run(run)
        if known.state == "running":
            raise StoreUnavailable(f"run {run!r} is being written; close it before you delete it")
        self._backend.delete(run)
        remove_tensors(self, known)

    def close(self) -> None:
        """Close every connection; the store can be opened again by its URL."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _recordings(self, run: str) -> tuple[RankRecording, ...]:
        """Return the recordings of an existing run."""
        if found := self._backend.recordings(run):
            return found
        self.find_run(run)
        raise RunNotFound(f"{run!r} is not the id of a run; look it up with find_run first")

    def _recording(self, run: str, rank: int) -> RankRecording | None:
        return next((target for target in self._recordings(run) if target.rank == rank), None)

    def _existing(self, run: str, rank: int) -> RankRecording:
        known = self._recordings(run)
        for target in known:
            if target.rank == rank:
                return target
        raise RunNotFound(f"run {run!r} has no rank {rank}; it has {', '.join(map(str, _ranks(known)))}")

    def _all_layouts(self, run: str, rank: int) -> list[Layout]:
        target = self._existing(run, rank)
        with target.read() as connection:
            return [known.layout for known in read_streams(connection, target.id)]


def _between(first: int | None, last: int | None) -> tuple[int, int]:
    return (FIRST if first is None else first), (LAST if last is None else last)


def _ranks(recordings: Sequence[RankRecording]) -> list[int]:
    return [target.rank for target in recordings]
