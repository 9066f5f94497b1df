"""The commonest operations as methods of tensors: each is the function of `ops` of that name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy.typing as npt

from .operators import METHODS
from .shape import Axes

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Methods"]


class Methods:
    """What a tensor does by name; other functions of `ops` become methods when they are registered."""

    __slots__ = ()

    @property
    def T(self) -> "Tensor":  # noqa: N802 (NumPy's name)
        """The tensor with its axes reversed."""
        return METHODS["transpose"](self)

    def sum(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Sum over `axis`."""
        return METHODS["sum"](self, axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Mean over `axis`."""
        return METHODS["mean"](self, axis, keepdims)

    def var(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Population variance over `axis`."""
        return METHODS["var"](self, axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Largest element over `axis`."""
        return METHODS["max"](self, axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Smallest element over `axis`."""
        return METHODS["min"](self, axis, keepdims)

    def argmax(self, axis: int | None = None) -> "Tensor":
        """Index of the largest element."""
        return METHODS["argmax"](self, axis)

    def reshape(self, *shape: int | Sequence[int]) -> "Tensor":
        """The elements in another shape; one length may be -1."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return METHODS["reshape"](self, wanted)

    def flatten(self, start: int = 0, end: int = -1) -> "Tensor":
        """Axes `start` to `end`, both included, joined into one."""
        return METHODS["flatten"](self, start, end)

    def transpose(self, *axes: int | Sequence[int]) -> "Tensor":
        """The axes in another order, reversed by default."""
        wanted = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return METHODS["transpose"](self, wanted or None)

    def swapaxes(self, first: int, second: int) -> "Tensor":
        """Two axes exchanged."""
        return METHODS["swapaxes"](self, first, second)

    def astype(self, dtype: npt.DTypeLike) -> "Tensor":
        """The values in another element type; gradients flow back in this one."""
        return METHODS["cast"](self, dtype)

    def exp(self) -> "Tensor":
        """`e**x`."""
        return METHODS["exp"](self)

    def log(self) -> "Tensor":
        """Natural logarithm."""
        return METHODS["log"](self)

    def sqrt(self) -> "Tensor":
        """Square root."""
        return METHODS["sqrt"](self)

    def tanh(self) -> "Tensor":
        """Hyperbolic tangent."""
        return METHODS["tanh"](self)
