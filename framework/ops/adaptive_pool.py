"""Pooling to a wanted size: the sections of an axis are as equal as integers allow."""

import numpy as np

from ..errors import ShapeError
from ..tensor import Tensor, wrap
from .indexing import narrow
from .join import concat
from .linalg import matmul
from .window import AXIS_NAMES, PerAxis, per_axis


def _sections(length: int, parts: int) -> list[tuple[int, int]]:
    """Where `parts` sections of an axis begin and end; they overlap where the length cannot be divided."""
    return [(i * length // parts, -(-(i + 1) * length // parts)) for i in range(parts)]


def _adaptive_mean(axes: int, x: Tensor, size: PerAxis) -> Tensor:
    lengths = per_axis(size, axes, "the size of adaptive pooling")
    _check_axes(axes, x)
    for axis, parts in enumerate(lengths, 2):
        matrix = np.zeros((x.shape[axis], parts), x.dtype)
        for part, (first, last) in enumerate(_sections(x.shape[axis], parts)):
            matrix[first:last, part] = 1.0 / (last - first)
        x = matmul(x.swapaxes(axis, -1), wrap(matrix)).swapaxes(axis, -1)
    return x


def _adaptive_max(axes: int, x: Tensor, size: PerAxis) -> Tensor:
    lengths = per_axis(size, axes, "the size of adaptive pooling")
    _check_axes(axes, x)
    for axis, parts in enumerate(lengths, 2):
        cuts = [
            narrow(x, axis, first, last).max(axis, keepdims=True) for first, last in _sections(x.shape[axis], parts)
        ]
        x = concat(cuts, axis)
    return x


def _check_axes(axes: int, x: Tensor) -> None:
    if x.ndim != axes + 2:
        raise ShapeError(f"adaptive pooling over {axes} axes expects images (n, c, {AXIS_NAMES[axes]}), got {x.shape}")


def adaptive_avg_pool1d(x: Tensor, size: PerAxis) -> Tensor:
    """The means of `size` sections of rows `(n, c, w)`."""
    return _adaptive_mean(1, x, size)


def adaptive_avg_pool2d(x: Tensor, size: PerAxis) -> Tensor:
    """The means of `size` sections along each axis of images `(n, c, h, w)`."""
    return _adaptive_mean(2, x, size)


def adaptive_avg_pool3d(x: Tensor, size: PerAxis) -> Tensor:
    """The means of `size` sections along each axis of volumes `(n, c, d, h, w)`."""
    return _adaptive_mean(3, x, size)


def adaptive_max_pool1d(x: Tensor, size: PerAxis) -> Tensor:
    """The largest elements of `size` sections of rows `(n, c, w)`."""
    return _adaptive_max(1, x, size)


def adaptive_max_pool2d(x: Tensor, size: PerAxis) -> Tensor:
    """The largest elements of `size` sections along each axis of images `(n, c, h, w)`."""
    return _adaptive_max(2, x, size)


def adaptive_max_pool3d(x: Tensor, size: PerAxis) -> Tensor:
    """The largest elements of `size` sections along each axis of volumes `(n, c, d, h, w)`."""
    return _adaptive_max(3, x, size)
