"""The smallest change of an input, inside the box, that reaches a hyperplane: exact in L1, L2 and Linf.

The change of element `i` goes in the direction of the normal `w`, by `min(rate * speed_i, room_i)`: `speed` is 1 in
Linf and `|w|` in L2, `room` is how far the box lets it go, and what is gained on the way, `|w_i|` times the change,
grows with the rate until it reaches the gap. In L1 elements are used up to their room, the steepest first.

Reference:
    Hein and Andriushchenko 2017, arXiv:1705.08475, section 4; Croce and Hein 2020, arXiv:1907.02044, section 2.2.
"""

from ..arrays import Array, as_float64, cast, namespace
from ..arrays.rows import flat
from . import Norm


def step_to_hyperplane(norm: Norm, x: Array, normal: Array, gap: Array, bounds: tuple[float, float]) -> Array:
    """The smallest change with `normal · change = gap` that stays inside the box.

    Where the box does not reach the hyperplane, the change goes to the corner that comes nearest to it.

    Args:
        norm: `l1`, `l2` or `linf`.
        x: `(n, ...)` inside the box.
        normal: `(n, ...)`.
        gap: `(n,)`, of any sign.

    Returns:
        `(n, ...)` in the dtype of `x`.
    """
    xp = namespace(x)
    start, slope = as_float64(flat(x)), as_float64(flat(normal))
    slope = xp.where((as_float64(gap) < 0)[:, None], -slope, slope)
    zero = xp.zeros_like(slope)
    room = xp.where(slope > 0, bounds[1] - start, xp.where(slope < 0, start - bounds[0], zero))
    wanted = xp.abs(as_float64(gap))
    weight = xp.abs(slope)
    size = _greedy(weight, room, wanted) if norm == "l1" else _waterline(weight, room, wanted, norm)
    return cast(xp.sign(slope) * size, x).reshape(x.shape)


def dual_length(norm: Norm, normal: Array) -> Array:
    """`(n,)` how much of a gap one unit of change in `norm` closes."""
    xp, rows = namespace(normal), flat(normal)
    if norm == "linf":
        return xp.sum(xp.abs(rows), axis=1)
    if norm == "l2":
        return xp.sqrt(xp.sum(rows * rows, axis=1))
    return xp.max(xp.abs(rows), axis=1)


def _waterline(weight: Array, room: Array, wanted: Array, norm: Norm) -> Array:
    """Sizes `min(rate * speed, room)` with the smallest rate that gains what is wanted.

    The gain is a concave, piecewise linear function of the rate, so Newton's method from 0 rises to the answer and
    meets it exactly, once it knows which elements are at the box: four to six rounds instead of sorting all of them.
    """
    xp = namespace(weight)
    one, zero = xp.ones_like(weight), xp.zeros_like(weight)
    moves = weight > 0
    speed = xp.where(moves, one, zero) if norm == "linf" else weight
    full_at = xp.where(moves, room / xp.where(moves, speed, one), zero)  # the rate at which an element meets the box
    gains, paces, last = weight * room, weight * speed, xp.max(full_at, axis=1)
    rate = zero[:, 0]
    for _ in range(weight.shape[1] + 1):
        full = full_at <= rate[:, None]
        pace = xp.sum(xp.where(full, zero, paces), axis=1)
        missing = wanted - xp.sum(xp.where(full, gains, zero), axis=1)
        ahead = xp.where(pace > 0, missing / xp.where(pace > 0, pace, one[:, 0]), last)
        if not bool(xp.any(ahead > rate)):
            break
        rate = xp.where(ahead > rate, ahead, rate)
    return xp.minimum(rate[:, None] * speed, room)


def _greedy(weight: Array, room: Array, wanted: Array) -> Array:
    """Elements used up to their room, the largest weight first, until the gain is reached."""
    xp = namespace(weight)
    order = xp.argsort(weight, axis=1, descending=True, stable=True)
    gain = xp.take_along_axis(weight * room, order, axis=1)
    missing = wanted[:, None] - (xp.cumulative_sum(gain, axis=1) - gain)
    used = xp.minimum(xp.clip(missing, 0.0, None), gain)
    back = xp.argsort(order, axis=1, stable=True)
    used = xp.take_along_axis(used, back, axis=1)
    return xp.where(weight > 0, used / xp.where(weight > 0, weight, xp.ones_like(weight)), xp.zeros_like(weight))
