"""The window of a pooling: its geometry, and arrays as the kernels take them."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..dtype import float32, float64
from ..errors import ShapeError
from ..shape import Shape
from ..tensor import Array, Tensor
from .window import AXIS_NAMES, Padding, PerAxis, Sides, per_axis, sides_of, window_count


class PoolWindow(NamedTuple):
    """How the window slides: one entry for each of 1 to 3 axes; `ceil` keeps a last window that leaves the image."""

    kernel: Shape
    stride: Shape
    padding: Sides
    dilation: Shape
    ceil: bool = False


def widened(x: Array) -> Array:
    """The array in a type the kernels compute in; 32- and 64-bit integers in float64."""
    if x.dtype in (float32, float64):
        return np.ascontiguousarray(x)
    return np.ascontiguousarray(x.astype(float64 if x.dtype.kind in "iu" and x.dtype.itemsize > 2 else float32))


def pooled_shape(shape: Shape, window: PoolWindow) -> Shape:
    """The shape of what comes out, `(n, c, *places)`."""
    axes = len(window.kernel)
    if len(shape) != axes + 2:
        raise ShapeError(f"pooling over {axes} axes expects images (n, c, {AXIS_NAMES[axes]}), got {shape}")
    lengths = []
    for i in range(axes):
        kernel, stride, sides, dilation = (
            window.kernel[i],
            window.stride[i],
            window.padding[i],
            window.dilation[i],
        )
        if max(sides) >= dilation * (kernel - 1) + 1:
            raise ShapeError(f"pooling expects padding smaller than the window {window.kernel}, got {window.padding}")
        lengths.append(window_count(shape[2 + i], kernel, stride, sides, dilation, window.ceil))
    return (*shape[:2], *lengths)


def triple(values: Sequence[int], fill: int) -> tuple[int, int, int]:
    """The numbers for three axes, filled up in front."""
    depth, height, width = (*(fill,) * (3 - len(values)), *values)
    return depth, height, width


def volumes_of(x: Array, lengths: Shape) -> Array:
    """`(planes, depth, height, width)`."""
    return x.reshape(prod(x.shape[:2]), *triple(lengths, 1))


def window_arguments(window: PoolWindow) -> tuple[tuple[int, int, int], ...]:
    """Kernel, stride, padding in front and dilation as the kernels take them."""
    before = [side[0] for side in window.padding]
    return (triple(window.kernel, 1), triple(window.stride, 1), triple(before, 0), triple(window.dilation, 1))


def is_flat(window: PoolWindow) -> bool:
    """Whether the kernels for images without gaps can be used."""
    return len(window.kernel) == 2 and window.dilation == (1, 1)


def window_of(
    axes: int,
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None,
    padding: Padding,
    dilation: PerAxis = 1,
    ceil: bool = False,
) -> PoolWindow:
    """The window that these arguments describe for `x`."""
    size, spread = per_axis(kernel, axes, "a pooling window"), per_axis(dilation, axes, "dilation")
    step = size if stride is None else per_axis(stride, axes, "stride")
    sides = ((0, 0),) * axes if x.ndim != axes + 2 else sides_of(padding, x.shape[2:], size, step, spread)
    return PoolWindow(size, step, sides, spread, ceil)
