"""The contract of a store: its promises, and the protocols that every backend implements.

Promises
    order        a rank's records come back in the order in which they were written, by (step, micro_step)
    atomicity    `RunWriter.write` is one transaction: all of it is there, or none
    exactness    what was written comes back bit for bit in the layout's dtypes; NaN, infinities and missing stay apart
    bounds       every read is limited; down-sampling keeps the ends, and the extremes and every non-finite value
                 of a bucket
    one writer   a rank of a run has one writer; readers never block it and never see half a step
    threads      a Store may be used from any thread; a RunWriter belongs to the thread that uses it
    forks        a connection made before a fork is never used after it
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from .control_channel import ControlChannel
from .metric_series import Matrix, Series, Severity
from .records import Event, Finding, Histogram, Json, Layout, Outcome, StepRecord
from .run_info import FormerStructure, Run, RunKind, RunState, Structure


class Listener(Protocol):
    """Receives every record before it is written; its findings are written in the same transaction."""

    def begin(self, run: Run, structure: Structure) -> None:
        """Receive the run and its structure, before the first record and after every change of the structure."""

    def observe(self, record: StepRecord) -> Iterable[Finding]:
        """Return the findings of this record."""

    def end(self) -> Iterable[Finding]:
        """Return the findings that only the end of the run reveals."""


@runtime_checkable
class BatchListener(Protocol):
    """An optional part of a listener: it receives the next records in advance, to compute shared results once."""

    def foresee(self, records: Sequence[StepRecord]) -> None:
        """Receive the records that `observe` gets next; some of them may not come if the writer fails."""


class FlightBuffer(Protocol):
    """Buffers observations outside the schedule, and decides which of them are stored."""

    def show(self, record: StepRecord) -> StepRecord:
        """Return the record as listeners see it: with all, some or none of the observations outside the schedule."""

    def sort(self, record: StepRecord, findings: Sequence[Finding]) -> tuple[StepRecord, Sequence[StepRecord]]:
        """Return what to store of the record now, and what to store of earlier records; called in their order.

        Args:
            findings: The findings in this record.
        """

    def rest(self, findings: Sequence[Finding], *, failed: bool) -> Sequence[StepRecord]:
        """Return what to store of earlier records at the end of the run, given its last findings."""


class RunWriter(Protocol):
    """Writes one rank of one run; not thread-safe."""

    @property
    def run(self) -> Run:
        """The run as it was begun."""

    def write_structure(self, structure: Structure) -> None:
        """Replace the recorded structure; earlier records keep the former one."""

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding] = (), earlier: Sequence[StepRecord] = ()
    ) -> None:
        """Add records and findings in one transaction. A finding with the rule, site, rank and first step of an
        earlier one replaces it.

        `earlier` are blocks and scalars to add to records that are stored already or come with this call. They come in
        the order of their steps, also across calls.
        """

    def preview(self, record: StepRecord) -> None:
        """Show readers a record that is not final, until the next `write` of records or the next preview replaces it.

        It follows all written records; `write` may write the same step.
        """

    def write_events(self, events: Sequence[Event]) -> None:
        """Add events that belong to no record, in one transaction."""

    def write_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes in one transaction; one of the same attack, norm and epsilon replaces the earlier."""

    def maintain(self) -> bool:
        """Do one bounded piece of housekeeping (compaction, checkpoint, retention); True when more waits."""

    def make_room(self) -> None:
        """Free the disk space that is reserved for the end of a run; only the last findings and events follow."""

    def close(self, state: RunState = "finished", error: str = "") -> None:
        """Compact, record how the run ended and release the store; a second call does nothing."""


@dataclass(frozen=True, slots=True)
class MissingRecords:
    """Records that a store had acknowledged and has lost.

    Args:
        count: How many; negative for records that it had refused and holds all the same.
        first_step: Between this step and `last_step` they lie, both included.
    """

    count: int
    first_step: int
    last_step: int


@runtime_checkable
class RecoveringWriter(Protocol):
    """An optional part of a writer whose store may lose what it has acknowledged, as a server that crashes does."""

    def take_missing(self) -> MissingRecords | None:
        """Return what is missing and was not returned before."""


class Store(Protocol):
    """The interface for reading and writing; `metric_series.py` has the names.

    `rank` is the recording process. Without one, a method that reads takes the first that the run has, which need not
    be rank 0.
    """

    url: str

    @property
    def damage(self) -> tuple[str, ...]:
        """What was found to be damaged so far, a line each; only of a store that was opened to log it."""

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
        """Start a run, or join the run `run_id` as another rank of it; `host` adds to the facts about the machine."""

    def runs(self, *, limit: int = 1000) -> tuple[Run, ...]:
        """Return the runs of the store, newest first."""

    def find_run(self, reference: str) -> Run:
        """Return the run with that id, unique id prefix, name (its newest) or `latest`.

        Raises:
            RunNotFound: No run matches, or several do; the message lists the nearest.
        """

    def version(self, run: str) -> str:
        """Return a string that changes with every change of the run; cheap enough to poll."""

    def structure(self, run: str, *, rank: int | None = None) -> Structure:
        """Return the structure of the trained model; empty before it is known."""

    def former_structures(self, run: str, *, rank: int | None = None) -> tuple[FormerStructure, ...]:
        """Return the structures before each change, oldest first; each holds for the records after the one before it.
        Only the first hundred are kept."""

    def layouts(self, run: str, *, rank: int | None = None) -> tuple[Layout, ...]:
        """Return the streams that the rank has recorded."""

    def metrics(self, run: str, *, rank: int | None = None) -> tuple[str, ...]:
        """Return all metrics of the rank, `scalar/...` among them, sorted."""

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

    def replay(
        self,
        run: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
    ) -> Iterator[StepRecord]:
        """Yield the stored records, oldest first, as they were written, as far as retention has kept them; with
        `limit`, only that many of the newest."""

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

    def events(
        self, run: str, *, rank: int | None = None, kind: str | None = None, limit: int = 1000
    ) -> tuple[Event, ...]:
        """Return the newest events, in the order of their arrival."""

    def attachment(self, run: str, digest: str, *, rank: int | None = None) -> bytes:
        """Return the file that an event of the rank names by its digest: an image or a sound.

        Raises:
            StoreUnavailable: There is none with this digest.
        """

    def findings(self, run: str, *, minimum: Severity = "info", limit: int = 1000) -> tuple[Finding, ...]:
        """Return findings of all ranks by (first_step, order); muted ones left out."""

    def outcomes(self, run: str, *, limit: int = 1000) -> tuple[Outcome, ...]:
        """Return the outcomes of attacks, by (attack, norm, epsilon)."""

    def write_findings(self, run: str, findings: Sequence[Finding]) -> None:
        """Add the findings of an offline diagnosis, by the same rule of replacement as `RunWriter.write`."""

    def annotate(
        self, run: str, *, name: str | None = None, tags: Mapping[str, Json] | None = None, remark: str | None = None
    ) -> Run:
        """Change the name, tags or remark that people gave a run; None leaves a value as it is."""

    def mute(self, run: str, rule: str, site: str, *, muted: bool = True) -> None:
        """Hide the findings of a rule at a site from `findings` and the run's counts, or show them again."""

    def muted(self, run: str) -> tuple[tuple[str, str], ...]:
        """Return the (rule, site) pairs that are muted, sorted."""

    def control_channel(self, run: str) -> ControlChannel:
        """Return the documents by which observers control a running training."""

    def verify(self, run: str) -> tuple[str, ...]:
        """Read everything of a run; return a line for each thing that is damaged or missing."""

    def delete_run(self, run: str) -> None:
        """Remove a run and its stored tensors, but no checkpoint; a running one is refused."""

    def close(self) -> None:
        """Close every connection; the store can be opened again by its URL."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
