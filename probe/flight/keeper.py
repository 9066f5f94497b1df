"""Keeps what was observed beside the schedule for the last steps, and has it stored around an anomaly.

It sits in the writer's thread and meets the records in their order, behind the rules: however far the training has gone
on meanwhile, what it gives out is the steps just before the finding, and as many after it as were asked for.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from ...storage import SEVERITIES, Event, Finding, Severity, StepRecord
from ...storage.beside import joined
from ...storage.records import Json
from ..configuration.flight import Around, FlightRecorder
from .tensors import HeldTensors

_NON_FINITE = ("nans", "pos_infs", "neg_infs")
#: What a monitor says of itself is no anomaly of the training.
_OF_THE_MONITOR = "monitor_fault"


class FlightKeeper:
    """A `Keeper` of the store's writer.

    An anomaly is the first finding of a rule at a site, if it is severe enough: a rule that goes on complaining at one
    site does not make the recording dense for ever (our choice).

    Args:
        flight: What is kept; None keeps nothing, and an anomaly is only told.
        around: How long recording is dense after an anomaly.
    """

    def __init__(self, flight: FlightRecorder | None, around: Around) -> None:
        self._steps = 0 if flight is None else flight.steps
        self._severity: Severity = around.severity if flight is None else flight.severity
        self._around = around
        self._ring: deque[StepRecord] = deque()
        self._seen: set[tuple[str, str]] = set()
        self._dense_until = -1
        self._told: int | None = None
        self._alarm: int | None = None
        self.tensors: HeldTensors | None = None

    def alarm(self, step: int) -> int | None:
        """The step behind which recording is dense for the newest anomaly that the training was told of.

        That is the anomaly's own with a flight recorder, which has the steps between the anomaly and the telling;
        without one it is the step before this one.
        """
        if self._told is not None:
            told, self._told = self._told, None
            self._alarm = told if self._steps else step - 1
        return self._alarm

    def show(self, record: StepRecord) -> StepRecord:
        """The record as the rules see it: with all scalars, and with all statistics where some value is not finite.

        So an anomaly is seen at its own step at little cost; what builds up slowly is seen at the steps of the
        schedule. Our choice: rules over every statistic of every step took a step of 2 ms (three dense layers) from
        2.0 to 2.4 times the unwatched one.
        """
        beside = record.beside
        if beside is None or record.step <= self._dense_until or _is_odd(beside):
            return joined(record, beside)
        return joined(record, replace(beside, blocks=()))

    def sort(self, record: StepRecord, findings: Sequence[Finding]) -> tuple[StepRecord, Sequence[StepRecord]]:
        """What of the record is stored now, and what of earlier ones is stored after all."""
        earlier: tuple[StepRecord, ...] = ()
        if self.tensors is not None:
            self.tensors.have_judged(record.step)
        severity = self._worst_new(findings)
        if _reaches(severity, self._around.severity):
            self._dense_until, self._told = max(self._dense_until, record.step + self._around.after), record.step
        if _reaches(severity, self._severity) and self._steps:
            self._dense_until = max(self._dense_until, record.step)
            earlier, self._ring = tuple(self._ring), deque()
            record = self._noted(record, earlier)
        if record.step <= self._dense_until:
            record, _ = self._with_tensors(record)
            return joined(record, record.beside), earlier
        self._keep(record)
        return replace(record, beside=None), ()

    def rest(self, findings: Sequence[Finding], *, failed: bool) -> Sequence[StepRecord]:
        """What is kept, if the run failed or one of its last findings is an anomaly."""
        wanted = failed or _reaches(self._worst_new(findings), self._severity)
        return tuple(self._ring) if wanted else ()

    def release_tensors(self) -> dict[str, Json]:
        """What is missing, as an event `tensors_left_out` tells it; all that is held is on its way to the disk."""
        missing = None if self.tensors is None else self.tensors.release(2**62)[1]
        return missing or {}

    def _keep(self, record: StepRecord) -> None:
        if record.beside is not None:
            self._ring.append(record.beside)
        oldest = record.step - self._steps + 1
        while self._ring and self._ring[0].step < oldest:
            self._ring.popleft()
        if self.tensors is not None:
            self.tensors.forget(oldest)

    def _noted(self, record: StepRecord, earlier: Sequence[StepRecord]) -> StepRecord:
        """The record with an event that tells what is stored after all."""
        record, tensors = self._with_tensors(record)
        first = earlier[0].step if earlier else record.step
        data = {"first": first, "records": len(earlier), "tensors": tensors}
        return replace(record, events=(*record.events, Event("flight_recorder", record.step, data=data)))

    def _with_tensors(self, record: StepRecord) -> tuple[StepRecord, int]:
        """The record, which tells of tensors that are missing, and how many up to its step go to the disk now."""
        if self.tensors is None:
            return record, 0
        count, missing = self.tensors.release(record.step)
        if missing is not None:
            left_out = Event("tensors_left_out", record.step, data=missing)
            record = replace(record, events=(*record.events, left_out))
        return record, count

    def _worst_new(self, findings: Iterable[Finding]) -> Severity | None:
        """The worst of the findings that no earlier one has announced."""
        fresh = [one for one in findings if one.cause != _OF_THE_MONITOR and (one.rule, one.site) not in self._seen]
        self._seen.update((one.rule, one.site) for one in fresh)
        return max((one.severity for one in fresh), key=SEVERITIES.index, default=None)


def _is_odd(record: StepRecord) -> bool:
    """Whether some tensor held a value that is not finite."""
    return any((block.values[:, _columns(block.layout.statistics)] > 0.0).any() for block in record.blocks)


@lru_cache(maxsize=64)
def _columns(statistics: tuple[str, ...]) -> list[int]:
    return [at for at, name in enumerate(statistics) if name in _NON_FINITE]


def _reaches(severity: Severity | None, least: Severity) -> bool:
    return severity is not None and SEVERITIES.index(severity) >= SEVERITIES.index(least)
