"""The smallest steps onto a linearised decision boundary, inside the box, computed exactly."""

from collections.abc import Callable
from typing import NamedTuple

from ..array_api import Array, as_float64, cast, flat, namespace
from . import Norm


def step_to_hyperplane(norm: Norm, x: Array, normal: Array, gap: Array, bounds: tuple[float, float]) -> Array:
    """Return the smallest change with `normal · change = gap` that stays inside the box.

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
    zeros = xp.zeros_like(slope)
    room = xp.where(slope > 0, bounds[1] - start, xp.where(slope < 0, start - bounds[0], zeros))
    wanted = xp.abs(as_float64(gap))
    weight = xp.abs(slope)
    size = _greedy(weight, room, wanted) if norm == "l1" else _waterline(weight, room, wanted, norm)
    return cast(xp.sign(slope) * size, x).reshape(x.shape)


def dual_length(norm: Norm, normal: Array) -> Array:
    """Return `(n,)` how much of a gap one unit of change in `norm` closes."""
    xp, rows = namespace(normal), flat(normal)
    if norm == "linf":
        return xp.sum(xp.abs(rows), axis=1)
    if norm == "l2":
        return xp.sqrt(xp.sum(rows * rows, axis=1))
    return xp.max(xp.abs(rows), axis=1)


def _waterline(weight: Array, room: Array, wanted: Array, norm: Norm) -> Array:
    """Return sizes `min(rate * speed, room)` with the smallest rate that closes the gap.

    The gain is a concave, piecewise linear function of the rate, so Newton's method from 0 rises to the answer and
    meets it exactly, once it knows which elements are at the box: four to six rounds instead of sorting all of them.
    """
    xp = namespace(weight)
    ones, zeros = xp.ones_like(weight), xp.zeros_like(weight)
    moves = weight > 0
    speed = xp.where(moves, ones, zeros) if norm == "linf" else weight
    full_at = xp.where(moves, room / xp.where(moves, speed, ones), zeros)  # the rate at which an element meets the box
    gains, paces, last = weight * room, weight * speed, xp.max(full_at, axis=1)
    rate = zeros[:, 0]
    for _ in range(weight.shape[1] + 1):
        full = full_at <= rate[:, None]
        pace = xp.sum(xp.where(full, zeros, paces), axis=1)
        missing = wanted - xp.sum(xp.where(full, gains, zeros), axis=1)
        ahead = xp.where(pace > 0, missing / xp.where(pace > 0, pace, ones[:, 0]), last)
        if not bool(xp.any(ahead > rate)):
            break
        rate = xp.where(ahead > rate, ahead, rate)
    return xp.minimum(rate[:, None] * speed, room)


def _greedy(weight: Array, room: Array, wanted: Array) -> Array:
    """Use elements up to their room, the largest weight first, until the gap is closed."""
    xp = namespace(weight)
    order = xp.argsort(weight, axis=1, descending=True, stable=True)
    gain = xp.take_along_axis(weight * room, order, axis=1)
    missing = wanted[:, None] - (xp.cumulative_sum(gain, axis=1) - gain)
    used = xp.minimum(xp.clip(missing, 0.0, None), gain)
    back = xp.argsort(order, axis=1, stable=True)
    used = xp.take_along_axis(used, back, axis=1)
    return xp.where(weight > 0, used / xp.where(weight > 0, weight, xp.ones_like(weight)), xp.zeros_like(weight))


_OUTER = 16  # halvings of the share, or of the cube: a part in 65,000
_INNER = 40  # Newton steps and halvings for the multiplier at most; rarely more than six


class _Trial(NamedTuple):
    """The step tried for each row, and whether it keeps plane and sphere."""

    change: Array
    fits: Array


def trust_step(
    norm: Norm, x: Array, at: Array, normal: Array, gap: Array, radius: Array, bounds: tuple[float, float]
) -> Array:
    """Return the change of `at` after which it is nearest to `x`, with `normal · change = gap`.

    Where the sphere does not reach the plane, the change goes as near to it as the sphere allows.

    Args:
        norm: `l2` or `linf`.
        x, at, normal: `(n, ...)`.
        gap, radius: `(n,)`; the radius is that of the sphere, in L2.

    Returns:
        `(n, ...)` in the dtype of `at`.
    """
    xp = namespace(at)
    here, slope = as_float64(flat(at)), as_float64(flat(normal))
    to_input, goal, reach = as_float64(flat(x)) - here, as_float64(gap), as_float64(radius)
    low, high = bounds[0] - here, bounds[1] - here

    def nearest(share: Array) -> _Trial:
        change = _onto_plane(share[:, None] * to_input, slope, goal, low, high)
        return _Trial(change, _length(change) <= reach)

    size = xp.max(xp.abs(to_input), axis=1)

    def smallest(share: Array) -> _Trial:
        cube = ((1.0 - share) * (size + reach))[:, None]
        change = _onto_plane(
            xp.zeros_like(to_input), slope, goal, xp.maximum(low, to_input - cube), xp.minimum(high, to_input + cube)
        )
        missed = xp.abs(goal - xp.sum(slope * change, axis=1))
        return _Trial(change, (missed <= 1e-9 * (1 + xp.abs(goal))) & (_length(change) <= reach))

    change = _largest_share(nearest if norm == "l2" else smallest, goal)
    length = _length(change)
    shrink = xp.where(length > reach, reach / xp.where(length > 0, length, 1.0), 1.0)
    return cast(change * shrink[:, None], at).reshape(at.shape)


def _largest_share(attempt: Callable[[Array], _Trial], like: Array) -> Array:
    """Return the steps of the largest shares that fit, those of share 0 where none does."""
    xp = namespace(like)
    low, high = xp.zeros_like(like), xp.ones_like(like)
    whole = attempt(high)
    if bool(xp.all(whole.fits)):
        return whole.change
    best = xp.where(whole.fits[:, None], whole.change, attempt(low).change)
    low = xp.where(whole.fits, high, low)
    for _ in range(_OUTER):
        middle = (low + high) / 2
        trial = attempt(middle)
        best = xp.where(trial.fits[:, None], trial.change, best)
        low, high = xp.where(trial.fits, middle, low), xp.where(trial.fits, high, middle)
    return best


def _onto_plane(start: Array, slope: Array, goal: Array, low: Array, high: Array) -> Array:
    """`clip(start + m slope, low, high)` with the `m` for which its product with `slope` is the goal, or comes nearest.

    The product rises with `m` and is linear between few bends: Newton's method, kept inside a bracket.
    """
    xp = namespace(start)
    steep = xp.where(slope == 0, xp.ones_like(slope), slope)
    below, above, zeros = (low - start) / steep, (high - start) / steep, xp.zeros_like(start)
    left = xp.min(xp.where(slope == 0, zeros, xp.minimum(below, above)), axis=1)
    right = xp.max(xp.where(slope == 0, zeros, xp.maximum(below, above)), axis=1)
    upper, lower = xp.where(slope > 0, high, low), xp.where(slope > 0, low, high)
    too_high, too_low = goal >= xp.sum(slope * upper, axis=1), goal <= xp.sum(slope * lower, axis=1)
    at = xp.minimum(xp.maximum(xp.zeros_like(goal), left), right)
    for _ in range(_INNER):
        free = start + at[:, None] * slope
        change = xp.minimum(xp.maximum(free, low), high)
        missing = goal - xp.sum(slope * change, axis=1)
        left, right = xp.where(missing > 0, at, left), xp.where(missing < 0, at, right)
        pace = xp.sum(xp.where((free > low) & (free < high), slope * slope, zeros), axis=1)
        ahead = at + missing / xp.where(pace > 0, pace, 1.0)
        inside = (pace > 0) & (ahead >= left) & (ahead <= right)
        ahead = xp.where(inside, ahead, (left + right) / 2)
        if bool(xp.all((xp.abs(missing) <= 1e-12 * (1 + xp.abs(goal))) | (ahead == at) | too_high | too_low)):
            break
        at = ahead
    still = xp.minimum(xp.maximum(start, low), high)
    upper, lower = xp.where(slope == 0, still, upper), xp.where(slope == 0, still, lower)
    return xp.where(too_high[:, None], upper, xp.where(too_low[:, None], lower, change))


def _length(change: Array) -> Array:
    xp = namespace(change)
    return xp.sqrt(xp.sum(change * change, axis=1))
