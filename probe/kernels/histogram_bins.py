"""Histograms: an array's values counted between equal edges, or by their magnitude, an octave a bin, in one pass."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .array_table import readable
from .machine_code import Kernel
from .raw_memory import Ints

__all__ = ["count_octaves", "octaves_between"]


_count_values: Final = Kernel("counting", "count_values", "v", "qqqddqq")
_count_octaves: Final = Kernel("counting", "count_octaves", "v", "qqqqqq")


def count_values(address: int, size: int, code: int, low: float, high: float, counts: Ints) -> None:
    """Add the finite values of one array to equal bins between `low` and `high`.

    Args:
        address, size, code: The array, as `measure` takes it.
        counts: `(bins,)` int64, added to.
    """
    _count_values(int(address), int(size), int(code), low, high, counts.ctypes.data, counts.size)


def histogram_of(
    array: NDArray[np.generic], low: float, high: float, *, bins: int = 64
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return `(bins + 1,)` edges from `low` to `high`, and the `(bins,)` counts of the finite values between them.

    A range without width is widened to one around its value, so that a constant array has a histogram too.
    """
    data, code = readable(array)
    edges = edges_between(low, high, bins)
    counts = np.zeros(bins, np.int64)
    count_values(data.ctypes.data, data.size, code, edges[0], edges[-1], counts)
    return edges, counts


def edges_between(low: float, high: float, bins: int) -> NDArray[np.float64]:
    """Return `(bins + 1,)` equal edges from `low` to `high`, widened where they coincide."""
    if not high - low > abs(low) * 1e-12:
        half = max(abs(low) * 0.5, 0.5)
        low, high = low - half, high + half
    return np.linspace(low, high, bins + 1)


def count_octaves(address: int, size: int, code: int, top: int, counts: Ints) -> None:
    """Add the finite values of one array to the bins that `octaves_between` gives.

    A value on an edge belongs to the bin that is farther from zero; zero belongs to the positive ones.

    Args:
        address, size, code: The array, as `measure` takes it.
        top: The outermost edges are plus and minus two to this power.
        counts: `(bins,)` int64, bins even; added to.
    """
    _count_octaves(int(address), int(size), int(code), top, counts.ctypes.data, counts.size)


def octaves_between(low: float, high: float, bins: int) -> tuple[NDArray[np.float64], int]:
    """Return `(bins + 1,)` edges that halve from the outermost power of two to zero on either side, and that power.

    The edges of two arrays are the same but for whole octaves, so that histograms of many steps can be laid together.

    Args:
        low, high: The ends of the finite values.
        bins: Even; half of them for each sign, the innermost of which reaches to zero.
    """
    largest = max(abs(low), abs(high))
    top = math.frexp(largest)[1] if largest > 0.0 else 0
    if largest == math.ldexp(0.5, top):  # a power of two is an edge itself
        top -= 1
    top = max(top, bins // 2 - 1022)  # no edge is smaller than the smallest normal float64
    with np.errstate(over="ignore"):  # the outermost edge of the largest values is infinite
        magnitudes = np.ldexp(1.0, top - np.arange(bins // 2))
    return np.concatenate([-magnitudes, [0.0], magnitudes[::-1]]), top


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of one kind of histogram.

    Args:
        number: How many; even where they are logarithmic.
        is_logarithmic: Whether they halve towards zero on either side, as `octaves_between` says, or are equal.
    """

    number: int = 64
    is_logarithmic: bool = False

    def edges(self, low: float, high: float) -> NDArray[np.float64]:
        """Return `(number + 1,)`, ascending, of values between these ends."""
        return self._edges(low, high)[0]

    def count(
        self, place: tuple[int, int, int], low: float, high: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the edges, and the `(number,)` counts of the finite values at (address, size, code) between them."""
        edges, top = self._edges(low, high)
        counts = np.zeros(self.number, np.int64)
        if self.is_logarithmic:
            count_octaves(*place, top, counts)
        else:
            count_values(*place, edges[0], edges[-1], counts)
        return edges, counts

    def _edges(self, low: float, high: float) -> tuple[NDArray[np.float64], int]:
        if not (np.isfinite(low) and np.isfinite(high)):
            low = high = 0.0
        return (
            octaves_between(low, high, self.number)
            if self.is_logarithmic
            else (edges_between(low, high, self.number), 0)
        )


#: Sixty-four equal bins.
USUAL_BINS: Final = Bins()
