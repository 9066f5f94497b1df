"""Takes the size of a tensor out of the statistics that grow with it, so that a smaller batch does not look unusual."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import Matrix, metric_name, split_metric
from .reader import Reader

#: The power of the number of elements with which a statistic of like elements grows.
GROWTH: Final = {"l2_norm": 0.5, "zeros": 1.0, "sum": 1.0}


def at_equal_size(
    reader: Reader, run: str, matrix: Matrix, *, first: int | None = None, last: int | None = None, maps: int = 1
) -> Matrix:
    """Return the matrix as it would be if every tensor always had its usual number of elements.

    Unchanged where the statistic does not grow with the size, the size was not recorded, or never changes.

    Args:
        matrix: Read with the same `first`, `last` and `maps`.
    """
    subject, statistic = split_metric(matrix.metric)
    size = metric_name(subject, "size")
    if statistic not in GROWTH or size not in reader.all_metrics(run):
        return matrix
    return divided_by_size(matrix, reader.matrix(run, size, first=first, last=last, maps=maps), GROWTH[statistic])


def divided_by_size(matrix: Matrix, sizes: Matrix, power: float) -> Matrix:
    """Divide each value by how its tensor's size compares with the row's median size, to that power.

    In a column of several steps the smallest value is taken to be that of the smallest tensor, and the largest that of
    the largest.

    Args:
        sizes: Numbers of elements, of the same sites and steps; of others it leaves the matrix as it is.
    """
    is_same = sizes.sites == matrix.sites and np.array_equal(sizes.steps, matrix.steps)
    there = np.where(sizes.high > 0, sizes.high, np.nan)
    has_any = np.isfinite(there).any(axis=1)
    if not is_same or not has_any.any():
        return matrix
    usual = np.ones((len(there), 1))
    usual[has_any, 0] = np.nanmedian(there[has_any], axis=1)
    low, high = (_ratios(edge, usual) ** power for edge in (sizes.low, sizes.high))
    return replace(matrix, low=matrix.low / low, high=matrix.high / high)


def _ratios(sizes: NDArray[np.float64], usual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sizes in usual sizes; 1 where none was recorded."""
    with np.errstate(invalid="ignore"):
        ratios: NDArray[np.float64] = np.where(sizes > 0, sizes / usual, 1.0)
    return ratios
