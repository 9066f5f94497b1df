"""The step along a linearised boundary that comes nearest to an input, inside the box and a small sphere: exact.

With `a` the way to the input, `b` the normal and `s` a share from 0 to 1, the shortest L2 distance is reached by
`d = clip(s a + m b)`, the clip being the box: `m` puts `b d` on the boundary, and `s` is the largest share for which
`d` stays inside the sphere. In Linf `d = clip(m b)`, and the clip is the box cut by a cube around the input, the
smallest one in which such a step exists.

Reference:
    Brendel et al. 2019, arXiv:1907.01003, section 3 and appendix; the two nested searches are ours.
"""

from collections.abc import Callable
from typing import NamedTuple

from ..arrays import Array, as_float64, cast, namespace
from ..arrays.rows import flat
from . import Norm

_OUTER = 16  # halvings of the share, or of the cube: a part in 65,000
_INNER = 40  # Newton steps and halvings for the multiplier at most; seldom more than six


class _Trial(NamedTuple):
    """Steps tried for each row, and for which of them plane and sphere are kept."""

    change: Array
    fits: Array


def trust_step(
    norm: Norm, x: Array, at: Array, normal: Array, gap: Array, radius: Array, bounds: tuple[float, float]
) -> Array:
    """The change of `at` after which it is nearest to `x`, with `normal · change = gap`.

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
    way, goal, reach = as_float64(flat(x)) - here, as_float64(gap), as_float64(radius)
    low, high = bounds[0] - here, bounds[1] - here

    def nearest(share: Array) -> _Trial:
        change = _onto_plane(share[:, None] * way, slope, goal, low, high)
        return _Trial(change, _length(change) <= reach)

    size = xp.max(xp.abs(way), axis=1)

    def smallest(share: Array) -> _Trial:
        cube = ((1.0 - share) * (size + reach))[:, None]
        change = _onto_plane(xp.zeros_like(way), slope, goal, xp.maximum(low, way - cube), xp.minimum(high, way + cube))
        missed = xp.abs(goal - xp.sum(slope * change, axis=1))
        return _Trial(change, (missed <= 1e-9 * (1 + xp.abs(goal))) & (_length(change) <= reach))

    change = _largest_share(nearest if norm == "l2" else smallest, goal)
    length = _length(change)
    shrink = xp.where(length > reach, reach / xp.where(length > 0, length, 1.0), 1.0)
    return cast(change * shrink[:, None], at).reshape(at.shape)


def _largest_share(attempt: Callable[[Array], _Trial], like: Array) -> Array:
    """The steps of the largest shares that fit, those of share 0 where none does."""
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
    below, above, none = (low - start) / steep, (high - start) / steep, xp.zeros_like(start)
    left = xp.min(xp.where(slope == 0, none, xp.minimum(below, above)), axis=1)
    right = xp.max(xp.where(slope == 0, none, xp.maximum(below, above)), axis=1)
    upper, lower = xp.where(slope > 0, high, low), xp.where(slope > 0, low, high)
    too_high, too_low = goal >= xp.sum(slope * upper, axis=1), goal <= xp.sum(slope * lower, axis=1)
    at = xp.minimum(xp.maximum(xp.zeros_like(goal), left), right)
    for _ in range(_INNER):
        free = start + at[:, None] * slope
        change = xp.minimum(xp.maximum(free, low), high)
        missing = goal - xp.sum(slope * change, axis=1)
        left, right = xp.where(missing > 0, at, left), xp.where(missing < 0, at, right)
        pace = xp.sum(xp.where((free > low) & (free < high), slope * slope, none), axis=1)
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
