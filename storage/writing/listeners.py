"""Calls the listeners and the flight buffer with every record on its way into the store.

A listener that fails never stops the training: it is switched off, and an event reports it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ..encoding.block_rounding import round_record
from ..records import Event, Finding, Json, StepRecord
from ..run_info import Run, Structure
from ..store import BatchListener, FlightBuffer, Listener

_log = logging.getLogger(__name__)


class Listeners:
    """The listeners and the flight buffer of one run.

    Args:
        listeners: In the order in which they are called.
        flight_buffer: Decides which observations outside the schedule are stored; without one, none are.

    Attributes:
        notices: Events for the next record: listeners that were switched off, and what the writer adds.
    """

    def __init__(self, listeners: Sequence[Listener], flight_buffer: FlightBuffer | None) -> None:
        self._listeners = list(listeners)
        self._flight_buffer = flight_buffer
        self.notices: list[Event] = []

    def take_notices(self) -> list[Event]:
        """Return the notices since the last call, and forget them."""
        taken, self.notices = self.notices, []
        return taken

    def begin(self, run: Run, structure: Structure, step: int) -> None:
        """Pass the run, or its changed structure, to the listeners."""
        self._call(step, lambda listener: listener.begin(run, structure))

    def foresee(self, records: Sequence[StepRecord]) -> None:
        """Pass the next records to the listeners that work on batches."""
        if len(records) > 1:
            self._call(
                records[0].step,
                lambda listener: listener.foresee(records) if isinstance(listener, BatchListener) else None,
            )

    def findings(self, record: StepRecord) -> list[Finding]:
        """Return the findings of the listeners in a record, as the flight buffer shows it."""
        found: list[Finding] = []
        shown = self._shown(record)
        self._call(record.step, lambda listener: found.extend(listener.observe(shown)))
        return found

    def last_findings(self, step: int) -> list[Finding]:
        """Return the findings that only the end of the run reveals."""
        found: list[Finding] = []
        self._call(step, lambda listener: found.extend(listener.end()))
        return found

    def sort(self, record: StepRecord, found: list[Finding]) -> tuple[StepRecord, Sequence[StepRecord]]:
        """Return the part of the record to write now, and parts of earlier records to write after all."""
        if self._flight_buffer is not None:
            try:
                return self._flight_buffer.sort(record, found)
            except Exception as error:  # noqa: BLE001  a flight buffer never stops the training
                self._drop_flight_buffer(record.step, error)
        return (record if record.beside is None else replace(record, beside=None)), ()

    def rest(self, last: list[Finding], step: int, *, failed: bool) -> Sequence[StepRecord]:
        """Return the earlier observations that the flight buffer stores at the end of the run."""
        if self._flight_buffer is not None:
            try:
                return self._flight_buffer.rest(last, failed=failed)
            except Exception as error:  # noqa: BLE001  as above
                self._drop_flight_buffer(step, error)
        return ()

    def _shown(self, record: StepRecord) -> StepRecord:
        """Return the record as listeners see it, rounded as it would be stored."""
        if self._flight_buffer is not None and record.beside is not None:
            try:
                record = round_record(self._flight_buffer.show(record))
            except Exception as error:  # noqa: BLE001  as above
                self._drop_flight_buffer(record.step, error)
        if any(event.attachment is not None for event in record.events):  # what a listener keeps stays small
            return replace(record, events=tuple([replace(event, attachment=None) for event in record.events]))
        return record

    def _call(self, step: int, call: Callable[[Listener], object]) -> None:
        for listener in tuple(self._listeners):
            try:
                call(listener)
            except Exception as error:  # noqa: BLE001  a listener never stops the training
                self._switch_off(listener, step, error)
                self._listeners.remove(listener)

    def _drop_flight_buffer(self, step: int, error: Exception) -> None:
        assert self._flight_buffer is not None
        self._switch_off(self._flight_buffer, step, error)
        self._flight_buffer = None

    def _switch_off(self, listener: Listener | FlightBuffer, step: int, error: Exception) -> None:
        _log.error("%s failed at step %d and is switched off", type(listener).__name__, step, exc_info=error)
        data: dict[str, Json] = {"collector": type(listener).__name__, "error": f"{type(error).__name__}: {error}"}
        self.notices.append(Event("monitor_fault", step, data=data))


class ContainedListeners(Listeners):
    """Listeners that may raise anything: what would end the thread fails as any other error of theirs."""

    def _call(self, step: int, call: Callable[[Listener], object]) -> None:
        super()._call(step, partial(_as_exception, call))


def _as_exception(call: Callable[[Listener], object], listener: Listener) -> None:
    try:
        call(listener)
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
