"""Where the time of each traced rank goes: computing, communicating, copying, waiting; and which operations take it.

On a device the kernels are the activity. Without a device it is the operations of the processor, the collectives of
gloo, the data loader and the garbage collector; what is between them is Python's.

Reference:
    Holistic Trace Analysis, Meta, 2022: temporal breakdown, kernel breakdown and overlap, whose numbers these are.
"""

from dataclasses import dataclass

import numpy as np

from .intervals import covered, outermost
from .job_trace import JobTrace
from .rank_trace import Floats, Kind, Mask, RankTrace

__all__ = ["Copy", "OperationTime", "TimeBreakdown", "copies", "operation_times", "own_operations", "time_breakdown"]


@dataclass(frozen=True, slots=True)
class TimeBreakdown:
    """The time of one rank, from its first activity to its last. The parts but `overlap_s` sum to `span_s`.

    Args:
        is_device: Whether the activity is a device's.
        compute_s: Some computation runs.
        communication_s: A collective runs, and nothing of the above: exposed communication.
        memory_s: A copy runs, and nothing of the above.
        data_s: The data loader runs on the processor, and nothing of the above; 0 with a device.
        garbage_s: The garbage collector does; it comes before all others. 0 with a device.
        idle_s: None of these runs; without a device this is Python beside operations.
        all_communication_s: A collective runs.
        overlap_s: A collective and a computation run together.
    """

    rank: int
    is_device: bool
    span_s: float
    compute_s: float
    communication_s: float
    memory_s: float
    data_s: float
    garbage_s: float
    idle_s: float
    all_communication_s: float
    overlap_s: float

    @property
    def overlap(self) -> float:
        """Share of communication that is hidden behind computation; NaN without communication."""
        return self.overlap_s / self.all_communication_s if self.all_communication_s > 0.0 else float("nan")


def own_operations(trace: RankTrace) -> Mask:
    """Return the operations of the processor that no other operation has called, without the calls of collectives."""
    mask: Mask = trace.kind == Kind.OPERATION
    where = np.flatnonzero(mask)
    events = trace.file.events
    is_outer = outermost(events["lane"][where].astype(np.int64), trace.start[where], trace.end[where])
    is_outer &= ~np.array([name.startswith("c10d::") for name in trace.names(mask)], np.bool_)
    mask[where[~is_outer]] = False
    return mask


def time_breakdown(trace: RankTrace) -> TimeBreakdown:
    """Return where the time of the rank goes."""
    kinds = (Kind.COMPUTE, Kind.COMMUNICATION, Kind.MEMORY, Kind.DATA, Kind.GARBAGE_COLLECTION)
    masks = [trace.kind == kind for kind in kinds]
    if trace.has_device:
        masks = [mask & trace.on_device for mask in masks]
    else:
        masks[0] = own_operations(trace)
    active = np.logical_or.reduce(masks)
    if not active.any():
        return TimeBreakdown(trace.rank, trace.has_device, *[0.0] * 9)
    span = float(trace.start[active].min()), float(trace.end[active].max())
    times = covered(span, [(trace.start[mask], trace.end[mask]) for mask in masks])
    code = np.arange(len(times))
    compute, communicate, copy, load, collect = ((code >> bit & 1).astype(np.bool_) for bit in range(5))
    compute, communicate = (layer & ~(load | collect) for layer in (compute, communicate))
    parts = {
        "garbage_s": collect,
        "data_s": load & ~collect,
        "compute_s": compute,
        "communication_s": communicate & ~compute,
        "memory_s": copy & ~(compute | communicate | load | collect),
        "idle_s": code == 0,
        "all_communication_s": (code >> 1 & 1).astype(np.bool_),
        "overlap_s": compute & communicate,
    }
    return TimeBreakdown(
        trace.rank,
        trace.has_device,
        span[1] - span[0],
        **{name: float(times[where].sum()) for name, where in parts.items()},
    )


@dataclass(frozen=True, slots=True)
class OperationTime:
    """One kernel, or operation of the processor, of one rank.

    Args:
        kind: `compute`, `communication` or `memory`.
        calls: Over the whole trace.
        seconds: Of all calls, overlapping ones counted apart.
    """

    rank: int
    name: str
    kind: str
    calls: int
    seconds: float
    mean_s: float
    max_s: float


def operation_times(trace: RankTrace) -> tuple[OperationTime, ...]:
    """Return the kernels of the rank, or else its operations and collectives, the most expensive first."""
    mask = trace.on_device if trace.has_device else own_operations(trace) | (trace.kind == Kind.COMMUNICATION)
    events = trace.file.events[mask]
    kind = np.where(trace.kind[mask] == Kind.OPERATION, Kind.COMPUTE, trace.kind[mask]).astype(np.int64)
    keys, place = np.unique(kind << 32 | events["name"], return_inverse=True)
    seconds = events["duration"] * 1e-6
    calls, total = np.bincount(place, minlength=len(keys)), np.bincount(place, weights=seconds, minlength=len(keys))
    longest = np.zeros(len(keys))
    np.maximum.at(longest, place, seconds)
    return tuple(
        OperationTime(
            rank=trace.rank,
            name=trace.file.names[int(keys[at]) & 0xFFFFFFFF],
            kind=Kind(int(keys[at]) >> 32).name.lower(),
            calls=int(calls[at]),
            seconds=float(total[at]),
            mean_s=float(total[at] / calls[at]),
            max_s=float(longest[at]),
        )
        for at in np.argsort(-total, kind="stable").tolist()
    )


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies or fills of one kind.

    Args:
        bandwidth: Bytes a second over all of them, as bytes and times say; NaN if the trace has no bytes.
        best: The highest bandwidth that the trace says of a single one, bytes a second; NaN if it says none.
    """

    rank: int
    name: str
    calls: int
    size_bytes: float
    seconds: float
    bandwidth: float
    best: float


def copies(job: JobTrace) -> tuple[Copy, ...]:
    """Return the copies of every rank by their kind, the longest first."""
    made = []
    for trace in job.ranks:
        mask = (trace.kind == Kind.MEMORY) & trace.on_device
        names = np.array(
            [
                " ".join(name.split(" ")[:2]) if name.startswith("Memcpy") else name.split(" ")[0]
                for name in trace.names(mask)
            ]
        )
        events = trace.file.events[mask]
        sizes, seconds, rates = events["bytes"], events["duration"] * 1e-6, events["bandwidth"]
        made += [
            _copy(trace.rank, name, sizes[names == name], seconds[names == name], rates[names == name])
            for name in np.unique(names).tolist()
        ]
    return tuple(sorted(made, key=lambda copy: -copy.seconds))


def _copy(rank: int, name: str, sizes: Floats, seconds: Floats, bandwidths: Floats) -> Copy:
    known = np.isfinite(sizes) & (seconds > 0.0)
    mean = float(sizes[known].sum() / seconds[known].sum()) if known.any() else float("nan")
    best = float(np.nanmax(bandwidths)) * 1e9 if np.isfinite(bandwidths).any() else float("nan")
    return Copy(rank, name, len(sizes), float(np.nansum(sizes)), float(seconds.sum()), mean, best)
