"""Explanations that only ask for scores: the input with a part of it covered, one after the other or at random."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .contract import Floats, Score, scores, space_of
from .resize import resize

__all__ = ["occlusion", "rise"]

#: Masks of RISE that are held at a time.
_AT_ONCE = 64


def occlusion(score: Score, x: NDArray[Any], *, window: int = 4, stride: int = 2, baseline: ArrayLike = 0.0) -> Floats:
    """By how much the score falls when the places around are covered, the mean over all windows that cover a place.

    Args:
        x: A vector, a matrix, or `(channels, height, width)`, whose channels are covered together.
        window: Side of the window.
        stride: How far it moves at a time; at most the window, so that no place is left out.
        baseline: What covers, broadcast to the shape of `x`.

    Returns:
        The space of `x`: its shape without channels.

    Raises:
        ValueError: The stride would leave gaps.

    Reference:
        Zeiler and Fergus 2014, arXiv:1311.2901, section 4.2.
    """
    if not 1 <= stride <= window:
        raise ValueError(f"stride expects 1 to the window's {window}, got {stride}")
    at = np.asarray(x, np.float64)
    cover = np.broadcast_to(np.asarray(baseline, np.float64), at.shape)
    space = space_of(at.shape)
    places = list(product(*(_starts(size, window, stride) for size in space)))
    covered = np.empty((len(places), *at.shape))
    fall, count = np.zeros(space), np.zeros(space)
    windows = [tuple(slice(start, start + window) for start in place) for place in places]
    for number, where in enumerate(windows):
        hidden = np.zeros(space, np.bool_)
        hidden[where] = True
        covered[number] = np.where(hidden, cover, at)
    falls = scores(score, at[None])[0] - scores(score, covered)
    for where, drop in zip(windows, falls.tolist(), strict=True):
        fall[where] += drop
        count[where] += 1.0
    return fall / count


def _starts(size: int, window: int, stride: int) -> list[int]:
    last = max(size - window, 0)
    return sorted({*range(0, last + 1, stride), last})


def rise(
    score: Score,
    x: NDArray[Any],
    *,
    masks: int = 2000,
    cells: int = 7,
    keep: float = 0.5,
    baseline: ArrayLike = 0.0,
    seed: int = 0,
) -> Floats:
    """The mean score over random masks under which a place was seen.

    Args:
        masks: How many; the error falls with their root. The paper takes 4000 to 8000 for 224 x 224 photographs.
        cells: Of the coarse grid that masks are drawn on, an axis; smooth between and shifted at random.
        keep: Probability that a cell is seen.
        baseline: What stands in for what is not, broadcast to the shape of `x`.

    Returns:
        The space of `x`, in units of the score.

    Reference:
        Petsiuk et al. 2018, arXiv:1806.07421, eq. 6.
    """
    at = np.asarray(x, np.float64)
    cover = np.broadcast_to(np.asarray(baseline, np.float64), at.shape)
    space = space_of(at.shape)
    rng = np.random.default_rng(seed)
    total = np.zeros(space)
    for start in range(0, masks, _AT_ONCE):
        drawn = np.stack([_mask(space, cells, keep, rng) for _ in range(min(_AT_ONCE, masks - start))])
        seen = drawn.reshape(len(drawn), *(1,) * (at.ndim - len(space)), *space)
        total += np.tensordot(scores(score, cover + seen * (at - cover)), drawn, axes=1)
    return total / (masks * keep)


def _mask(space: tuple[int, ...], cells: int, keep: float, rng: np.random.Generator) -> Floats:
    """`space`, 0 to 1: a coarse grid of kept cells, drawn large and cut out at a random shift."""
    counts = [min(cells, size) for size in space]
    steps = [-(-size // count) for size, count in zip(space, counts, strict=True)]
    grid = (rng.random([count + 1 for count in counts]) < keep).astype(np.float64)
    large = resize(grid, tuple((count + 1) * step for count, step in zip(counts, steps, strict=True)))
    shifts = [int(rng.integers(0, step)) for step in steps]
    found: Floats = large[tuple(slice(shift, shift + size) for shift, size in zip(shifts, space, strict=True))]
    return found
