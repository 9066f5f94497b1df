"""Why a device was idle, how many kernels waited for it, and what their launches cost.

Reference:
    Holistic Trace Analysis, Meta, 2022: idle time breakdown, queue length and launch statistics; same definitions, but
    idle time is never negative.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .rank_trace import Floats, Integers, Kind, RankTrace

__all__ = ["LaunchCost", "QueueLength", "StreamIdle", "launch_cost", "launches", "queue_lengths", "stream_idle"]

#: A gap shorter than this between two kernels that were both launched in time is the device's own. Our choice: NVIDIA's
#: devices need 1 to 3 us from one kernel to the next.
_NEXT_KERNEL_S: Final = 5e-6
#: Kernels that a stream holds before a launch waits: CUDA's limit.
_FULL: Final = 1024


@dataclass(frozen=True, slots=True)
class StreamIdle:
    """Gaps between the kernels of one stream.

    Args:
        host_s: The kernel was launched after the one before had ended: the processor was too slow.
        kernel_s: Short gaps between kernels that were launched in time.
        other_s: Longer ones: the kernel waited for another stream, or for something that the trace does not show.
    """

    rank: int
    stream: int
    kernels: int
    host_s: float
    kernel_s: float
    other_s: float


@dataclass(frozen=True, slots=True)
class QueueLength:
    """Kernels that were launched on a stream and had not begun.

    Args:
        mean: Over time.
        full_s: Seconds at CUDA's limit of 1024 and above, when launches wait.
    """

    rank: int
    stream: int
    mean: float
    most: int
    full_s: float


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """What the launches of a rank cost, as medians.

    Args:
        call_s: Of the launching call on the processor.
        kernel_s: Of the kernel on the device.
        delay_s, slow_delay_s: From the end of the call to the kernel's beginning, and its 95th percentile.
        short: Share of kernels that are shorter than their launching call.
    """

    rank: int
    launches: int
    call_s: float
    kernel_s: float
    delay_s: float
    slow_delay_s: float
    short: float


def launches(trace: RankTrace) -> tuple[Integers, Integers]:
    """Return the events of kernels and copies, and those of the calls that launched them; without a call, none."""
    events = trace.file.events
    known = events["correlation"] >= 0
    calls = np.flatnonzero((trace.kind == Kind.RUNTIME) & known)
    kernels = np.flatnonzero(trace.on_device & known)
    order = np.argsort(events["correlation"][calls], kind="stable")
    calls = calls[order]
    numbers = events["correlation"][calls]
    place = np.searchsorted(numbers, events["correlation"][kernels])
    found = (
        (place < len(numbers)) & (numbers[np.minimum(place, len(numbers) - 1)] == events["correlation"][kernels])
        if len(numbers)
        else np.zeros(len(kernels), np.bool_)
    )
    return kernels[found], calls[place[found]] if len(numbers) else np.empty(0, np.int64)


def stream_idle(trace: RankTrace) -> tuple[StreamIdle, ...]:
    """Return the idle time of each stream of the rank by its cause."""
    launched = np.full(len(trace.start), -np.inf)
    kernels, calls = launches(trace)
    launched[kernels] = trace.start[calls]
    made = []
    for stream, of_stream in _streams(trace):
        gap = np.maximum(trace.start[of_stream][1:] - trace.end[of_stream][:-1], 0.0)
        of_host = launched[of_stream][1:] > trace.end[of_stream][:-1]
        of_kernel = ~of_host & (gap < _NEXT_KERNEL_S)
        parts = (float(gap[mask].sum()) for mask in (of_host, of_kernel, ~of_host & ~of_kernel))
        made.append(StreamIdle(trace.rank, stream, len(of_stream), *parts))
    return tuple(made)


def queue_lengths(trace: RankTrace) -> tuple[QueueLength, ...]:
    """Return how many kernels waited on each stream of the rank."""
    kernels, calls = launches(trace)
    stream = trace.file.events["stream"][kernels]
    made = []
    for number in np.unique(stream).tolist():
        here = stream == number
        moments = np.concatenate([trace.start[calls[here]], trace.start[kernels[here]]])
        change = np.repeat([1, -1], here.sum())
        order = np.argsort(moments, kind="stable")
        waiting, spans = np.cumsum(change[order])[:-1], np.diff(moments[order])
        whole = float(spans.sum())
        mean = float((waiting * spans).sum() / whole) if whole > 0.0 else 0.0
        full = float(spans[waiting >= _FULL].sum())
        made.append(QueueLength(trace.rank, number, mean, int(waiting.max(initial=0)), full))
    return tuple(made)


def launch_cost(trace: RankTrace) -> LaunchCost | None:
    """Return what launches cost on the rank; None if the trace joins no kernel with its launch."""
    kernels, calls = launches(trace)
    if not len(kernels):
        return None
    call, kernel = trace.end[calls] - trace.start[calls], trace.end[kernels] - trace.start[kernels]
    delay: Floats = trace.start[kernels] - trace.end[calls]
    return LaunchCost(
        rank=trace.rank,
        launches=len(kernels),
        call_s=float(np.median(call)),
        kernel_s=float(np.median(kernel)),
        delay_s=float(np.median(delay)),
        slow_delay_s=float(np.percentile(delay, 95)),
        short=float((kernel < call).mean()),
    )


def _streams(trace: RankTrace) -> list[tuple[int, Integers]]:
    """Return the events of each stream, by start."""
    where = np.flatnonzero(trace.on_device)
    stream = trace.file.events["stream"][where]
    return [(number, where[stream == number]) for number in np.unique(stream).tolist()]
