"""Directions: whether updates follow the weights, the last update, and the momentum."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..device_results import HostFuture
from ..quantities.tensor_samples import Sample, elements_of, samples_of
from .collector import Collected, SiteRows, Step, collector

_NAME = "update/direction"
_COLUMNS = ("cosine_to_weight", "cosine_to_previous", "agreement")
#: Names of the first moment, or of what momentum gathers: torch's, the engine's, MindSpore's.
_MOMENTA = ("exp_avg", "momentum_buffer", "moment1", "m", "momentum", "moments")

_Sample = NDArray[np.float64]


@collector(_NAME, at="after_step", columns=_COLUMNS, is_optional=True)
class Direction:
    """Cosines of the update to the weight before it and to the update before it; share of signs momentum agrees with.

    `agreement` is the share of elements that moved whose update has the sign opposite to the first moment after the
    step; NaN where the optimizer keeps none. Of at most 4096 elements of each parameter, evenly spread. The update
    before is the one of the last due step. Off unless the configuration names it.
    """

    def __init__(self) -> None:
        self._before: list[Sample | None] = []
        self._moved: dict[str, _Sample] = {}

    def prepare(self, step: Step) -> None:
        """Sample the weights before the step."""
        self._before = list(samples_of(step.weights(), step.device_results))

    def __call__(self, step: Step) -> Collected:
        """Three numbers of every parameter that has moved."""
        found: dict[str, tuple[float, ...] | HostFuture] = {}
        slots, device_results = step.view.slots(), step.device_results
        name = next((name for name in _MOMENTA if name in slots), None)
        count = len(step.view.names)
        momenta = [None] * count if name is None else list(samples_of(slots[name], device_results))
        weights, is_late = samples_of(step.weights(), device_results), step.may_be_late(step.weights())
        for site, before, after, momentum in zip(step.view.names, self._before, weights, momenta, strict=False):
            if before is None or after is None:
                continue
            look = partial(self._look, site, before, after, momentum)
            numbers = device_results.make(_NAME, look) if device_results is not None and is_late else look()
            if numbers is not None:
                found[site] = numbers
        return {_NAME: SiteRows(_COLUMNS, found)}

    def _look(self, site: str, before: Sample, after: Sample, momentum: Sample | None) -> tuple[float, ...] | None:
        old, new = elements_of(before), elements_of(after)
        if old.shape != new.shape:
            return None
        moved, last = new - old, self._moved.get(site)
        self._moved[site] = moved
        gathered = None if momentum is None else elements_of(momentum)
        return cosine(moved, old), cosine(moved, last), agreement(moved, gathered)


def cosine(one: _Sample, other: _Sample | None) -> float:
    """Between two vectors of equal length; NaN where one is missing or zero."""
    if other is None or one.shape != other.shape:
        return math.nan
    with np.errstate(invalid="ignore", over="ignore"):
        norms = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
        return float(one @ other) / norms if norms > 0.0 else math.nan


def agreement(moved: _Sample, momentum: _Sample | None) -> float:
    """Share of the elements that moved, against whose momentum they moved; NaN of none."""
    if momentum is None or momentum.shape != moved.shape:
        return math.nan
    moves = moved != 0.0
    return float((np.sign(moved[moves]) == -np.sign(momentum[moves])).mean()) if moves.any() else math.nan
