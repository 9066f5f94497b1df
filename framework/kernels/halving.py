"""Maximum pooling by windows of two by two that do not overlap: the usual case, without a branch and in vectors."""

from numba import njit

from ..tensor import Array
from .exponential import JIT


@njit(**JIT)
def max_pool_halves(x: Array, out: Array, places: Array) -> None:
    """The largest of each four elements of `x` (planes, height, width), and its place in its plane; NaN wins."""
    planes, rows, columns = out.shape
    width = x.shape[2]
    for p in range(planes):
        for h in range(rows):
            upper, lower = x[p, 2 * h], x[p, 2 * h + 1]
            values, where = out[p, h], places[p, h]
            start = 2 * h * width
            for w in range(columns):
                a, b, c, d = upper[2 * w], upper[2 * w + 1], lower[2 * w], lower[2 * w + 1]
                best, place = a, 0
                wins = (b > best) | (b != b)
                best, place = (b, 1) if wins else (best, place)
                wins = (c > best) | (c != c)
                best, place = (c, width) if wins else (best, place)
                wins = (d > best) | (d != d)
                best, place = (d, width + 1) if wins else (best, place)
                values[w] = best
                where[w] = start + 2 * w + place
