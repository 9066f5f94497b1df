"""Axes joined into one."""

from ..ops import flatten
from ..tensor import Tensor
from .cell import Cell


class Flatten(Cell):
    """The input with axes `start_dim` to `end_dim` joined; all but the first by default."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, x: Tensor) -> Tensor:
        """The joined tensor."""
        y: Tensor = flatten(x, self.start_dim, self.end_dim)
        return y
