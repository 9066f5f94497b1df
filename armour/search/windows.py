"""Windows of pixels at random places, and the bump that fills them: the moves of the Square attack."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def window(
    height: int, width: int, tall: int, wide: int, down: NDArray[np.float64], across: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """`(n, 1, height, width)` whether a pixel is in the window, one for each sample.

    Args:
        height, width: Of the picture.
        tall, wide: Of the window.
        down, across: `(n,)` in [0, 1): where the window's first row and column lie.
    """
    rows, columns = _offsets(height, tall, down), _offsets(width, wide, across)
    # A negative offset is a large number without its sign, so one comparison says both ends.
    inside_rows, inside_columns = rows.view(np.uint64) < tall, columns.view(np.uint64) < wide
    return np.asarray((inside_rows[:, :, None] & inside_columns[:, None, :])[:, None], np.bool_)


def placed_window(
    height: int, width: int, tall: int, wide: int, down: NDArray[np.float64], across: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The same, and the number of the window's pixel that each pixel in it is."""
    rows, columns = _offsets(height, tall, down), _offsets(width, wide, across)
    place = np.clip(rows, 0, tall - 1)[:, :, None] * wide + np.clip(columns, 0, wide - 1)[:, None, :]
    return window(height, width, tall, wide, down, across), place[:, None]


def _offsets(size: int, length: int, start: NDArray[np.float64]) -> NDArray[np.int64]:
    """`(n, size)` how far each row or column is from the window's first."""
    first = (start * (size - length + 1)).astype(np.int64)
    return np.arange(size) - first[:, None]


@lru_cache(maxsize=256)
def bump(tall: int, wide: int) -> NDArray[np.float64]:
    """`(tall, wide)` of length 1: two pyramids of opposite sign, one beside the other.

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
    """Rings around the middle: each pixel is the sum of 1 / (k + 1)^2 over the rings from its own outward."""
    filled = np.zeros((tall, wide))
    middle_row, middle_column = tall // 2, wide // 2
    for ring in range(max(middle_row, middle_column) + 1):
        rows = slice(max(middle_row - ring, 0), middle_row + ring + 1)
        columns = slice(max(middle_column - ring, 0), middle_column + ring + 1)
        filled[rows, columns] += 1.0 / (ring + 1) ** 2
    return np.asarray(filled / np.linalg.norm(filled), np.float64)
