"""Normalization of activations over their last axes."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import layer_norm, rms_norm
from ..tensor import Parameter, Tensor
from .cell import Cell
from .parameters import positive


class LayerNorm(Cell):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, mean and variance over the last axes.

    Args:
        normalized_shape: Length of the last axis, or lengths of the last axes.
        epsilon: Added to the variance.
        dtype: Of the parameters.

    Shape:
        `(..., *normalized_shape)`, and the same.

    Reference:
        Ba et al. 2016, arXiv:1607.06450.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], epsilon: float = 1e-5, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        self.normalized_shape = _lengths(self, normalized_shape)
        self.epsilon = float(epsilon)
        self.weight = Parameter(np.ones(self.normalized_shape, dtype))
        self.bias = Parameter(np.zeros(self.normalized_shape, dtype))

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        _check_axes(self, x, self.normalized_shape)
        if len(self.normalized_shape) == 1:
            return layer_norm(x, self.weight, self.bias, self.epsilon)
        rows = _joined(x, self.normalized_shape)
        return layer_norm(rows, self.weight.reshape(-1), self.bias.reshape(-1), self.epsilon).reshape(x.shape)

    def describe(self) -> str:
        """The lengths of the axes."""
        return ", ".join(map(str, self.normalized_shape))


class RMSNorm(Cell):
    """`x / sqrt(mean(x**2) + epsilon) * weight`, the mean over the last axes.

    Args:
        normalized_shape: Length of the last axis, or lengths of the last axes.
        epsilon: Added to the mean square.
        dtype: Of the parameter.

    Shape:
        `(..., *normalized_shape)`, and the same.

    Reference:
        Zhang and Sennrich 2019, arXiv:1910.07467.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], epsilon: float = 1e-6, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        self.normalized_shape = _lengths(self, normalized_shape)
        self.epsilon = float(epsilon)
        self.weight = Parameter(np.ones(self.normalized_shape, dtype))

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        _check_axes(self, x, self.normalized_shape)
        if len(self.normalized_shape) == 1:
            return rms_norm(x, self.weight, self.epsilon)
        rows = _joined(x, self.normalized_shape)
        return rms_norm(rows, self.weight.reshape(-1), self.epsilon).reshape(x.shape)

    def describe(self) -> str:
        """The lengths of the axes."""
        return ", ".join(map(str, self.normalized_shape))


def _lengths(cell: Cell, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    lengths = (normalized_shape,) if isinstance(normalized_shape, int | np.integer) else tuple(normalized_shape)
    if not lengths:
        raise ShapeError(f"{type(cell).__name__} expects normalized_shape to have one length or more, got ()")
    positive(cell, normalized_shape=min(lengths))
    return tuple(int(length) for length in lengths)


def _check_axes(cell: Cell, x: Tensor, lengths: tuple[int, ...]) -> None:
    if x.shape[-len(lengths) :] != lengths:
        expected = ", ".join(map(str, lengths))
        raise ShapeError(
            f"{type(cell).__name__} expects input (..., {expected}), got {x.shape}; its last axes must fit"
        )


def _joined(x: Tensor, lengths: tuple[int, ...]) -> Tensor:
    return x.reshape(*x.shape[: x.ndim - len(lengths)], prod(lengths))
