"""The store's contract: what every backend promises, and the few calls in which it promises it.

Promises
    order        a rank's records come back in the order in which they were written, by (step, micro_step)
    atomicity    `RunWriter.write` is one transaction: all of it is there, or none
    exactness    what was written comes back bit for bit in the layout's dtypes; NaN, infinities and missing stay apart
    bounds       every read is limited; down-sampling keeps minimum, maximum and every non-finite value of a bucket
    one writer   a rank of a run has one writer; readers never block it and never see half a step
    threads      a Store may be used from any thread; a RunWriter belongs to the thread that uses it
    forks        a connection made before a fork is never used after it
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from .control_channel import ControlChannel
from .metric_series import Matrix, Series, Severity
from .records import Event, Finding, Histogram, Json, Layout, Outcome, StepRecord
from .run_info import FormerStructure, Run, RunKind, RunState, Structure


class Listener(Protocol):
    """Sees every record on its way into the store; what it finds is written in the same transaction."""

    def begin(self, run: Run, structure: Structure) -> None:
        """Receive the run and its structure, before the first record and after every change of the structure."""

    def observe(self, record: StepRecord) -> Iterable[Finding]:
        """Return the findings of this record."""

    def end(self) -> Iterable[Finding]:
        """Return the findings that only the end of the run reveals."""


@runtime_checkable
class BatchListener(Protocol):
    """What a listener may have besides: it is told which records come next, to work out together what they share."""

    def foresee(self, records: Sequence[StepRecord]) -> None:
        """Receive the records that `observe` gets next; a failure may keep some of them from coming."""


class FlightBuffer(Protocol):
    """Holds what was observed beside the schedule, and says when it is stored after all."""

    def show(self, record: StepRecord) -> StepRecord:
        """Return the record as listeners see it: with what is beside it, with some of that, or without."""

    def sort(self, record: StepRecord, findings: Sequence[Finding]) -> tuple[StepRecord, Sequence[StepRecord]]:
        """Return what of the record is stored now, and what of earlier ones is stored after all; asked in their order.

        Args:
            findings: What this record gave rise to.
        """

    def rest(self, findings: Sequence[Finding], *, failed: bool) -> Sequence[StepRecord]:
        """Return what of earlier records is stored after all, now that the run has ended with these findings."""


class RunWriter(Protocol):
    """Writes one rank of one run; not for several threads."""

    @property
    def run(self) -> Run:
        """The run as it was begun."""

    def write_structure(self, structure: Structure) -> None:
        """Replace the recorded structure, which stays that of the records before."""

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding] = (), earlier: Sequence[StepRecord] = ()
    ) -> None:
        """Add records and findings in one transaction. A finding with the rule, site, rank and first step of an
        earlier one replaces it.

        `earlier` are blocks and scalars that join records which are there already, or come with this call; these, too,
        come in the order of their steps, from call to call.
        """

    def preview(self, record: StepRecord) -> None:
        """Show a record to readers that is not final: it is there until `write` brings records, or another preview.

        It comes after all that were written, and is no record to `write`, which may bring the same step.
        """

    def write_events(self, events: Sequence[Event]) -> None:
        """Add events that belong to no record, in one transaction."""

    def write_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes in one transaction; one of the same attack, norm and epsilon replaces the earlier."""

    def maintain(self) -> bool:
        """Do one bounded piece of housekeeping (compaction, checkpoint, retention); True when more waits."""

    def make_room(self) -> None:
        """Free what was kept for the end of a run on a full disk; nothing but the last words is written after it."""

    def close(self, state: RunState = "finished", error: str = "") -> None:
        """Compact, record how the run ended and let go of the store; a second call does nothing."""


class Store(Protocol):
    """The one read and write interface; `rank` is the recording process, sites and metrics follow `names.py`."""

    url: str

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
        """Start a run, or join the run `run_id` as another rank of it; `host` stands beside what is known of it."""

    def runs(self, *, limit: int = 1000) -> tuple[Run, ...]:
        """Return the runs of the store, newest first."""

    def find_run(self, reference: str) -> Run:
        """Return the run with that id, unique id prefix, name (its newest) or `latest`.

        Raises:
            RunNotFound: None or several answer to it; the message lists the nearest.
        """

    def version(self, run: str) -> str:
        """Return a word that changes whenever anything of the run has; cheap enough to poll."""

    def structure(self, run: str, *, rank: int = 0) -> Structure:
        """Return what was trained; empty before it is known."""

    def former_structures(self, run: str, *, rank: int = 0) -> tuple[FormerStructure, ...]:
        """Return what was trained before the structure changed, oldest first: each holds from the record behind the
        last one of the one before it. Of a structure that changes more than a hundred times the first hundred."""

    def layouts(self, run: str, *, rank: int = 0) -> tuple[Layout, ...]:
        """Return the streams that the rank has recorded."""

    def metrics(self, run: str, *, rank: int = 0) -> tuple[str, ...]:
        """Return all metrics of the rank, `scalar/...` among them, sorted."""

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
        one."""

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

    def replay(
        self, run: str, *, rank: int = 0, first: int | None = None, last: int | None = None, limit: int | None = None
    ) -> Iterator[StepRecord]:
        """Return the stored records again, oldest first, equal to what was written as far as retention has kept them.
        With `limit`, only the newest that many."""

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

    def events(self, run: str, *, rank: int = 0, kind: str | None = None, limit: int = 1000) -> tuple[Event, ...]:
        """Return the events that came last, in the order in which they came."""

    def findings(self, run: str, *, minimum: Severity = "info", limit: int = 1000) -> tuple[Finding, ...]:
        """Return findings of all ranks by (first_step, order); muted ones left out."""

    def outcomes(self, run: str, *, limit: int = 1000) -> tuple[Outcome, ...]:
        """Return what attacks did, by (attack, norm, epsilon)."""

    def write_findings(self, run: str, findings: Sequence[Finding]) -> None:
        """Add the findings of an offline diagnosis, by the same rule of replacement as `RunWriter.write`."""

    def annotate(
        self, run: str, *, name: str | None = None, tags: Mapping[str, Json] | None = None, remark: str | None = None
    ) -> Run:
        """Change what people add to a run; what is None stays."""

    def mute(self, run: str, rule: str, site: str, *, muted: bool = True) -> None:
        """Hide the findings of a rule at a site from `findings` and the run's counts, or show them again."""

    def muted(self, run: str) -> tuple[tuple[str, str], ...]:
        """Return the (rule, site) pairs that are muted, sorted."""

    def mailbox(self, run: str) -> ControlChannel:
        """Return where a running training and those who look at it leave each other documents."""

    def delete_run(self, run: str) -> None:
        """Remove a run and everything of it, its whole tensors wherever they are, but no checkpoint; one that is
        running is refused."""

    def close(self) -> None:
        """Let go of every connection; the store can be opened again by its URL."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
