"""One rank of a traced job: what kind each event is, and in which step it lies."""

import re
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .trace_file import TraceFile

__all__ = ["Kind", "RankTrace", "Steps", "rank_trace"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Kind(IntEnum):
    """What an event is.

    The first four run on a device, or on the processor where a trace has no device; `OTHER` is left out everywhere.
    """

    OTHER = 0
    COMPUTE = 1
    COMMUNICATION = 2
    MEMORY = 3
    OPERATION = 4
    RUNTIME = 5
    DATA = 6
    GARBAGE_COLLECTION = 7
    ANNOTATION = 8


_DEVICE_WORK: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "mtia_ccp_events"})
_RUNTIME: Final = frozenset({"cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "privateuse1_runtime"})
_OPERATION: Final = frozenset({"cpu_op", "operator"})
#: Kernels of collectives: NCCL and RCCL (both `nccl...`), MSCCL, oneCCL, HCCL.
_COLLECTIVE_KERNEL: Final = re.compile(r"^(nccl|rccl|mscclk|oneccl|hcom|hccl)", re.IGNORECASE)
_MEMORY_KERNEL: Final = re.compile(r"^((hip)?mem(cpy|set)|dma)", re.IGNORECASE)
_COLLECTIVE_OF_HOST: Final = re.compile(r"^gloo:")
_LOADER: Final = re.compile(r"^enumerate\(DataLoader\)#|DataLoaderIter\.__next__")
_COLLECTION: Final = re.compile(r"^(Python GC|gc\.collect|<built-in (function|method) collect)", re.IGNORECASE)
_STEP: Final = re.compile(r"^ProfilerStep\s*#\s*(\d{1,15})$")
_OPTIMIZER_STEP: Final = re.compile(r"^Optimizer\.step#")


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of one rank, in their order.

    Args:
        numbers: `(s,)`, as the trace numbers them, or counted from 0.
        begin, end: `(s,)`, seconds; the end of a step is the beginning of the next.
        source: What marks them: `ProfilerStep`, `Optimizer.step`, or empty where the whole trace is one.
    """

    numbers: Integers
    begin: Floats
    end: Floats
    source: str

    def of(self, moments: Floats) -> Integers:
        """Return the place of the step in which each moment lies; -1 before the first and after the last."""
        place = np.searchsorted(self.begin, moments, side="right") - 1
        return np.where((place >= 0) & (moments < self.end[place]), place, -1)


@dataclass(frozen=True, slots=True, eq=False)
class RankTrace:
    """The events of one rank on the clock of the job.

    Args:
        host: The machine; empty if unknown.
        start, end: `(n,)` seconds since the origin of the job.
        kind: `(n,)`, of `Kind`.
        has_device: Whether work of a device was traced; without, the operations of the processor are the activity.
    """

    rank: int
    host: str
    file: TraceFile
    start: Floats
    end: Floats
    kind: NDArray[np.int8]
    steps: Steps
    has_device: bool

    @property
    def on_device(self) -> Mask:
        """Which events are work of a device."""
        return (self.kind >= Kind.COMPUTE) & (self.kind <= Kind.MEMORY) & (self.file.events["stream"] >= 0)

    def names(self, mask: Mask) -> list[str]:
        """Return the names of these events."""
        return [self.file.names[number] for number in self.file.events["name"][mask].tolist()]


def rank_trace(file: TraceFile, rank: int, host: str, origin_us: tuple[float, float]) -> RankTrace:
    """Return the trace of a rank.

    Args:
        origin_us: The base time, and the time on it, that become 0.
    """
    shift = (file.base_us - origin_us[0]) - origin_us[1]
    start = (file.events["start"] + shift) * 1e-6
    end = start + file.events["duration"] * 1e-6
    kind, has_device = _kinds(file)
    return RankTrace(rank, host, file, start, end, kind, _steps(file, kind, start, end), has_device)


def _kinds(file: TraceFile) -> tuple[NDArray[np.int8], bool]:
    """Return the kind of each event, decided once for every pair of category and name."""
    events = file.events
    pairs, place = np.unique(events["category"].astype(np.int64) << 32 | events["name"], return_inverse=True)
    known = np.array(
        [_kind(file.categories[pair >> 32], file.names[pair & 0xFFFFFFFF]) for pair in pairs.tolist()], np.int8
    )
    kind = known[place]
    device = (kind >= Kind.COMPUTE) & (kind <= Kind.MEMORY)
    has_device = bool((device & (events["stream"] >= 0)).any())
    return kind, has_device


def _kind(category: str, name: str) -> Kind:
    if category in _DEVICE_WORK:
        if _COLLECTIVE_KERNEL.search(name):
            return Kind.COMMUNICATION
        return (
            Kind.MEMORY
            if _MEMORY_KERNEL.search(name) or category.removeprefix("gpu_").startswith("mem")
            else Kind.COMPUTE
        )
    if category in _RUNTIME:
        return Kind.RUNTIME
    if _COLLECTION.search(name):
        return Kind.GARBAGE_COLLECTION
    if _COLLECTIVE_OF_HOST.search(name):
        return Kind.COMMUNICATION
    if category in _OPERATION:
        return Kind.OPERATION
    if category in ("user_annotation", ""):
        return Kind.DATA if _LOADER.search(name) else Kind.ANNOTATION
    return Kind.OTHER


def _steps(file: TraceFile, kind: NDArray[np.int8], start: Floats, end: Floats) -> Steps:
    annotations = np.flatnonzero(kind == Kind.ANNOTATION)
    names = [file.names[number] for number in file.events["name"][annotations].tolist()]
    numbered = [
        (int(found[1]), index)
        for name, index in zip(names, annotations.tolist(), strict=True)
        if (found := _STEP.match(name))
    ]
    if numbered:
        return _marked(numbered, start, end)
    ends = _optimizer_ends(names, annotations, end)
    if len(ends):
        begin = np.concatenate([[start.min()], ends[:-1]])
        return Steps(np.arange(len(ends)), begin, ends, "Optimizer.step")
    return Steps(np.zeros(1, np.int64), np.array([start.min()]), np.array([end.max() + 1e-9]), "")


def _marked(numbered: list[tuple[int, int]], start: Floats, end: Floats) -> Steps:
    """Return the steps that the profiler has marked; one that is marked twice counts from its first mark."""
    firsts: dict[int, int] = {}
    for number, index in sorted(numbered, key=lambda pair: start[pair[1]]):
        firsts.setdefault(number, index)
    places = np.array(list(firsts.values()), np.int64)
    begin = start[places]
    return Steps(
        np.array(list(firsts), np.int64), begin, np.append(begin[1:], max(end[places[-1]], begin[-1])), "ProfilerStep"
    )


def _optimizer_ends(names: list[str], annotations: Integers, end: Floats) -> Floats:
    """Return when the first optimizer has stepped; further ones belong to the same step."""
    found = [
        (name, index) for name, index in zip(names, annotations.tolist(), strict=True) if _OPTIMIZER_STEP.match(name)
    ]
    if not found:
        return np.empty(0)
    first = Counter(name for name, _ in found).most_common(1)[0][0]
    return np.unique(end[[index for name, index in found if name == first]])
