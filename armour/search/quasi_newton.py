"""L-BFGS inside the box, for all samples of a batch at once: each has its own curvature, step and end.

Steps follow the two-loop recursion on the elements that may still move, are cut by the box, and are halved until the
value falls enough (Armijo's rule); a sample for which no step does is done.

Reference:
    Nocedal and Wright 2006, Numerical Optimization, algorithms 3.1 and 7.4; Bertsekas 1982, doi:10.1137/0320018, for
    the elements at the box that are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array, Rows, namespace, to_numpy
from ..arrays.rows import PerSample, per_sample, take

#: Value and gradient, `(n,)` and `(n, ...)`, at one candidate for each of these rows.
Evaluate = Callable[[Array, Rows], tuple[Array, Array]]

_MEMORY = 10  # pairs of steps and changes of the gradient: SciPy's default
_ENOUGH = 1e-4  # of the fall that the slope promises: the book's
_HALVINGS = 8  # of a step: our choice
_SMALL = 1e-12  # curvature, in proportion to the lengths, below which a pair says nothing


@dataclass(frozen=True, slots=True, eq=False)
class _State(PerSample):
    rows: Rows
    at: Array
    value: Array
    gradient: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Pair(PerSample):
    """A step, the change of the gradient along it, and one over their product, 0 where it is not positive."""

    step: Array
    change: Array
    inverse: Array


def minimize(evaluate: Evaluate, start: Array, rows: Rows, bounds: tuple[float, float], steps: int) -> None:
    """Goes down from `start`; what is met on the way is seen by `evaluate` alone.

    Args:
        start: One point inside the box for each of `rows`.
        steps: At most.
    """
    state, pairs = _State(rows, start, *evaluate(start, rows)), list[_Pair]()
    for _ in range(steps):
        if not len(state.rows):
            return
        way = _direction(state, pairs, bounds)
        moved, fell = _searched(evaluate, state, way, bounds)
        pairs = [*pairs, _pair(state, moved)][-_MEMORY:]
        state = moved
        if not fell.all():
            going = np.flatnonzero(fell)
            state, pairs = state.take(going), [pair.take(going) for pair in pairs]


def _direction(state: _State, pairs: list[_Pair], bounds: tuple[float, float]) -> Array:
    """The quasi-Newton way down; at first as long as the gradient is, but at most 1."""
    xp = namespace(state.at)
    stuck = ((state.at <= bounds[0]) & (state.gradient > 0)) | ((state.at >= bounds[1]) & (state.gradient < 0))
    slope = xp.where(stuck, xp.zeros_like(state.gradient), state.gradient)
    if not pairs:
        return -slope / per_sample(xp.maximum(_dot(slope, slope) ** 0.5, xp.ones_like(state.value)), slope)
    shares, way = [], slope
    for pair in reversed(pairs):
        shares.append(pair.inverse * _dot(pair.step, way))
        way = way - per_sample(shares[-1], way) * pair.change
    last, curved = pairs[-1], _dot(pairs[-1].change, pairs[-1].change)
    known = (last.inverse > 0) & (curved > 0)
    scale = xp.where(known, 1.0 / xp.where(known, last.inverse * curved, xp.ones_like(curved)), xp.ones_like(curved))
    way = per_sample(scale, way) * way
    for pair, share in zip(pairs, reversed(shares), strict=True):
        way = way + per_sample(share - pair.inverse * _dot(pair.change, way), way) * pair.step
    way = xp.where(stuck, xp.zeros_like(way), way)
    falls = _dot(way, slope) > 0
    return -xp.where(per_sample(falls, way), way, slope)


def _searched(evaluate: Evaluate, state: _State, way: Array, bounds: tuple[float, float]) -> tuple[_State, np.ndarray]:
    """Where the longest step leads after which the value has fallen enough, and for which samples there is one."""
    xp = namespace(state.at)
    open_, length, moved = np.arange(len(state.rows)), 1.0, state
    for _ in range(_HALVINGS):
        here, ahead = state.take(open_), take(way, open_)
        there = xp.clip(here.at + length * ahead, *bounds)
        value, gradient = evaluate(there, here.rows)
        promised = _dot(here.gradient, there - here.at)
        fell = to_numpy((value <= here.value + _ENOUGH * promised) & (promised < 0))
        if fell.any():
            done = np.flatnonzero(fell)
            moved = _put(moved, open_[done], _State(here.rows, there, value, gradient).take(done))
            open_ = open_[~fell]
        if not len(open_):
            break
        length /= 2
    return moved, ~np.isin(np.arange(len(state.rows)), open_)


def _put(state: _State, places: Rows, new: _State) -> _State:
    """The state with these samples' part replaced."""
    if len(places) == len(state.rows):
        return new
    xp = namespace(state.at)
    at, value, gradient = (xp.asarray(part, copy=True) for part in (state.at, state.value, state.gradient))
    at[places], value[places], gradient[places] = new.at, new.value, new.gradient
    return replace(state, at=at, value=value, gradient=gradient)


def _pair(before: _State, after: _State) -> _Pair:
    xp = namespace(before.at)
    step, change = after.at - before.at, after.gradient - before.gradient
    product = _dot(step, change)
    curves = product > _SMALL * (_dot(step, step) * _dot(change, change)) ** 0.5
    inverse = xp.where(curves, 1.0 / xp.where(curves, product, xp.ones_like(product)), xp.zeros_like(product))
    return _Pair(step, change, inverse)


def _dot(a: Array, b: Array) -> Array:
    """`(n,)` products of samples."""
    return namespace(a).sum((a * b).reshape(len(a), -1), axis=1)
