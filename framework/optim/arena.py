"""Flat memory for a set of tensors: one aligned block, and a view of it for every tensor."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike, NDArray

#: Cache line and widest vector register of the machines we run on.
ALIGNMENT = 64


class Arena:
    """One zeroed block of memory that holds tensors of one dtype one after the other.

    Every tensor starts on a 64 byte boundary; the gaps stay zero, so a pass over `flat` may run over them.

    Args:
        shapes: Shapes of the tensors, in order.
        dtype: Their common dtype.

    Attributes:
        flat: The whole block, one-dimensional.
        views: One array per shape, views of `flat`.
        segments: The same memory, one-dimensional.
    """

    __slots__ = ("flat", "segments", "views")

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: DTypeLike) -> None:
        kind = np.dtype(dtype)
        line = max(1, ALIGNMENT // kind.itemsize)
        sizes = [prod(shape) for shape in shapes]
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + -(-size // line) * line)
        self.flat = _aligned_zeros(starts[-1], kind)
        self.segments = tuple(self.flat[start : start + size] for start, size in zip(starts, sizes, strict=False))
        self.views = tuple(part.reshape(shape) for part, shape in zip(self.segments, shapes, strict=True))


class GradientArena:
    """Memory for the gradients of an optimizer's parameters, laid out as the parameters are.

    Write the gradients into `views` and pass `views` itself to the optimizer: it then moves each block of parameters
    with one kernel call.

    Attributes:
        views: One array per parameter, in the order of `optimizer.parameters`.
        blocks: The arenas behind them, one for each group and dtype.
    """

    __slots__ = ("blocks", "views")

    def __init__(self, blocks: Sequence[Arena], places: Sequence[tuple[int, int]]) -> None:
        self.blocks = tuple(blocks)
        self.views = tuple(self.blocks[block].views[place] for block, place in places)

    def clear(self) -> None:
        """Nothing; every gradient is zero."""
        for block in self.blocks:
            block.flat[...] = 0


def _aligned_zeros(size: int, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    raw = np.zeros(size * dtype.itemsize + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size * dtype.itemsize].view(dtype)
