"""Square: random search with windows of pixels; it asks for logits only, never for a gradient."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, as_images, copy, flat, from_numpy, image_shape, namespace, per_sample, take
from ..contract.attack import Attack, at_least, attack, fraction
from ..problem import Problem
from ..search.black_box import scores


def window(
    height: int, width: int, tall: int, wide: int, down: NDArray[np.float64], across: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return `(n, 1, height, width)` bool, True for pixels inside each sample's window.

    Args:
        height, width: Of the image.
        tall, wide: Of the window.
        down, across: `(n,)` in [0, 1): where the window's first row and column lie.
    """
    rows, columns = _offsets(height, tall, down), _offsets(width, wide, across)
    # Viewed as unsigned, a negative offset is a large number: one comparison checks both ends.
    inside_rows, inside_columns = rows.view(np.uint64) < tall, columns.view(np.uint64) < wide
    return np.asarray((inside_rows[:, :, None] & inside_columns[:, None, :])[:, None], np.bool_)


def placed_window(
    height: int, width: int, tall: int, wide: int, down: NDArray[np.float64], across: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return the same, and each pixel's index within the window."""
    rows, columns = _offsets(height, tall, down), _offsets(width, wide, across)
    pixel = np.clip(rows, 0, tall - 1)[:, :, None] * wide + np.clip(columns, 0, wide - 1)[:, None, :]
    return window(height, width, tall, wide, down, across), pixel[:, None]


def _offsets(size: int, length: int, start: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return `(n, size)` distances of each row or column from the window's first."""
    first = (start * (size - length + 1)).astype(np.int64)
    return np.arange(size) - first[:, None]


@lru_cache(maxsize=256)
def bump(tall: int, wide: int) -> NDArray[np.float64]:
    """Return `(tall, wide)` values of length 1: two pyramids of opposite sign side by side.

    Reference:
        Andriushchenko et al. 2020, arXiv:1912.00049, section 3.3, the rule for its L2 attack.
    """
    if tall == 1 and wide == 1:
        return np.ones((1, 1))
    if tall == 1:
        return np.ascontiguousarray(bump(wide, 1).T)
    half = tall // 2
    both = np.concatenate([_pyramid(half, wide), -_pyramid(tall - half, wide)])
    return np.asarray(both / np.linalg.norm(both), np.float64)


def _pyramid(tall: int, wide: int) -> NDArray[np.float64]:
    """Return rings around the middle: each pixel sums 1 / (k + 1)^2 over the rings from its own outward."""
    filled = np.zeros((tall, wide))
    middle_row, middle_column = tall // 2, wide // 2
    for ring in range(max(middle_row, middle_column) + 1):
        rows = slice(max(middle_row - ring, 0), middle_row + ring + 1)
        columns = slice(max(middle_column - ring, 0), middle_column + ring + 1)
        filled[rows, columns] += 1.0 / (ring + 1) ** 2
    return np.asarray(filled / np.linalg.norm(filled), np.float64)


_CHUNK = 100  # steps whose random numbers are drawn at once: our choice
#: Steps, of 10,000, after which the share of pixels in a window has halved once more: the paper's section 5.
_HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
_ORDERS: Final = {"l2": 2, "l1": 1}
#: By how much changes in L1 are scaled beyond the budget before they are moved into it and the box together: our
#: choice. On a network for digits 1,000 queries left 54 % with 1, 19 % with 1.5 and 16 % with 3, APGD-CE left 17 %.
_BEYOND = 3.0


@attack(
    "square",
    norms=("linf", "l2", "l1"),
    reference="Andriushchenko et al. 2020, arXiv:1912.00049; in L1 Croce and Hein 2021, arXiv:2103.01208",
    asks="logits",
)
@dataclass(frozen=True)
class Square(Attack):
    """Random search: a window of the perturbation changes, and the change stays if the margin shrinks.

    In L2 and L1 a change moves the budget of one window into another. The last two axes of an input are taken as an
    image; a flat input is one row of pixels.

    Args:
        queries: Logits asked for at most, for each sample and start.
        restarts: Starts; later ones run only on samples that still resist.
        share: Of the pixels in the first windows; it shrinks on the paper's schedule.
    """

    queries: int = 5000
    restarts: int = 1
    share: float = 0.8

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "queries", "restarts")
        fraction(self, "share")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial candidate of each sample, else the best of the last start."""
        found, rows = copy(problem.x), problem.rows
        for restart in range(self.restarts):
            if len(rows):
                rows = self._walk(problem, found, rows, restart)
        return found

    def _walk(self, problem: Problem, found: Array, rows: Rows, restart: int) -> Rows:
        make_start, make_change = (_stripes, _flip_window) if self.norm == "linf" else (_bumps, _move_budget)
        best = problem.project(make_start(problem, rows, restart), rows)
        value, met = scores(problem, best, rows)
        draws: NDArray[np.float64] = np.zeros(0)
        numbers = 5 + image_shape(problem.x)[0]
        whole = rows  # the rows that the numbers were drawn for
        for step in range(self.queries - 1):
            if met.any():
                found[rows] = best
                going = np.flatnonzero(~met)
                rows, best, value = rows[going], take(best, going), value[going]
            if not len(rows):
                return rows
            if step % _CHUNK == 0:
                draws = problem.uniform(rows, (_CHUNK, numbers), restart, 2, step)
                whole = rows
            drawn = draws[np.searchsorted(whole, rows), step % _CHUNK]
            candidates = problem.project(make_change(problem, rows, best, self._pixels(step), drawn), rows)
            new_value, met = scores(problem, candidates, rows)
            taken = (new_value > value) | met
            value = np.where(taken, new_value, value)
            best = namespace(best).where(per_sample(from_numpy(taken, best), best), candidates, best)
        found[rows] = best
        return rows[~met]

    def _pixels(self, step: int) -> float:
        """Return the share of pixels in a window at this step."""
        at = step / self.queries * 10_000
        return self.share / 2.0 ** sum(at > after for after in _HALVED_AFTER)


def _stripes(problem: Problem, rows: Rows, restart: int) -> Array:
    """Return vertical stripes of the whole budget, one sign for each column and channel."""
    x = take(problem.x, rows)
    channels, _, width = image_shape(x)
    signs = np.where(problem.uniform(rows, (channels, 1, width), restart, 1) < 0.5, -1.0, 1.0)
    return (as_images(x) + problem.budget(rows).reshape(-1, 1, 1, 1) * problem.native(signs)).reshape(x.shape)


def _flip_window(problem: Problem, rows: Rows, best: Array, share: float, drawn: NDArray[np.float64]) -> Array:
    """Return the best candidates with a square window at the edge of the budget, one sign for each channel."""
    x = take(problem.x, rows)
    channels, height, width = image_shape(x)
    tall, wide = _size(share, height, width, 1)
    mask = window(height, width, tall, wide, drawn[:, 0], drawn[:, 1])
    signs = problem.native(np.where(drawn[:, 5 : 5 + channels] < 0.5, -1.0, 1.0))[:, :, None, None]
    edge = as_images(x) + problem.budget(rows).reshape(-1, 1, 1, 1) * signs
    return namespace(x).where(from_numpy(mask, x), edge, as_images(best)).reshape(x.shape)


def _bumps(problem: Problem, rows: Rows, restart: int) -> Array:
    """Return a tiling of bumps, one sign for each tile and channel, scaled to the whole budget."""
    x = take(problem.x, rows)
    channels, height, width = image_shape(x)
    tall, wide = max(height // 5, 1), max(width // 5, 1)
    down, across = height // tall, width // wide
    signs = np.where(problem.uniform(rows, (channels, down, across), restart, 1) < 0.5, -1.0, 1.0)
    tiles = np.zeros((len(rows), channels, height, width))
    filled = np.kron(signs, np.ones((1, 1, tall, wide))) * np.tile(bump(tall, wide), (down, across))
    top, left = (height - down * tall) // 2, (width - across * wide) // 2
    tiles[:, :, top : top + down * tall, left : left + across * wide] = filled
    change = problem.native(tiles).reshape(x.shape)
    return x + _scale_to_budget(problem, rows, change)


def _move_budget(problem: Problem, rows: Rows, best: Array, share: float, drawn: NDArray[np.float64]) -> Array:
    """Move the budget of one window into a bump in another.

    Reference:
        Andriushchenko et al. 2020, arXiv:1912.00049, algorithm 3.
    """
    x = take(problem.x, rows)
    xp = namespace(x)
    channels, height, width = image_shape(x)
    tall, wide = _size(share, height, width, 3)
    here, pixel = placed_window(height, width, tall, wide, drawn[:, 0], drawn[:, 1])
    there = window(height, width, tall, wide, drawn[:, 2], drawn[:, 3])
    into, both = (problem.native(mask.astype(np.float64)) for mask in (here, here | there))
    change = as_images(best - x)
    shape = bump(tall, wide)
    turned = shape if tall != wide else shape.T
    filled = np.where(drawn[:, 4, None, None, None] < 0.5, shape.ravel()[pixel], turned.ravel()[pixel])
    signs = problem.native(np.where(drawn[:, 5 : 5 + channels] < 0.5, -1.0, 1.0))[:, :, None, None]
    order = _ORDERS[problem.distance.name]
    old = change * into
    fresh = problem.native(filled) * into * signs + old / (_length(old, order) + 1e-12)
    budget = problem.budget(rows).reshape(-1, 1, 1, 1)
    spent = xp.sum(xp.abs(flat(change)) ** order, axis=1)[:, None, None, None]
    unused = xp.clip(budget**order - spent, 0.0, None) / channels
    allowed = (unused + _length(change * both, order) ** order) ** (1 / order)
    moved = change * (1 - both) + fresh / (_length(fresh, order) + 1e-12) * allowed
    return x + _scale_to_budget(problem, rows, moved.reshape(x.shape))


def _scale_to_budget(problem: Problem, rows: Rows, change: Array) -> Array:
    """Scale the change to the whole budget; in L1 beyond it, as the box cuts most of what few pixels change."""
    order = _ORDERS[problem.distance.name]
    if order == 2:
        return problem.budget(rows) * problem.distance.steepest(change)
    length = problem.distance.measure(0 * change, change)
    return change * (_BEYOND * problem.budget(rows) / per_sample(problem.native(np.maximum(length, 1e-30)), change))


def _length(change: Array, order: int) -> Array:
    """Return the length of each channel in the norm of that order, `(n, channels, 1, 1)`."""
    xp = namespace(change)
    return xp.sum(xp.abs(change) ** order, axis=(2, 3), keepdims=True) ** (1 / order)


def _size(share: float, height: int, width: int, smallest: int) -> tuple[int, int]:
    """Return height and width of a window with this share of the pixels."""
    if min(height, width) == 1:
        return (
            (1, min(max(round(share * width), smallest), width))
            if height == 1
            else (
                min(max(round(share * height), smallest), height),
                1,
            )
        )
    side = max(round(math.sqrt(share * height * width)), smallest)
    return min(side, height), min(side, width)
