"""Writes to a store that may be gone, full or locked, and retries with every batch."""

import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..metric_series import display_site
from ..records import Event, Finding, FindingKey, StepRecord
from ..run_info import Run, RunState, Structure
from ..store import RunWriter

_log = logging.getLogger(__name__)
#: Pieces of housekeeping that are done although records wait: streams fill no faster, and a piece takes some 10 ms.
_PIECES = 4

#: Findings that are kept for a store that cannot be written.
_MOST_UNWRITTEN = 1000


def _in_words(finding: Finding) -> str:
    """Return cause, site, step and explanation; do not repeat a step that the explanation names."""
    is_named = re.search(rf"\bstep {finding.first_step}\b", finding.explanation)
    since = "" if is_named else f" since step {finding.first_step}"
    return f"{finding.cause} at {display_site(finding.site)}{since}: {finding.explanation}"


class RetryingWriter:
    """Writes to a run and reports failures instead of raising them.

    Args:
        writer: The store's writer of the run.

    Attributes:
        fault: The error that keeps the store from being written now; None when all is well.
        found: The findings of the listeners so far.
    """

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._unwritten: list[Finding] = []  # refused by the store, to be written again
        self._logged: set[FindingKey] = set()
        self.fault: BaseException | None = None
        self.found: list[Finding] = []

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._writer.run

    def write_structure(self, structure: Structure) -> None:
        """Replace the recorded structure, which stays that of the records before."""
        self._attempt(lambda: self._writer.write_structure(structure))

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding], earlier: Sequence[StepRecord] = ()
    ) -> bool:
        """Write records and findings; return False when the store refuses. Refused findings are retried next time."""
        unwritten = [*self._unwritten, *findings]
        if not (records or unwritten or earlier):
            return True
        more = (earlier,) if earlier else ()
        done = self._attempt(lambda: self._writer.write(records, unwritten, *more))
        if not done and findings:  # on a full disk, the room that is reserved from observations is enough for findings
            with suppress(Exception):
                self._writer.write((), unwritten)
                unwritten = []
        self._unwritten = [] if done else unwritten[-_MOST_UNWRITTEN:]
        return done

    def preview(self, record: StepRecord) -> None:
        """Show a record that is not final; a failure is left to `write`, which reports it."""
        if self.fault is None:
            with suppress(Exception):
                self._writer.preview(record)

    def report(self, findings: Sequence[Finding]) -> None:
        """Keep the findings, and log each warning and error once for users who only watch the terminal."""
        for finding in findings:
            if finding.severity != "info" and finding.key not in self._logged:
                _log.warning("run %s: %s", self.run.name, _in_words(finding))
            self.found.append(finding)
            self._logged.add(finding.key)

    def do_housekeeping(self, has_work: Callable[[], bool]) -> None:
        """Do housekeeping piece by piece until records wait; at least a few pieces, since fast steps leave no gap."""
        done = 0
        while self.fault is None and (done < _PIECES or not has_work()):
            done += 1
            try:
                if not self._writer.maintain():
                    return
            except Exception as error:  # noqa: BLE001  a store never stops the training
                self.fail("housekeeping of the store failed", error)

    def make_room(self) -> None:
        """Free the room that is reserved for the end of the run."""
        self._attempt(self._writer.make_room)

    def close(self, state: RunState, error: str, notices: Sequence[Event]) -> None:
        """Write events that no record carries, and how the run ended."""
        if notices:
            self._attempt(lambda: self._writer.write_events(notices))
        self._attempt(lambda: self._writer.close(state, error))

    def fail(self, failure: str, error: BaseException, *, lasting: bool = True) -> None:
        """Remember a failure; log it once, and again only when it changes."""
        if lasting:
            known, self.fault = self.fault, error
            if type(known) is type(error):
                return
        _log.error("run %s: %s: %s", self.run.id, failure, error)

    def _attempt(self, action: Callable[[], object]) -> bool:
        """Call the action; return False, with the error in `fault`, when it fails."""
        try:
            action()
        except Exception as error:  # noqa: BLE001  as above
            self.fail("the store cannot be written, observations are lost", error)
            return False
        if self.fault is not None:
            _log.warning("run %s: the store can be written again", self.run.id)
            self.fault = None
        return True
