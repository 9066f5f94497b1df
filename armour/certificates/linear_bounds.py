"""CROWN: linear functions of the input below and above every unit, pushed from the outputs back to the input."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...framework import Tensor, vjp, vmap
from ..array_api import Floats
from ..errors import InvalidModel
from .interval import Interval, is_affine, step_interval
from .network_program import NetworkProgram, ProgramStep


@dataclass(frozen=True, slots=True, eq=False)
class Below:
    """`coefficients . x + offsets`, never above the wanted values.

    Args:
        coefficients: `(wanted, *input)`.
        offsets: `(wanted,)`.
    """

    coefficients: Floats
    offsets: Floats

    def least(self, region: Interval) -> Floats:
        """Return `(wanted,)` smallest values in a box."""
        middle, spread = (region.low + region.high)[0] / 2, (region.high - region.low)[0] / 2
        axes = middle.ndim
        value = np.tensordot(self.coefficients, middle, axes) - np.tensordot(np.abs(self.coefficients), spread, axes)
        return np.asarray(value + self.offsets, np.float64)

    def least_in_ball(self, centre: Floats, radius: float) -> Floats:
        """Return `(wanted,)` smallest values within an L2 distance of `centre` `(*input)`."""
        flat = self.coefficients.reshape(len(self.coefficients), -1)
        value = flat @ centre.reshape(-1) - radius * np.linalg.norm(flat, axis=1)
        return np.asarray(value + self.offsets, np.float64)


def crown_bounds(program: NetworkProgram, region: Interval) -> list[Interval]:
    """Return the bounds of every slot: intervals, tightened by CROWN where a relaxation depends on them.

    Reference:
        Zhang et al. 2018, arXiv:1811.00866; Xu et al. 2020, arXiv:2002.12920 for graphs.
    """
    found = [region]
    for step in program.steps:
        if step.primitive.name in ("relu", "maximum", "max_pool"):
            for _, slot in step.slots:
                if slot:
                    found[slot] = _tighter(program, found, slot, region)
        found.append(step_interval(step, found))
    return found


def _tighter(program: NetworkProgram, known: list[Interval], slot: int, region: Interval) -> Interval:
    interval = known[slot]
    shape = program.shape_of(slot)
    unsure = np.flatnonzero(interval.low.ravel() < interval.high.ravel())
    if not len(unsure):
        return interval
    wanted = np.zeros((len(unsure), interval.low.size))
    wanted[np.arange(len(unsure)), unsure] = 1.0
    wanted = wanted.reshape(len(unsure), *shape)
    low, high = interval.low.copy().ravel(), interval.high.copy().ravel()
    below = bound_below(program, known, slot, np.concatenate([wanted, -wanted])).least(region)
    low[unsure] = np.maximum(low[unsure], below[: len(unsure)])
    high[unsure] = np.maximum(np.minimum(high[unsure], -below[len(unsure) :]), low[unsure])
    return Interval(low.reshape(shape), high.reshape(shape))


def bound_below(program: NetworkProgram, known: list[Interval], slot: int, wanted: Floats) -> Below:
    """Return a linear function of the input below `wanted . slot`.

    Args:
        program: From `record`.
        known: Bounds of all slots before `slot`.
        slot: What is bounded.
        wanted: `(wanted, 1, ...)` coefficients of the slot.
    """
    pending: dict[int, Floats] = {slot: wanted}
    offsets = np.zeros(len(wanted))
    for number in range(slot, 0, -1):
        weights = pending.pop(number, None)
        if weights is None:
            continue
        step = program.steps[number - 1]
        parts, constant = _through(step, known, weights)
        offsets += constant
        for below, part in parts:
            pending[below] = pending[below] + part if below in pending else part
    at_input = pending.get(0, np.zeros((len(wanted), *program.shape)))
    return Below(at_input[:, 0], offsets)


def least_from_intervals(program: NetworkProgram, known: list[Interval], slot: int, wanted: Floats) -> Floats:
    """Return `(wanted,)` lower bounds of `wanted . slot`: affine steps at the end are merged with it.

    A difference of logits is a single affine function of what they are made of. To bound each logit alone and subtract
    would add up what cancels.

    Args:
        known: Bounds of all slots before `slot`, by `interval_bounds`.
        wanted: `(wanted, 1, ...)` coefficients of the slot.

    Reference:
        Gowal et al. 2018, arXiv:1810.12715, section 3: elision of the last layer.
    """
    pending: dict[int, Floats] = {slot: wanted}
    least = np.zeros(len(wanted))
    for number in range(slot, -1, -1):
        weights = pending.pop(number, None)
        if weights is None:
            continue
        if number == 0 or not is_affine(program.steps[number - 1]):
            least += Below(weights[:, 0], np.zeros(len(wanted))).least(known[number])
            continue
        parts, constant = _through_affine(program.steps[number - 1], known, weights)
        least += constant
        for below, part in parts:
            pending[below] = pending[below] + part if below in pending else part
    return least


_Parts = tuple[list[tuple[int, Floats]], Floats]


def _through(step: ProgramStep, known: list[Interval], weights: Floats) -> _Parts:
    if is_affine(step):
        return _through_affine(step, known, weights)
    name = step.primitive.name
    if name == "max_pool":
        return _through_max_pool(step, known, weights)
    if name in ("relu", "maximum") and len(step.slots) == 1:
        return _through_relu(step, known, weights)
    raise InvalidModel(f"CROWN knows no relaxation of the primitive '{name}'; take method='ibp', or smooth the model")


def _through_affine(step: ProgramStep, known: list[Interval], weights: Floats) -> _Parts:
    zeros = {position: Tensor(np.zeros(known[slot].low.shape)) for position, slot in step.slots}
    offset = np.broadcast_to(step.apply(dict(zeros)).numpy(), step.shape)

    def at(position: int) -> Callable[[Tensor], Tensor]:
        return lambda x: step.apply({**zeros, position: x})

    parts = [(slot, _pull_back(at(position), zeros[position], weights)) for position, slot in step.slots]
    return parts, np.tensordot(weights, offset, offset.ndim)


def _pull_back(function: Callable[[Tensor], Tensor], at: Tensor, weights: Floats) -> Floats:
    """Pull each of `(wanted, 1, ...)` weights back through the function's derivative at a point."""
    _, back = vjp(function, at)
    pulled: Floats = vmap(lambda weight: back(weight)[0])(Tensor(weights)).numpy()
    return pulled


def _through_relu(step: ProgramStep, known: list[Interval], weights: Floats) -> _Parts:
    """Bound max(x, c) by lines: the chord above; below, slope 0 or 1 by the larger side of the interval."""
    position, slot = step.slots[0]
    other = 0.0 if step.primitive.name == "relu" else step.inputs[1 - position]
    corner = other.numpy() if isinstance(other, Tensor) else np.float64(other)
    if np.broadcast_shapes(np.shape(corner), step.shape) != known[slot].low.shape:
        raise InvalidModel("CROWN knows max(x, c) only where c does not widen x; take method='ibp'")
    low, high = known[slot].low - corner, known[slot].high - corner
    width = np.where(high > low, high - low, 1.0)
    chord = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / width))
    lift = np.where((low < 0) & (high > 0), -low * chord, 0.0)
    slope = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, (high > -low).astype(np.float64)))
    positive, negative = np.maximum(weights, 0), np.minimum(weights, 0)
    part = positive * slope + negative * chord
    constant = np.sum(negative * lift + weights * corner - part * corner, axis=tuple(range(1, weights.ndim)))
    return [(slot, part)], constant


def _through_max_pool(step: ProgramStep, known: list[Interval], weights: Floats) -> _Parts:
    """Bound a max pooling by the input of largest lower bound; above by a constant where it does not always win."""
    position, slot = step.slots[0]
    bounds = known[slot]
    at = Tensor(bounds.low)
    winner = _pull_back(lambda x: step.apply({position: x}), at, np.ones((1, *step.shape)))[0]
    rivals = np.where(winner > 0, -np.inf, bounds.high)
    # An input that is the best of one window may be a rival in another: then its own upper bound must count there.
    shared = winner > 1
    if shared.any() or _overlaps(step):
        rivals = bounds.high
    least, most = (step.apply({position: Tensor(values)}).numpy() for values in (bounds.low, bounds.high))
    always = (
        least >= step.apply({position: Tensor(np.where(np.isinf(rivals), np.finfo(np.float64).min, rivals))}).numpy()
    )
    positive, negative = np.maximum(weights, 0), np.minimum(weights, 0)
    part = _pull_back(lambda x: step.apply({position: x}), at, positive + negative * always)
    constant = np.sum(negative * np.where(always, 0.0, most), axis=tuple(range(1, weights.ndim)))
    return [(slot, part)], constant


def _overlaps(step: ProgramStep) -> bool:
    window = step.attributes["window"]
    spans = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
    return any(span > stride for span, stride in zip(spans, window.stride, strict=True)) or any(
        d > 1 for d in window.dilation
    )
