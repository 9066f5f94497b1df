"""How losses of rows become one: what every loss cell checks and keeps."""

from typing import Literal

import numpy as np

from ..tensor import Tensor
from .cell import Cell

Reduction = Literal["mean", "sum", "none"]


def check_reduction(cell: Cell, reduction: str) -> None:
    """Nothing; the word is one of mean, sum, none.

    Raises:
        ValueError: It is not; the message names the cell's class.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{type(cell).__name__} expects reduction to be one of mean, sum, none, got {reduction!r}")


def as_constant(weight: object) -> Tensor | None:
    """A tensor of weights that are not learned, from a tensor, an array or a list; None stays."""
    if weight is None or isinstance(weight, Tensor):
        return weight
    return Tensor(np.asarray(weight, np.float32) if not isinstance(weight, np.ndarray) else weight)
