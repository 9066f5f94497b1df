"""Those who see every record on its way into the store: listeners, and the keeper of what was observed beside it.

Whatever they do, the training goes on: one that fails is switched off, and a notice tells of it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..encoding.block_rounding import round_record
from ..records import Event, Finding, Json, StepRecord
from ..run_info import Run, Structure
from ..store import BatchListener, FlightBuffer, Listener

_log = logging.getLogger(__name__)


class Listeners:
    """Listeners and keeper of one run.

    Args:
        listeners: In the order in which they are asked.
        keeper: Decides what of observations beside the schedule is stored; without one none is.

    Attributes:
        notices: What the next record shall tell: who was switched off, and what the writer adds.
    """

    def __init__(self, listeners: Sequence[Listener], keeper: FlightBuffer | None) -> None:
        self._listeners = list(listeners)
        self._keeper = keeper
        self.notices: list[Event] = []

    def take_notices(self) -> list[Event]:
        """Return the notices since the last time."""
        taken, self.notices = self.notices, []
        return taken

    def begin(self, run: Run, structure: Structure, step: int) -> None:
        """Tell the listeners of the run, or of its changed structure."""
        self._ask(step, lambda one: one.begin(run, structure))

    def foresee(self, records: Sequence[StepRecord]) -> None:
        """Tell those who want to know which records come next."""
        if len(records) > 1:
            self._ask(records[0].step, lambda one: one.foresee(records) if isinstance(one, BatchListener) else None)

    def findings(self, record: StepRecord) -> list[Finding]:
        """Return what the listeners find in a record, as the keeper shows it."""
        found: list[Finding] = []
        shown = self._shown(record)
        self._ask(record.step, lambda one: found.extend(one.observe(shown)))
        return found

    def last_findings(self, step: int) -> list[Finding]:
        """Return what only the end of the run reveals."""
        found: list[Finding] = []
        self._ask(step, lambda one: found.extend(one.end()))
        return found

    def sort(self, record: StepRecord, found: list[Finding]) -> tuple[StepRecord, Sequence[StepRecord]]:
        """Return what of the record is written now, and what of earlier ones after all."""
        if self._keeper is not None:
            try:
                return self._keeper.sort(record, found)
            except Exception as error:  # noqa: BLE001  whatever a keeper does, the training goes on
                self._dismiss_keeper(record.step, error)
        return (record if record.beside is None else replace(record, beside=None)), ()

    def rest(self, last: list[Finding], step: int, *, failed: bool) -> Sequence[StepRecord]:
        """Return what the keeper wants stored after all, now that the run has ended with these findings."""
        if self._keeper is not None:
            try:
                return self._keeper.rest(last, failed=failed)
            except Exception as error:  # noqa: BLE001  as above
                self._dismiss_keeper(step, error)
        return ()

    def _shown(self, record: StepRecord) -> StepRecord:
        """Return the record as listeners see it, rounded as it would be stored."""
        if self._keeper is not None and record.beside is not None:
            try:
                return round_record(self._keeper.show(record))
            except Exception as error:  # noqa: BLE001  as above
                self._dismiss_keeper(record.step, error)
        return record

    def _ask(self, step: int, question: Callable[[Listener], object]) -> None:
        for one in tuple(self._listeners):
            try:
                question(one)
            except Exception as error:  # noqa: BLE001  whatever a listener does, the training goes on
                self._switch_off(one, step, error)
                self._listeners.remove(one)

    def _dismiss_keeper(self, step: int, error: Exception) -> None:
        assert self._keeper is not None  # who failed
        self._switch_off(self._keeper, step, error)
        self._keeper = None

    def _switch_off(self, one: Listener | FlightBuffer, step: int, error: Exception) -> None:
        _log.error("%s failed at step %d and is switched off", type(one).__name__, step, exc_info=error)
        data: dict[str, Json] = {"collector": type(one).__name__, "error": f"{type(error).__name__}: {error}"}
        self.notices.append(Event("monitor_fault", step, data=data))
