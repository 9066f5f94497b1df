"""Evenly spread samples of arrays that are given by their places."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..kernels import Arrays, values_at

#: Elements of one parameter that are looked at: a cosine of so many is off by about 1.6 % (one over their root).
MOST: Final = 4096


def samples_of(arrays: Arrays, *, stride: int | None = None) -> Iterator[NDArray[np.float64] | None]:
    """A copy of every `stride`-th element of each array, None where there is none.

    Args:
        stride: The same for all arrays; by default for each its own, odd one, so that at most `MOST` are taken.
    """
    arrays = arrays.local()
    for address, size, code in zip(arrays.addresses, arrays.sizes, arrays.codes, strict=True):
        if not address:
            yield None
            continue
        step = -(-int(size) // MOST) | 1 if stride is None else stride
        yield values_at(address, size, code, max(step, 1)).astype(np.float64)
