"""Memory over the run, and its parts at the peak."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ...storage import ROOT_SITE, ParameterInfo, Store, Structure
from .operator_profile import Profiled

__all__ = ["MemoryPart", "MemoryUse", "memory_use"]

_MOST = 2000
#: Modules that are named among the parts; the rest is one part. Our choice.
_NAMED = 8
_ITEM_BYTES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2}
_ITEM_BYTES |= {"bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1, "complex64": 8}


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part of the memory at its peak.

    Args:
        kind: `parameters`, `gradients`, `optimizer`, `activations`.
        site: The module that made them, for activations; empty for the whole model.
        is_measured: False if the size follows from shapes alone.
    """

    kind: str
    site: str
    size_bytes: float
    is_measured: bool


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of one rank.

    Args:
        steps, host_bytes, device_bytes: Memory over the run; NaN in steps that did not record it.
        monitor_bytes: What the monitor held of the host's.
        host_peak_bytes, device_peak_bytes: The peaks; NaN if they were not recorded.
        peak_step: First step at the device's peak, or at the host's without a device; -1 without both.
        parts: What is there at the moment of most memory within a step, the largest first. From the allocations of
            the steps that were looked at from inside, where there are some; else from the shapes of activations.
    """

    rank: int
    steps: tuple[int, ...]
    host_bytes: tuple[float, ...]
    device_bytes: tuple[float, ...]
    host_peak_bytes: float
    device_peak_bytes: float
    peak_step: int
    parts: tuple[MemoryPart, ...]
    monitor_bytes: tuple[float, ...] = ()


def memory_use(
    store: Store,
    run: str,
    *,
    rank: int = 0,
    profiled: tuple[Profiled, ...] = (),
    first: int | None = None,
    last: int | None = None,
) -> MemoryUse:
    """Return the memory of the rank between two steps; without points if the run has not recorded any."""

    def read(name: str) -> dict[int, float]:
        found = store.series(run, ROOT_SITE, f"scalar/memory/{name}", rank=rank, first=first, last=last, limit=_MOST)
        return dict(zip(found.steps.tolist(), found.values.tolist(), strict=True))

    host, device, monitor = read("host_bytes"), read("device_bytes"), read("monitor_bytes")
    peaks = read("device_peak_bytes") or device
    steps = tuple(sorted({*host, *device}))
    decisive = peaks or host
    structure = store.structure(run, rank=rank)
    parts = (*_resident(store, run, rank, structure), *_transient(store, run, rank, structure, profiled))
    return MemoryUse(
        rank=rank,
        steps=steps,
        host_bytes=tuple(host.get(step, float("nan")) for step in steps),
        device_bytes=tuple(device.get(step, float("nan")) for step in steps),
        host_peak_bytes=max(host.values(), default=float("nan")),
        device_peak_bytes=max(peaks.values(), default=float("nan")),
        peak_step=max(decisive, key=lambda step: (decisive[step], -step)) if decisive else -1,
        parts=tuple(sorted(parts, key=lambda part: -part.size_bytes)),
        monitor_bytes=tuple(monitor.get(step, float("nan")) for step in steps),
    )


def _resident(store: Store, run: str, rank: int, structure: Structure) -> Iterator[MemoryPart]:
    """Return the memory that is allocated through the whole step; count each storage, gradient and slot once."""
    shows_sharing = len({info.storage for info in structure.parameters}) > 1  # which parameters share memory
    unique: dict[int | str, ParameterInfo] = {}
    for info in structure.parameters:
        unique.setdefault(info.storage if shows_sharing else info.site, info)
    sizes = {info.site: _size(info) for info in unique.values()}
    trained = {info.site for info in unique.values() if info.requires_grad and info.group is not None}
    slots = [layout.sites for layout in store.layouts(run, rank=rank) if layout.subject.startswith("optimizer/")]
    found = {
        "parameters": sum(sizes.values()),
        "gradients": sum(sizes[site] for site in trained),
        "optimizer": sum(sizes.get(site, 0) for sites in slots for site in sites),
    }
    return (MemoryPart(kind, ROOT_SITE, float(size), False) for kind, size in found.items() if size)


def _size(info: ParameterInfo) -> int:
    return prod(info.shape) * _ITEM_BYTES.get(info.dtype, 4)


def _transient(
    store: Store, run: str, rank: int, structure: Structure, profiled: tuple[Profiled, ...]
) -> Iterator[MemoryPart]:
    """Yield the memory that a step allocates and frees, by the module that allocated it."""
    sizes: dict[str, float] = {}
    if profiled:
        highest = max(profiled, key=lambda step: step.peak_bytes)
        for holder in highest.holders:
            sizes[holder.site] = sizes.get(holder.site, 0.0) + holder.size_bytes
    else:
        sizes = _outputs(store, run, rank, structure)
    order = sorted(sizes, key=lambda site: -sizes[site])
    for site in order[:_NAMED]:
        yield MemoryPart("activations", site, sizes[site], bool(profiled))
    if rest := sum(sizes[site] for site in order[_NAMED:]):
        yield MemoryPart("activations", "(others)", rest, bool(profiled))


def _outputs(store: Store, run: str, rank: int, structure: Structure) -> dict[str, float]:
    """Return the bytes of the outputs of the leaf modules, in the model's most frequent dtype."""
    leaves = {module.site for module in structure.modules if module.is_leaf}
    dtypes = [info.dtype for info in structure.parameters]
    item = _ITEM_BYTES.get(max(set(dtypes), key=dtypes.count), 4) if dtypes else 4
    matrix = store.matrix(run, "activation/size", rank=rank, limit=1)
    if not matrix.sites or not matrix.steps.size:
        return {}
    sizes = np.nan_to_num(matrix.high.max(axis=1))
    return {site: size * item for site, size in zip(matrix.sites, sizes.tolist(), strict=True) if site in leaves}
