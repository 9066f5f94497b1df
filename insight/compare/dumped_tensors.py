"""Compares dumped tensors of two runs, element by element."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...storage import Blobs, Event, Run, Store
from .pairing import align

__all__ = ["DumpedPair", "TensorDifference", "compare_dumps", "compare_tensors"]

_ALL = 1_000_000_000
#: The order in which a step computes dumped tensors; weights are those at the step's begin.
_PHASES = {"weight": 0, "input": 1, "activation": 1, "activation_grad": 2, "gradient": 3}


@dataclass(frozen=True, slots=True)
class TensorDifference:
    """How two tensors differ.

    Args:
        differing: Elements whose bits differ; a NaN equals any NaN.
        max_abs: Largest absolute difference over elements that are finite in both; NaN where elements differ and none
            of those is.
        max_rel: Largest |a - b| / max(|a|, |b|) over these; NaN likewise.
        cosine: Of the angle between them, over these; NaN where one of them is zero.
        torn: Elements that are finite in one only.
        first: Index of the first differing element, None if there is none.
        values: The two values there.
    """

    size: int
    differing: int
    max_abs: float
    max_rel: float
    cosine: float
    torn: int
    first: tuple[int, ...] | None
    values: tuple[float, float] | None


def compare_tensors(first: NDArray[np.generic], second: NDArray[np.generic]) -> TensorDifference:
    """Return how two tensors of one shape differ, computed in float64.

    Raises:
        ValueError: Their shapes differ.
    """
    if first.shape != second.shape:
        raise ValueError(f"tensors of shapes {first.shape} and {second.shape} cannot be compared element by element")
    a, b = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        differs = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        finite = np.isfinite(a) & np.isfinite(b)
        gap, scale = np.abs(a - b)[finite], np.maximum(np.abs(a), np.abs(b))[finite]
        relative = np.where(scale > 0.0, gap / scale, 0.0)
        cosine = _cosine(a[finite], b[finite])
    index, largest = None, (float(gap.max(initial=0.0)), float(relative.max(initial=0.0)))
    if differs.any():
        index = tuple(int(axis) for axis in np.unravel_index(int(np.argmax(differs)), a.shape))
        if not (differs & finite).any():
            largest = float("nan"), float("nan")
    return TensorDifference(
        size=a.size,
        differing=int(differs.sum()),
        max_abs=largest[0],
        max_rel=largest[1],
        cosine=cosine,
        torn=int((np.isfinite(a) != np.isfinite(b)).sum()),
        first=index,
        values=None if index is None else (float(a[index]), float(b[index])),
    )


def _cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the cosine; scale the vectors first so that their squares neither overflow nor vanish."""
    largest = np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)
    if 0.0 in largest:
        return float("nan")
    u, v = a / largest[0], b / largest[1]
    return float(np.clip((u * v).sum() / np.sqrt((u * u).sum() * (v * v).sum()), -1.0, 1.0))


@dataclass(frozen=True, slots=True)
class DumpedPair:
    """One tensor that both runs have dumped; `difference` is None where the shapes are not the same."""

    step: int
    site: str
    subject: str
    call: int
    difference: TensorDifference | None

    @property
    def differs(self) -> bool:
        """True when any element or the shape differs."""
        return self.difference is None or self.difference.differing > 0


def compare_dumps(
    stores: tuple[Store, Store],
    runs: tuple[Run, Run],
    blobs: tuple[Blobs, Blobs],
    ranks: tuple[int | None, int | None] = (None, None),
) -> Iterator[DumpedPair]:
    """Yield the tensors that both runs dumped, in the order in which the first run made them.

    Hooks record that order: the weights at the step's begin, inputs and outputs in forward order, gradients of outputs
    in backward order, gradients of parameters from the last module to the first.

    Raises:
        StoreUnavailable, StoreDamaged: A file is not there, or not what was written.
    """
    structures = [store.structure(run.id, rank=rank) for store, run, rank in zip(stores, runs, ranks, strict=True)]
    pairs = align(structures[0], structures[1]).pairs
    first_events, second_events = (
        store.events(run.id, rank=rank, kind="tensor", limit=_ALL)
        for store, run, rank in zip(stores, runs, ranks, strict=True)
    )
    there = {_key(event): event for event in second_events}
    order = {info.site: info.order for info in structures[0].modules}
    for event in sorted(first_events, key=lambda event: _order(event, order)):
        step, site, *rest = _key(event)
        match = there.get((step, _counterpart(str(site), pairs), *rest))
        if match is not None:
            yield _pair(event, match, blobs)


def _key(event: Event) -> tuple[object, ...]:
    return (event.step, event.site, event.micro_step, event.data["subject"], event.data["call"])


def _counterpart(site: str, pairs: Mapping[str, str]) -> str:
    """Return the site in the second run; an index in brackets, of a module with several tensors, is kept."""
    module, bracket, which = site.partition("[")
    return f"{pairs.get(module, module)}{bracket}{which}"


def _order(event: Event, order: Mapping[str, int]) -> tuple[int, int, int, int]:
    """Return the sort key of a dumped tensor: order of events; parameters at the step's end, in model order."""
    subject = str(event.data["subject"])
    micro_step = -1 if subject == "weight" else event.micro_step
    position = -order.get(event.site.rpartition(".")[0], -1) if subject == "gradient" else 0
    return event.step, micro_step, _PHASES.get(subject, len(_PHASES)), position


def _pair(first: Event, second: Event, blobs: tuple[Blobs, Blobs]) -> DumpedPair:
    a, b = blobs[0].get(str(first.data["digest"])), blobs[1].get(str(second.data["digest"]))
    difference = compare_tensors(a, b) if a.shape == b.shape else None
    call = first.data["call"]
    assert isinstance(call, int)
    return DumpedPair(first.step, first.site, str(first.data["subject"]), call, difference)
