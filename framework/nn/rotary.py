"""Positions as rotations of queries and keys: RoPE."""

import numpy as np

from ..errors import ShapeError
from ..ops import concat, split
from ..tensor import Tensor
from .cell import Cell
from .parameters import positive


class RotaryEmbedding(Cell):
    """Pairs of features `(i, i + width / 2)` turned by `position * base ** (-2 i / width)`.

    The product of a query and a key so turned depends on their distance only. The tables of cosines and sines are no
    parameters: they are made again from the arguments.

    Args:
        width: Length of the last axis (of one head); even.
        max_positions: How many positions there are tables for.
        base: Of the wavelengths, which run from `2 pi` to `2 pi base`.

    Shape:
        `(..., positions, width)`, and the same.

    Reference:
        Su et al. 2021, arXiv:2104.09864, eq. 34, with halves instead of neighbours paired, as GPT-NeoX does.
    """

    def __init__(self, width: int, max_positions: int = 2048, base: float = 10000.0) -> None:
        super().__init__()
        positive(self, width=width, max_positions=max_positions)
        if width % 2:
            raise ValueError(f"RotaryEmbedding expects an even width, got {width}")
        if not base > 0.0:
            raise ValueError(f"RotaryEmbedding expects base above 0, got {base}")
        self.width, self.max_positions, self.base = width, max_positions, float(base)
        angles = np.outer(np.arange(max_positions), base ** (-np.arange(0, width, 2) / width))
        self._cosines, self._sines = Tensor(np.cos(angles)), Tensor(np.sin(angles))

    def construct(self, x: Tensor, offset: int = 0) -> Tensor:
        """The turned features; the first position is number `offset`."""
        if x.ndim < 2 or x.shape[-1] != self.width:
            raise ShapeError(f"RotaryEmbedding expects input (..., positions, {self.width}), got {x.shape}")
        end = offset + x.shape[-2]
        if offset < 0 or end > self.max_positions:
            raise ShapeError(
                f"RotaryEmbedding has tables for {self.max_positions} positions, got {offset} to {end}; "
                f"give a larger max_positions"
            )
        cosines, sines = (table[offset:end].astype(x.dtype) for table in (self._cosines, self._sines))
        first, second = split(x, self.width // 2, -1)
        return concat([first * cosines - second * sines, second * cosines + first * sines], -1)

    def describe(self) -> str:
        """Width and tables."""
        return f"{self.width}, max_positions={self.max_positions}"
