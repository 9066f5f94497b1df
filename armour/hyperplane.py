"""The smallest change of an input, inside the box, that reaches a hyperplane: exact, by sorting, in L1, L2 and Linf.

The change of element `i` goes in the direction of the normal `w`, by `min(rate * speed_i, room_i)`: `speed` is 1 in
Linf and `|w|` in L2, `room` is how far the box lets it go, and what is gained on the way, `|w_i|` times the change,
grows with the rate until it reaches the gap. In L1 elements are used up to their room, the steepest first.

Reference:
    Hein and Andriushchenko 2017, arXiv:1705.08475, section 4; Croce and Hein 2020, arXiv:1907.02044, section 2.2.
"""

from .arrays import Array, as_float64, cast, namespace
from .distances import Norm
from .rows import flat


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
    """Sizes `min(rate * speed, room)` with the smallest rate that gains what is wanted."""
    xp = namespace(weight)
    one, zero = xp.ones_like(weight), xp.zeros_like(weight)
    moves = weight > 0
    speed = xp.where(moves, one, zero) if norm == "linf" else weight
    full_at = xp.where(moves, room / xp.where(moves, speed, one), zero)  # the rate at which an element meets the box
    order = xp.argsort(full_at, axis=1)
    rates = xp.take_along_axis(full_at, order, axis=1)
    stopped = xp.cumulative_sum(xp.take_along_axis(weight * room, order, axis=1), axis=1)
    pace = xp.take_along_axis(weight * speed, order, axis=1)
    moving = xp.sum(pace, axis=1, keepdims=True) - xp.cumulative_sum(pace, axis=1)
    gained = stopped + rates * moving  # by the time that each element, in this order, meets the box
    width = weight.shape[1]
    place = xp.sum(xp.astype(gained < wanted[:, None], xp.int64), axis=1)[:, None]
    out_of_reach = place >= width
    place = xp.clip(place, 0, width - 1)
    before = xp.clip(place - 1, 0, width - 1)
    first = place == 0
    base = xp.where(first, zero[:, :1], xp.take_along_axis(stopped, before, axis=1))
    left = xp.where(first, xp.sum(pace, axis=1, keepdims=True), xp.take_along_axis(moving, before, axis=1))
    rate = (wanted[:, None] - base) / xp.where(left > 0, left, one[:, :1])
    rate = xp.where(out_of_reach | (left <= 0), xp.max(rates, axis=1, keepdims=True), rate)
    return xp.minimum(rate * speed, room)


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
