"""Two numbers of an array that add up as arrays do: by them a reduction is checked without bringing its parts together.

Reference:
    Freivalds 1977, Probabilistic machines can use less running time (a product checked by random projections).
"""

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["PROJECTIONS", "project"]

#: How many numbers an array has.
PROJECTIONS: Final = 2
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_TOP: Final = np.uint64(63)
_ONE: Final = np.uint64(1)


@njit(nogil=True, cache=True)
def project(values: NDArray[np.float32] | NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Nothing; adds to `out`, `(2,)`, the sum of the values and the sum under signs that depend on the place only."""
    plain, signed = 0.0, 0.0
    hashed = np.uint64(0)
    for i in range(values.size):
        hashed += _STEP
        mixed = (hashed ^ (hashed >> np.uint64(29))) * _STEP
        value = np.float64(values[i])
        plain += value
        signed += value if (mixed >> _TOP) & _ONE else -value
    out[0] += plain
    out[1] += signed
