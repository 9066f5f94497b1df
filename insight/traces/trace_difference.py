"""Compares two traced jobs: which operations and parts of the time grew, shrank, came or went, by step and rank.

Reference:
    Holistic Trace Analysis, Meta, 2022: trace diff, with counts and durations of a mean step and rank instead of sums.
"""

from collections import defaultdict
from dataclasses import dataclass

from .job_trace import JobTrace
from .time_breakdown import operation_times, time_breakdown

__all__ = ["OperationDifference", "PartDifference", "TraceDifference", "trace_difference"]

_PARTS = ("span_s", "compute_s", "communication_s", "memory_s", "data_s", "garbage_s", "idle_s", "overlap_s")


@dataclass(frozen=True, slots=True)
class OperationDifference:
    """One operation in both jobs, in a mean step of a mean rank.

    Args:
        calls, calls_before: How often it ran.
        seconds, seconds_before: What it took.
        change: `more`, `less`, `new` or `gone`.
    """

    name: str
    kind: str
    calls_before: float
    calls: float
    seconds_before: float
    seconds: float
    change: str

    @property
    def difference_s(self) -> float:
        """Seconds that it takes more than before."""
        return self.seconds - self.seconds_before


@dataclass(frozen=True, slots=True)
class PartDifference:
    """A part of the time breakdown in both jobs, seconds in a mean step of a mean rank."""

    name: str
    seconds_before: float
    seconds: float


@dataclass(frozen=True, slots=True)
class TraceDifference:
    """What differs between two jobs.

    Args:
        steps_before, steps: Traced steps of a rank; numbers are of a mean one.
        operations: The largest difference first.
    """

    ranks_before: int
    ranks: int
    steps_before: int
    steps: int
    parts: tuple[PartDifference, ...]
    operations: tuple[OperationDifference, ...]


def trace_difference(before: JobTrace, after: JobTrace) -> TraceDifference:
    """Return what differs in `after`."""
    (parts_before, operations_before), (parts, operations) = _means(before), _means(after)
    rows = []
    for key in {**operations_before, **operations}:
        calls_before, seconds_before = operations_before.get(key, (0.0, 0.0))
        calls, seconds = operations.get(key, (0.0, 0.0))
        change = "new" if not calls_before else "gone" if not calls else "more" if seconds > seconds_before else "less"
        rows.append(OperationDifference(key[1], key[0], calls_before, calls, seconds_before, seconds, change))
    rows.sort(key=lambda row: (-abs(row.difference_s), row.name))
    return TraceDifference(
        ranks_before=len(before.ranks),
        ranks=len(after.ranks),
        steps_before=_steps(before),
        steps=_steps(after),
        parts=tuple(PartDifference(name.removesuffix("_s"), parts_before[name], parts[name]) for name in _PARTS),
        operations=tuple(rows),
    )


def _steps(job: JobTrace) -> int:
    return max(len(trace.steps.numbers) for trace in job.ranks)


_Operations = dict[tuple[str, str], tuple[float, float]]


def _means(job: JobTrace) -> tuple[dict[str, float], _Operations]:
    """Return the parts of the time, and calls and seconds of each operation by kind and name."""
    parts: dict[str, float] = defaultdict(float)
    calls: dict[tuple[str, str], float] = defaultdict(float)
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for trace in job.ranks:
        share = 1.0 / (len(trace.steps.numbers) * len(job.ranks))
        split = time_breakdown(trace)
        for name in _PARTS:
            parts[name] += share * getattr(split, name)
        for operation in operation_times(trace):
            calls[operation.kind, operation.name] += share * operation.calls
            seconds[operation.kind, operation.name] += share * operation.seconds
    return parts, {key: (calls[key], seconds[key]) for key in calls}
