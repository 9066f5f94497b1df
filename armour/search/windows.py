"""Windows of pixels at random places, and the bump that fills them: the moves of the Square attack."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def window(
    height: int, width: int, tall: int, wide: int, down: NDArray[np.float64], across: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """One window for each sample.

    Args:
        height, width: Of the picture.
        tall, wide: Of the window.
        down, across: `(n,)` in [0, 1): where the window's first row and column lie.

    Returns:
        `(n, 1, height, width)` whether a pixel is in the window, and the number of the window's pixel that it is.
    """
    top = np.floor(down * (height - tall + 1)).astype(np.int64)
    left = np.floor(across * (width - wide + 1)).astype(np.int64)
    rows = np.arange(height)[None, :] - top[:, None]
    columns = np.arange(width)[None, :] - left[:, None]
    inside_rows, inside_columns = (rows >= 0) & (rows < tall), (columns >= 0) & (columns < wide)
    mask = inside_rows[:, :, None] & inside_columns[:, None, :]
    place = np.clip(rows, 0, tall - 1)[:, :, None] * wide + np.clip(columns, 0, wide - 1)[:, None, :]
    return mask[:, None], place[:, None]


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
