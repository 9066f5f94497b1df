"""Writes to a store that may be gone, full or locked: what it refuses waits, and is written when it answers."""

import logging
import pickle
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from sqlalchemy.exc import DataError, IntegrityError, NotSupportedError, ProgrammingError

from ..errors import StoreGone, StoreUnavailable
from ..metric_series import display_site
from ..records import Event, Finding, FindingKey, StepRecord
from ..run_info import Run, RunState, Structure
from ..store import MissingRecords, RecoveringWriter, RunWriter
from .backlog import Backlog, Batch, in_batches
from .losses import Losses

_log = logging.getLogger(__name__)
#: Pieces of housekeeping that are done although records wait: streams fill no faster, and a piece takes some 10 ms.
_PIECES = 4
#: Findings that are kept for a store that cannot be written.
_MOST_UNWRITTEN = 1000
#: Seconds between two attempts at a store that refuses, doubled up to the second (our choice).
_RETRY_S, _MOST_RETRY_S = 1.0, 5.0
#: The same while the run is closed, and how long no batch may go through before the rest is given up.
_CLOSING_RETRY_S, CLOSING_S = 0.2, 4.0
#: Seconds after which housekeeping that has failed is tried again (our choice: it may need room that others free).
_UPKEEP_AGAIN_S = 30.0
#: Seconds of delivery although new records wait for the writer thread.
_DELIVERY_S = 0.5
#: A call of a healthy store takes less than so many seconds (our choice: 64 records of 1000 tensors take 0.05 s).
_HANGING_S = 1.0


def _in_words(finding: Finding) -> str:
    """Return cause, site, step and explanation; do not repeat a step that the explanation names."""
    is_named = re.search(rf"\bstep {finding.first_step}\b", finding.explanation)
    since = "" if is_named else f" since step {finding.first_step}"
    return f"{finding.cause} at {display_site(finding.site)}{since}: {finding.explanation}"


class RetryingWriter:
    """Writes to a run and reports failures instead of raising them.

    What the store cannot take now (`StoreUnavailable`) waits in the backlog and is written first when the store
    answers. What it refuses for another reason, and what finds the backlog full, is lost.

    Args:
        writer: The store's writer of the run.
        losses: Counts the records that are lost here.
        backlog: Where refused records wait.
        clock: A monotonic clock in seconds.

    Attributes:
        fault: The error that keeps the store from being written now; None when all is well.
        found: The findings of the listeners so far.
        written: Records that the store has taken.
    """

    def __init__(
        self,
        writer: RunWriter,
        losses: Losses | None = None,
        backlog: Backlog | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer, self._clock = writer, clock
        self._losses = Losses() if losses is None else losses
        self._backlog = Backlog() if backlog is None else backlog
        self._unwritten: list[Finding] = []  # for the next transaction
        self._logged: set[FindingKey] = set()
        self._is_behind = False  # the store has refused what is in the backlog
        self._is_doubtful = False  # the oldest batch was refused, and may be in the store: the answer may be lost
        self._retry_s, self._due = _RETRY_S, 0.0
        self._upkeep_fault: type[BaseException] | None = None
        self._upkeep_due = 0.0
        self._called: float | None = None
        self._silent: float | None = None
        self.fault: BaseException | None = None
        self.found: list[Finding] = []
        self.written = 0

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._writer.run

    @property
    def is_at_fault(self) -> bool:
        """Whether the store refuses records, still has to take some that it refused, or does not answer."""
        called = self._called
        return self.fault is not None or self._is_behind or (called is not None and self._clock() - called > _HANGING_S)

    @property
    def silent_since(self) -> float | None:
        """When a call began that the store has not answered, or the first of those that it refused; else None."""
        return self._silent

    def first_waiting(self) -> int | None:
        """Return the first step that the store has not taken yet; None when all are written."""
        return self._backlog.first_step()

    def write_structure(self, structure: Structure) -> None:
        """Replace the recorded structure, which stays that of the records before."""
        self._append(Batch(structure=structure))
        self._deliver_if_due()

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding], earlier: Sequence[StepRecord] = ()
    ) -> None:
        """Write records and findings, or keep them until the store takes them."""
        self._unwritten += findings
        for batch in in_batches(records, earlier):
            self._append(batch)
        if self._backlog:
            self._deliver_if_due()
        elif self._unwritten:
            self._attempt(self._write_findings)

    def preview(self, record: StepRecord) -> None:
        """Show a record that is not final; a failure is left to `write`, which reports it."""
        if self.fault is None and not self._backlog:
            with suppress(Exception), self._call():
                self._writer.preview(record)

    def report(self, findings: Sequence[Finding]) -> None:
        """Keep the findings, and log each warning and error once for users who only watch the terminal."""
        for finding in findings:
            if finding.severity != "info" and finding.key not in self._logged:
                _log.warning("run %s: %s", self.run.name, _in_words(finding))
            self.found.append(finding)
            self._logged.add(finding.key)

    def do_housekeeping(self, has_work: Callable[[], bool]) -> None:
        """Deliver what waits, then do housekeeping piece by piece until records wait; at least a few pieces, since
        fast steps leave no gap."""
        self._deliver_if_due(lambda: not has_work())
        done = 0
        if self._clock() < self._upkeep_due:
            return
        while self.fault is None and not self._backlog and (not has_work() or done < _PIECES):
            done += 1
            try:
                with self._call():
                    if not self._writer.maintain():
                        return
            except Exception as error:  # noqa: BLE001  a store never stops the training
                self._put_off_upkeep(error)
                return

    def _put_off_upkeep(self, error: Exception) -> None:
        """Log that housekeeping failed, once for each kind of error, and try again later."""
        self._upkeep_due = self._clock() + _UPKEEP_AGAIN_S
        if type(error) is not self._upkeep_fault:
            self._upkeep_fault = type(error)
            self.fail("housekeeping of the store failed and is tried again later", error, lasting=False)

    def take_missing(self) -> MissingRecords | None:
        """Return the records that the store has acknowledged and lost, since the last call."""
        return self._writer.take_missing() if isinstance(self._writer, RecoveringWriter) else None

    def make_room(self) -> None:
        """Free the room that is reserved for the end of the run."""
        self._attempt(self._writer.make_room)

    def deliver_rest(self) -> None:
        """Write what waits, as long as the store takes it; count and log what it did not take."""
        began = self._clock()
        while self._backlog and self._clock() - began < CLOSING_S:
            if self._deliver_oldest():
                began = self._clock()
            else:
                time.sleep(_CLOSING_RETRY_S)
        steps: list[int] = []
        while self._backlog:
            steps += self._backlog.oldest_steps()
            self._lose_oldest()
        if steps:
            words = "%d records of steps %d to %d were not written"
            _log.error(f"run %s: {words}: %s", self.run.id, len(steps), steps[0], steps[-1], self.fault)

    def write_events(self, events: Sequence[Event]) -> None:
        """Write events that belong to no record; a store that refuses them loses them."""
        self._attempt(lambda: self._writer.write_events(events))

    def close(self, state: RunState, error: str, notices: Sequence[Event]) -> None:
        """Write events that no record carries, and how the run ended."""
        if notices:
            self._attempt(lambda: self._writer.write_events(notices))
        self.do_housekeeping(lambda: False)  # in pieces, so that a slow store is not taken for one that hangs
        self._attempt(lambda: self._writer.close(state, error))

    def fail(self, failure: str, error: BaseException, *, lasting: bool = True) -> None:
        """Remember a failure; log it once, and again only when it changes."""
        if lasting:
            known, self.fault = self.fault, error
            if type(known) is type(error):
                return
        _log.error("run %s: %s: %s", self.run.id, failure, error)

    def _append(self, batch: Batch) -> None:
        if not self._backlog.append(batch):
            self._losses.add(batch.records, error_text(self.fault))

    def _deliver_if_due(self, may_go_on: Callable[[], bool] = lambda: False) -> None:
        """Write what waits, oldest first; a store that has refused is asked again only after a while."""
        began = self._clock()
        if self._is_behind and began < self._due:
            return
        while self._backlog:
            if not self._deliver_oldest():
                self._due = self._clock() + self._retry_s
                self._retry_s = min(2 * self._retry_s, _MOST_RETRY_S)
                return
            if self._is_behind and self._clock() - began > _DELIVERY_S and not may_go_on():
                return

    def _deliver_oldest(self) -> bool:
        """Write the oldest batch or lose it; return False when it has to wait."""
        began = self._clock()
        try:
            batch = self._backlog.oldest()
            with self._call():
                self._send(batch)
        except Exception as error:  # noqa: BLE001  a store never stops the training
            if self._is_doubtful and isinstance(error.__cause__, IntegrityError):
                self._have_written(batch)  # the store had taken it when its answer was lost
                return True
            if is_passing(error):
                self._is_behind = self._is_doubtful = True
                self.fail("the store cannot be written, observations wait for it", error)
                if self._unwritten and self._clock() - began < _HANGING_S:
                    with suppress(Exception):  # of a full disk, the room that is reserved is enough for findings
                        self._write_findings()
                self._unwritten = self._unwritten[-_MOST_UNWRITTEN:]
                return False
            self.fail("the store cannot be written, observations are lost", error)
            self._lose_oldest()
            return True
        self._unwritten = [] if batch.structure is None else self._unwritten
        self._have_written(batch)
        return True

    def _send(self, batch: Batch) -> None:
        if batch.structure is not None:
            self._writer.write_structure(batch.structure)
        else:
            more = (batch.earlier,) if batch.earlier else ()
            self._writer.write(batch.records, self._unwritten, *more)

    def _have_written(self, batch: Batch) -> None:
        """Forget the oldest batch; the store is well again if it has taken records."""
        self._backlog.drop_oldest()
        self.written += len(batch.records)
        self._is_doubtful, self._retry_s = False, _RETRY_S
        self._is_behind = self._is_behind and bool(self._backlog)
        if self.fault is not None and batch.records:
            _log.warning("run %s: the store can be written again", self.run.id)
            self.fault = None

    def _lose_oldest(self) -> None:
        reason = error_text(self.fault)
        try:
            lost = self._backlog.oldest().records
        except (OSError, pickle.UnpicklingError):
            lost = tuple(StepRecord(step, 0.0) for step in self._backlog.oldest_steps())
        self._backlog.drop_oldest()
        self._losses.add(lost, reason)
        self._is_doubtful = False
        self._is_behind = self._is_behind and bool(self._backlog)

    def _write_findings(self) -> None:
        with self._call():
            self._writer.write((), self._unwritten)
        self._unwritten = []

    def _attempt(self, action: Callable[[], object]) -> None:
        """Call the action; keep the error in `fault` when it fails."""
        try:
            with self._call():
                action()
        except Exception as error:  # noqa: BLE001  as above
            self.fail("the store cannot be written, observations are lost", error)
            self._unwritten = self._unwritten[-_MOST_UNWRITTEN:]

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Note when a call of the store began, and since when none has succeeded."""
        self._called = self._clock()
        if self._silent is None:
            self._silent = self._called
        try:
            yield
            self._silent = None
        finally:
            self._called = None


def error_text(error: BaseException | None) -> str:
    """Return the error as text that every store can encode."""
    text = "" if error is None else f"{type(error).__name__}: {error}"
    return text.encode(errors="backslashreplace").decode()


def is_passing(error: Exception) -> bool:
    """Return whether the store may take the same batch later: it does not answer, is locked or full."""
    refused = isinstance(error.__cause__, DataError | IntegrityError | NotSupportedError | ProgrammingError)
    return isinstance(error, StoreUnavailable) and not isinstance(error, StoreGone) and not refused
