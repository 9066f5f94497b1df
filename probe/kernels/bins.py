"""How the values of a histogram are put together: equal bins, or octaves of their magnitude."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .histogram import count_values, edges_between
from .octaves import count_octaves, octaves_between


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
        """`(number + 1,)`, ascending, of values between these ends."""
        return self._edges(low, high)[0]

    def count(
        self, place: tuple[int, int, int], low: float, high: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The edges, and the `(number,)` counts of the finite values at (address, size, code) between them."""
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


#: Sixty-four equal ones.
USUAL_BINS: Final = Bins()
