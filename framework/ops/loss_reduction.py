"""From the losses of examples to one number."""

from typing import Literal

from ..shape import normalize_axis
from ..tensor import Tensor
from .layout import moveaxis

Reduction = Literal["mean", "sum", "none"]


def reduced(losses: Tensor, reduction: Reduction, weight: Tensor | None = None) -> Tensor:
    """The losses, their sum, or their mean: the weighted one where they carry weights that add up to `weight`."""
    if reduction == "mean":
        return losses.mean() if weight is None else losses.sum() / weight
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(f"no reduction {reduction!r}; use 'mean', 'sum' or 'none'")


def last_axis(x: Tensor, axis: int) -> Tensor:
    """The tensor with that axis moved to the end."""
    place = normalize_axis(axis, x.ndim)
    return x if place == x.ndim - 1 else moveaxis(x, place, -1)
