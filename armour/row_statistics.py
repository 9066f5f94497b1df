"""Distances and divergences of rows of numbers, for detectors, drift tests and metrics."""

import numpy as np

from .array_api import Floats


def pairwise_distances(a: Floats, b: Floats) -> Floats:
    """Return `(n, m)` Euclidean distances of rows `(n, d)` and `(m, d)`."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    close = squares < 1e-9 * ((a**2).sum(axis=1)[:, None] + 1e-300)  # cancelled: measured again, exactly
    for i, j in zip(*np.nonzero(close), strict=True):
        squares[i, j] = np.sum((a[i] - b[j]) ** 2)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)), np.float64)


def jensen_shannon(p: Floats, q: Floats) -> Floats:
    """Return `(n,)` divergences, 0 to log 2, of rows of probabilities `(n, classes)`."""
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        halves = [np.where(rows > 0, rows * np.log(rows / middle), 0.0).sum(axis=1) / 2 for rows in (p, q)]
    return np.asarray(halves[0] + halves[1], np.float64)
