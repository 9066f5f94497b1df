"""The `Store` of every database: a folder of run files and a PostgreSQL schema differ only in their `StoreBackend`."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from types import TracebackType
from typing import Literal, Self, TypeVar

from sqlalchemy import Connection

from ..control_channel import ControlChannel
from ..damage import Damage, damage_text, gathering
from ..errors import (
    RunNotFound,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
    combined_error,
    combined_message,
    no_attachment,
)
from ..history.queries import MatrixQuery, SeriesQuery, list_metrics, read_matrix, read_series
from ..history.record_replay import replay
from ..history.timeline import FIRST, LAST
from ..metric_series import Matrix, Series, Severity
from ..records import Event, Finding, Histogram, Json, Layout, Outcome, StepRecord, report_order
from ..renamed_names import renamed_method
from ..run_info import FormerStructure, Run, RunKind, Structure, begun_run, find_run, first_rank, rank_words
from ..schema.rare_rows import read_attachment, read_events, read_findings, read_histograms, read_outcomes
from ..schema.row_statements import (
    SCALAR,
    STEP,
    read_former,
    read_streams,
    shown_layout,
    stored_structure,
)
from ..store import RunWriter
from ..stored_tensors import remove_tensors, tensor_files
from ..unknown_names import is_asked_by_people, warn_of_unknown_series
from .rank_recording import Feeding, MessageStored, RankRecording, RecordingSummary, StoredMessage, merge_summaries
from .recording_writer import RecordingWriter
from .run_head import check_newest
from .store_backend import StoreBackend

_Read = TypeVar("_Read")
_log = logging.getLogger(__name__)
#: Ranks whose revisions make a version as they are; of more, pages would carry kilobytes with every look.
_FEW = 64


class DatabaseStore:
    """The `Store` over a backend; `store.py` has its promises."""

    def __init__(self, backend: StoreBackend, on_damage: Literal["raise", "log"] = "raise") -> None:
        self._backend = backend
        self._on_damage = on_damage
        self._told: dict[tuple[str, Damage], None] = {}
        self.url = backend.url

    @property
    def damage(self) -> tuple[str, ...]:
        """What was found to be damaged so far, a line each; only of a store that was opened to log it."""
        return tuple(f"{location}: {damage}" for location, damage in self._told)

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
        run = begun_run(
            name,
            kind=kind,
            framework=framework,
            rank=rank,
            run_id=run_id,
            parent=parent,
            config=config,
            tags=tags,
            host=host,
        )
        return self._backend.begin(run, rank)

    def feed_run(self, run: Run, rank: int, *, process: str, writer: str, number: int) -> RecordingWriter | None:
        """Begin to write, or go on writing, a rank by the messages of a training elsewhere.

        Args:
            process: The identity of its process, as `process.identity` gives it there.
            writer: The token of its writer.
            number: The message that comes next.

        Returns:
            None if that message is stored already, or is of a writer before the one that is known.
        """
        try:
            return self._backend.begin(run, rank, Feeding(process, writer, number))
        except MessageStored:
            return None

    def flush(self, stored: Sequence[StoredMessage]) -> None:
        """Return when these messages, of which there are some, are durable.

        Raises:
            StoreUnavailable: The store does not answer, or has lost one of them.
        """
        self._backend.flush(stored)

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
        found: list[Run] = []
        unreadable: list[StoreDamaged | StoreTooNew] = []
        for listed in self._backend.listed():
            if len(found) >= limit:
                break
            if not isinstance(listed, tuple):
                unreadable.append(listed)
            elif listed[0]:
                for words in filter(None, (summary.damage for summary in listed[0])):
                    _log.warning("%s", words)
                found.append(merge_summaries(*listed))
        if unreadable and not found:
            raise combined_error(self.url, unreadable)
        return tuple(sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)), unreadable

    def find_run(self, reference: str) -> Run:
        """Return the run with that id, unique id prefix, name (its newest) or `latest`.

        Raises:
            RunNotFound: No run matches; the message names the files that cannot be read, which may hold it.
        """
        if summaries := self._backend.summaries(reference):
            return self._checked(merge_summaries(summaries, self._backend.note(reference)), summaries)
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

    def _checked(self, run: Run, summaries: Sequence[RecordingSummary]) -> Run:
        """Return the run; raise that its row is damaged if the store was opened to raise."""
        damaged = [summary.damage for summary in summaries if summary.damage]
        if damaged and self._on_damage == "raise":
            raise StoreDamaged(damaged[0], rest=run)
        for words in damaged:
            _log.error("%s", words)
        return run

    def version(self, run: str) -> str:
        """Return a string that changes with every change of the run; cheap enough to poll."""
        note, revisions = self._backend.revisions(run)
        if not revisions:
            self._recordings(run)
        words = ",".join(f"{rank}:{revision}" for rank, revision in revisions)
        if len(revisions) > _FEW:
            words = blake2b(words.encode(), digest_size=12).hexdigest()
        return f"{note}/{words}"

    def structure(self, run: str, *, rank: int | None = None) -> Structure:
        """Return the structure of the trained model; empty before it is known."""
        target = self._recording(run, rank)
        if target is None:
            return Structure()
        return self._read(target, lambda connection: stored_structure(connection, target.id))

    def former_structures(self, run: str, *, rank: int | None = None) -> tuple[FormerStructure, ...]:
        """Return the structures before each change, oldest first."""
        target = self._existing(run, rank)
        return self._read(target, lambda connection: read_former(connection, target.id))

    def layouts(self, run: str, *, rank: int | None = None) -> tuple[Layout, ...]:
        """Return the streams that the rank has recorded."""
        layouts = (layout for layout in self._all_layouts(run, rank) if layout.subject not in (SCALAR, STEP))
        return tuple(dict.fromkeys(map(shown_layout, layouts)))

    def metrics(self, run: str, *, rank: int | None = None) -> tuple[str, ...]:
        """Return all metrics of the rank, `scalar/...` among them, sorted."""
        return list_metrics(self._all_layouts(run, rank))

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
        target = self._existing(run, rank)
        query = SeriesQuery(site, metric, rank=target.rank, call=call, steps=_between(first, last), limit=limit)
        found = self._read(target, lambda connection: read_series(connection, target.id, query))
        if not found.total and is_asked_by_people():
            layouts, structure = self._all_layouts(run, rank), self.structure(run, rank=rank)
            warn_of_unknown_series(run, site, metric, layouts, list_metrics(layouts), structure)
        return found

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
        target = self._existing(run, rank)
        query = MatrixQuery(metric, rank=target.rank, steps=_between(first, last), limit=limit)
        return self._read(target, lambda connection: read_matrix(connection, target.id, query))

    def replay(
        self,
        run: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
    ) -> Iterator[StepRecord]:
        """Yield the stored records, oldest first; with `limit`, only that many of the newest."""
        target = self._existing(run, rank)
        return replay(target.read, target.id, *_between(first, last), limit, lambda found: self._tell(target, found))

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
        target = self._existing(run, rank)
        steps = _between(first, last)
        return tuple(
            self._read(
                target,
                lambda connection: read_histograms(connection, target.id, site, subject, steps=steps, limit=limit),
            )
        )

    def events(
        self, run: str, *, rank: int | None = None, kind: str | None = None, limit: int = 1000
    ) -> tuple[Event, ...]:
        """Return the newest events, in the order of their arrival."""
        target = self._existing(run, rank)
        return tuple(self._read(target, lambda connection: read_events(connection, target.id, kind, limit)))

    def attachment(self, run: str, digest: str, *, rank: int | None = None) -> bytes:
        """Return the file that an event of the rank names by its digest."""
        target = self._existing(run, rank)
        found = self._read(target, lambda connection: read_attachment(connection, target.id, digest))
        if found is None:
            raise no_attachment(run, digest)
        return found

    def findings(self, run: str, *, minimum: Severity = "info", limit: int = 1000) -> tuple[Finding, ...]:
        """Return findings of all ranks by (first_step, order); muted ones left out."""
        found: list[Finding] = []
        muted = self._backend.note(run).muted
        most = limit + 1000 * bool(muted)
        for target in self._recordings(run):
            found += self._read(target, partial(read_findings, number=target.id, minimum=minimum, limit=most))
        shown = [finding for finding in found if (finding.rule, finding.site) not in muted]
        return tuple(sorted(shown, key=report_order)[:limit])

    def outcomes(self, run: str, *, limit: int = 1000) -> tuple[Outcome, ...]:
        """Return the outcomes of attacks, by (attack, norm, epsilon)."""
        found: list[Outcome] = []
        for target in self._recordings(run):
            found += self._read(target, partial(read_outcomes, number=target.id, limit=limit))
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

    def verify(self, run: str) -> tuple[str, ...]:
        """Read everything of a run, whole tensors included; return a line for each thing that is damaged or missing."""
        found: list[str] = []
        for target in self._recordings(run):
            found += [f"{rank_words(target.rank)}: {damage}" for damage in target.damage()]
        with suppress(StoreUnavailable):
            found += tensor_files(self, self._run_of(run)).damaged()
        return tuple(found)

    def _run_of(self, run: str) -> Run:
        return merge_summaries(self._backend.summaries(run), self._backend.note(run))

    def _recordings(self, run: str) -> tuple[RankRecording, ...]:
        """Return the recordings of an existing run."""
        if found := self._backend.recordings(run):
            return found
        self.find_run(run)
        raise RunNotFound(f"{run!r} is not the id of a run; look it up with find_run first")

    def _recording(self, run: str, rank: int | None) -> RankRecording | None:
        known = self._recordings(run)
        wanted = first_rank(_ranks(known)) if rank is None else rank
        return next((target for target in known if target.rank == wanted), None)

    def _existing(self, run: str, rank: int | None) -> RankRecording:
        if (target := self._recording(run, rank)) is not None:
            return target
        known = self._recordings(run)
        raise RunNotFound(f"run {run!r} has no rank {rank}; it has {', '.join(map(str, _ranks(known)))}")

    def _all_layouts(self, run: str, rank: int | None) -> list[Layout]:
        target = self._existing(run, rank)
        return [known.layout for known in self._read(target, partial(read_streams, number=target.id))]

    def _read(self, target: RankRecording, read: Callable[[Connection], _Read]) -> _Read:
        """Return what `read` finds in a snapshot of a recording, and tell what of it is damaged."""
        newest = target.newest()  # before the snapshot, which therefore holds at least as much
        with target.read() as connection, gathering() as found:
            result = read(connection)
            if newest is not None:
                check_newest(connection, target.id, newest)
        self._tell(target, found, result)
        return result

    def _tell(self, target: RankRecording, found: list[Damage], rest: object = None) -> None:
        """Raise or log that something of a recording is damaged.

        Raises:
            StoreDamaged: The store was opened to raise; `rest` of the error is what could be read.
        """
        if not found:
            return
        words = damage_text(target.run, target.rank, found)
        if self._on_damage == "raise":
            raise StoreDamaged(words, rest=rest)
        fresh = [damage for damage in found if (target.location, damage) not in self._told]
        self._told.update(dict.fromkeys((target.location, damage) for damage in fresh))
        if fresh:
            _log.error("%s", damage_text(target.run, target.rank, fresh))


def _between(first: int | None, last: int | None) -> tuple[int, int]:
    return (FIRST if first is None else first), (LAST if last is None else last)


def _ranks(recordings: Sequence[RankRecording]) -> list[int]:
    return [target.rank for target in recordings]
