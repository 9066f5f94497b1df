"""Dropout: in training some elements are zero, in evaluation none."""

from ..ops import dropout
from ..random import Key, fold_in, next_key
from ..tensor import Tensor
from .cell import Cell


class Dropout(Cell):
    """Zero with probability `p`, else `x / (1 - p)`; the input itself outside training.

    Args:
        p: Share of elements to drop, in [0, 1).
        key: Masks are drawn with its numbered children, one a call; with the context's next keys by default, which
            checkpoints of a training state keep.

    Reference:
        Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
    """

    def __init__(self, p: float = 0.5, *, key: Key | None = None) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"Dropout expects p in [0, 1), got {p}")
        self.p = float(p)
        self.key = key
        self.calls = 0

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        if not self.training or self.p == 0.0:
            return x
        key = next_key() if self.key is None else fold_in(self.key, self.calls)
        self.calls += 1
        y: Tensor = dropout(x, key, self.p)
        return y

    def describe(self) -> str:
        """The share of dropped elements."""
        return f"p={self.p}"
