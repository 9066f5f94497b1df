"""The flight recorder: keeps the last steps in memory and stores them if the rules find an anomaly."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..storage import SEVERITIES, Event, Finding, Severity, StepRecord
from ..storage.records import Json, joined
from .collectors.collector import COLLECTORS
from .configuration.sections import AnomalyWindow, FlightRecorder
from .dump import Dumper, TensorCopy, is_one_of


def split(record: StepRecord, is_scheduled: Callable[[str], bool], measured: Mapping[str, str]) -> StepRecord:
    """Return the record with everything that was not scheduled moved to `beside`.

    Args:
        is_scheduled: Whether the collector of that name was due by the schedule.
        measured: The collector by the name of each scalar that one has measured; others are the user's.
    """
    due = [is_scheduled(_collector_of(block.layout.subject)) for block in record.blocks]
    extra = tuple(block for block, is_due in zip(record.blocks, due, strict=True) if not is_due)
    numbers = {name: value for name, value in record.scalars.items() if not is_scheduled(measured.get(name, ""))}
    if not extra and not numbers:
        return record
    beside = StepRecord(record.step, record.time, record.micro_step, record.skipped, extra, numbers)
    blocks = tuple(block for block, is_due in zip(record.blocks, due, strict=True) if is_due)
    scalars = {name: value for name, value in record.scalars.items() if name not in numbers}
    return replace(record, blocks=blocks, scalars=scalars, beside=beside)


def splitter(
    in_flight: frozenset[str], scheduled: frozenset[str], measured: Mapping[str, str]
) -> Callable[[StepRecord], StepRecord]:
    """Return a function that splits the record of a step by these collectors in flight and those scheduled."""
    return lambda record: split(record, lambda name: name not in in_flight or name in scheduled, measured)


def _collector_of(subject: str) -> str:
    """Return the collector of a subject: its name, or what precedes the last slashes of it."""
    name = subject.removeprefix("quantity/")
    while name not in COLLECTORS and "/" in name:
        name = name.rpartition("/")[0]
    return name


#: How long the training waits for the rules when the memory is full; after a timeout it waits only once they answer.
_RULES_TIMEOUT_S = 2.0

_log = logging.getLogger(__name__)


class FlightTensors:
    """A buffer of tensor copies: the newest that the memory limit allows.

    The training adds copies. The writer, which follows the training by some steps, sends them to the disk or drops
    them. When the memory is full before the writer has reached an earlier step, the training waits for it: otherwise a
    fast loop would drop tensors that the rules are about to request. Dropped tensors are counted.

    Args:
        config: Which tensors, and how much memory.
        dumper: Stores those that are wanted after all.
        settle: Waits until the rules have seen every record sent so far; False after this many seconds.
    """

    def __init__(
        self, config: FlightRecorder, dumper: Dumper, settle: Callable[[float], bool] = lambda _: False
    ) -> None:
        self.subjects = frozenset(config.subjects if config.tensors else ())
        self._patterns, self._limit, self._steps = config.tensors, config.memory, config.steps
        self._dumper, self._settle = dumper, settle
        self._copies: deque[TensorCopy] = deque()
        self._bytes = 0
        self._seen: dict[int, int] = {}  # bytes of the wanted tensors, by step
        self._gone: dict[int, int] = {}  # wanted tensors that are no longer held, by step
        self._judged = self._waited_at = -1
        self._is_reported = self._is_vain = False
        self._lock = threading.Lock()
        self._chosen: dict[str, bool] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of the copies."""
        return self._bytes

    def wants(self, subject: str, site: str) -> bool:
        """Return whether this tensor is to be held."""
        if site not in self._chosen:
            self._chosen[site] = is_one_of(site, self._patterns)
        return subject in self.subjects and self._chosen[site]

    def take(self, subject: str, site: str, call: int, moment: tuple[int, int], array: NDArray[np.generic]) -> None:
        """Hold a copy of the tensor and drop the oldest copies for it; leave out one that alone exceeds the limit."""
        step, size = moment[0], array.nbytes
        with self._lock:
            self._seen[step] = self._seen.get(step, 0) + size
            is_full = self._bytes + size > self._limit >= size
            if is_full and self._enough() > self._limit:  # some of these steps must be dropped in any case
                self._make_room(size, self._judged)
                is_full = self._bytes + size > self._limit
            is_early = is_full and self._copies[0].step < step and self._judged < step - 1
        if is_early:
            self._wait_at(step)
        copy = TensorCopy(subject, site, call, *moment, np.array(array, order="C")) if size <= self._limit else None
        with self._lock:
            if copy is None:
                self._miss(step)
                return
            self._make_room(size, step)
            self._copies.append(copy)
            self._bytes += size

    def forget(self, before: int) -> None:
        """Drop the tensors of steps before this one."""
        with self._lock:
            for _ in self._up_to(before - 1):
                pass
            self._drop_counts(before - 1)

    def release(self, last: int) -> tuple[int, dict[str, Json] | None]:
        """Send the tensors of all steps up to this one to the disk; return their number and what is missing.

        What is missing is the data of an event `tensors_left_out`; None if nothing is.
        """
        with self._lock:
            copies = list(self._up_to(last))
            missing = self._missing(last)
            self._drop_counts(last)
        self._dumper.store(copies)
        return len(copies), missing

    def have_judged(self, step: int) -> None:
        """Note that the rules have seen the records up to this step."""
        self._judged, self._is_vain = max(self._judged, step), False

    def _wait_at(self, step: int) -> None:
        """Wait once per step until the writer has caught up with the training."""
        if self._waited_at != step and not self._is_vain:
            self._waited_at = step
            if not self._settle(_RULES_TIMEOUT_S):
                self._is_vain = True

    def _make_room(self, size: int, last: int) -> None:
        """Drop the oldest copies, none behind step `last`, until there is room for so many bytes."""
        while self._copies and self._bytes + size > self._limit >= size and self._copies[0].step <= last:
            copy = self._copies.popleft()
            self._bytes -= copy.array.nbytes
            self._miss(copy.step)

    def _miss(self, step: int) -> None:
        self._gone[step] = self._gone.get(step, 0) + 1
        if self._seen[step] > self._limit and not self._is_reported:
            self._is_reported = True
            _log.warning(
                "the flight recorder's memory of %d bytes does not hold the tensors of one step: step %d has %d bytes "
                "or more; raise flight_recorder.memory or name fewer tensors",
                *(self._limit, step, self._seen[step]),
            )

    def _missing(self, last: int) -> dict[str, Json] | None:
        gone = {step: count for step, count in self._gone.items() if step <= last}
        if not gone:
            return None
        enough = self._enough()
        why = f"the flight recorder's memory of {self._limit} bytes was full; {enough} would have been enough"
        span: dict[str, Json] = {"first": min(gone), "last": max(gone), "steps": len(gone)}
        return {"count": sum(gone.values()), "reason": why, **span, "memory": enough}

    def _enough(self) -> int:
        """Return the bytes needed for the kept steps, the step of an anomaly and the one in progress."""
        return (self._steps + 2) * max(self._seen.values())

    def _drop_counts(self, last: int) -> None:
        for counts in (self._seen, self._gone):
            for step in [counted for counted in counts if counted <= last]:
                del counts[step]

    def _up_to(self, last: int) -> Iterator[TensorCopy]:
        while self._copies and self._copies[0].step <= last:
            copy = self._copies.popleft()
            self._bytes -= copy.array.nbytes
            yield copy


_NON_FINITE = ("nans", "pos_infs", "neg_infs")
#: Faults of the monitor are no anomalies of the training.
_OF_THE_MONITOR = "monitor_fault"


class FlightRecords:
    """A `FlightBuffer` of the store: keeps the last records beside the schedule until an anomaly asks for them.

    An anomaly is the first finding of a rule at a site, if it is severe enough. So a rule that reports the same site
    again and again does not keep the recording dense (our choice).

    Args:
        flight: What to keep; None keeps nothing, and anomalies are only reported.
        around: How long recording is dense after an anomaly.
    """

    def __init__(self, flight: FlightRecorder | None, around: AnomalyWindow) -> None:
        self._steps = 0 if flight is None else flight.steps
        self._severity: Severity = around.severity if flight is None else flight.severity
        self._around = around
        self._ring: deque[StepRecord] = deque()
        self._seen: set[tuple[str, str]] = set()
        self._dense_until = -1
        self._reported: int | None = None
        self._alarm: int | None = None
        self.tensors: FlightTensors | None = None

    def alarm(self, step: int) -> int | None:
        """Return the step behind which recording is dense for the newest reported anomaly.

        With a flight recorder that is the step of the anomaly, since the steps after it are in the buffer; without one
        it is the step before this one.
        """
        if self._reported is not None:
            reported, self._reported = self._reported, None
            self._alarm = reported if self._steps else step - 1
        return self._alarm

    def show(self, record: StepRecord) -> StepRecord:
        """Return the record for the rules: all scalars, and all statistics where a value is not finite.

        So an anomaly is seen at its own step at little cost; slow changes are seen at scheduled steps. Our choice:
        rules over every statistic of every step took a step of 2 ms (three dense layers) from 2.0 to 2.4 times the
        unwatched one.
        """
        beside = record.beside
        if beside is None or record.step <= self._dense_until or _is_odd(beside):
            return joined(record, beside)
        return joined(record, replace(beside, blocks=()))

    def sort(self, record: StepRecord, findings: Sequence[Finding]) -> tuple[StepRecord, Sequence[StepRecord]]:
        """Return the record as it is stored now, and the earlier records that are stored after all."""
        earlier: tuple[StepRecord, ...] = ()
        if self.tensors is not None:
            self.tensors.have_judged(record.step)
        severity = self._worst_new(findings)
        if _reaches(severity, self._around.severity):
            self._dense_until, self._reported = max(self._dense_until, record.step + self._around.after), record.step
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
        """Return the kept records if the run failed or one of its last findings is an anomaly."""
        wanted = failed or _reaches(self._worst_new(findings), self._severity)
        return tuple(self._ring) if wanted else ()

    def release_tensors(self) -> dict[str, Json]:
        """Send all held tensors to the disk; return what is missing as data of an event `tensors_left_out`."""
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
        """Return the record with an event that tells what is stored after all."""
        record, tensors = self._with_tensors(record)
        first = earlier[0].step if earlier else record.step
        data = {"first": first, "records": len(earlier), "tensors": tensors}
        return replace(record, events=(*record.events, Event("flight_recorder", record.step, data=data)))

    def _with_tensors(self, record: StepRecord) -> tuple[StepRecord, int]:
        """Send the tensors up to the record's step to the disk; return the record and their number."""
        if self.tensors is None:
            return record, 0
        count, missing = self.tensors.release(record.step)
        if missing is not None:
            left_out = Event("tensors_left_out", record.step, data=missing)
            record = replace(record, events=(*record.events, left_out))
        return record, count

    def _worst_new(self, findings: Iterable[Finding]) -> Severity | None:
        """Return the worst severity among the findings that no earlier one has announced."""
        fresh = [
            finding
            for finding in findings
            if finding.cause != _OF_THE_MONITOR and (finding.rule, finding.site) not in self._seen
        ]
        self._seen.update((finding.rule, finding.site) for finding in fresh)
        return max((finding.severity for finding in fresh), key=SEVERITIES.index, default=None)


def _is_odd(record: StepRecord) -> bool:
    """Return whether some tensor held a value that is not finite."""
    return any((block.values[:, _columns(block.layout.statistics)] > 0.0).any() for block in record.blocks)


@lru_cache(maxsize=64)
def _columns(statistics: tuple[str, ...]) -> list[int]:
    return [at for at, name in enumerate(statistics) if name in _NON_FINITE]


def _reaches(severity: Severity | None, least: Severity) -> bool:
    return severity is not None and SEVERITIES.index(severity) >= SEVERITIES.index(least)
