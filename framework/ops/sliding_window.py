"""Geometry of sliding windows: kernel, stride, padding and dilation of convolutions and poolings."""

from collections.abc import Sequence
from math import prod
from typing import Literal, NamedTuple, TypeAlias, TypedDict

import numpy as np

from ..dtype import float32, float64
from ..errors import ShapeError
from ..specs import Shape
from ..tensor import Array, Tensor

#: How the axes of an image are called, by their number.
AXIS_NAMES = {1: "w", 2: "h, w", 3: "d, h, w"}

#: Elements added before and after each axis.
Sides: TypeAlias = tuple[tuple[int, int], ...]

#: A number for every axis, or one for each.
PerAxis: TypeAlias = int | Sequence[int]

#: One number, one for each axis, a pair (before, after) for each axis, or how to choose.
Padding: TypeAlias = int | Sequence[int] | Sequence[tuple[int, int]] | Literal["valid", "same", "same_lower"]


class ConvolutionOptions(TypedDict):
    """Keyword arguments of a convolution."""

    stride: PerAxis
    padding: Padding
    dilation: PerAxis
    groups: int


class PoolOptions(TypedDict):
    """Keyword arguments of a pool."""

    stride: PerAxis
    padding: Padding
    dilation: PerAxis
    ceil_mode: bool


def per_axis(value: PerAxis, axes: int, name: str = "window") -> Shape:
    """Return the numbers, one for each of `axes` axes."""
    if isinstance(value, int):
        return (value,) * axes
    found = tuple(int(part) for part in value)
    if len(found) != axes:
        raise ShapeError(f"{name} over {axes} axes expects one number or {axes}, got {found}")
    return found


def sides_of(padding: Padding, lengths: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Sides:
    """Return the padding before and after each axis.

    `same` leaves `ceil(length / stride)` windows; what cannot be halved is added after the axis, with `same_lower`
    before it.
    """
    axes = len(kernel)
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * axes
        if padding not in ("same", "same_lower"):
            raise ShapeError(f"padding expects numbers, 'valid', 'same' or 'same_lower', got {padding!r}")
        found = []
        for length, size, step, spread in zip(lengths, kernel, stride, dilation, strict=True):
            total = max(0, (-(-length // step) - 1) * step + spread * (size - 1) + 1 - length)
            less, more = total // 2, total - total // 2
            found.append((less, more) if padding == "same" else (more, less))
        return tuple(found)
    if isinstance(padding, int):
        return ((padding, padding),) * axes
    if len(padding) != axes:
        raise ShapeError(f"padding over {axes} axes expects one entry an axis, got {tuple(padding)}")
    return tuple((part, part) if isinstance(part, int) else (int(part[0]), int(part[1])) for part in padding)


def window_count(length: int, kernel: int, stride: int, sides: tuple[int, int], dilation: int, ceil: bool) -> int:
    """Return how many windows fit along an axis; with `ceil` also one that starts inside the axis and leaves it at the
    end."""
    reach = dilation * (kernel - 1) + 1
    room = length + sides[0] + sides[1] - reach
    if room < 0:
        raise ShapeError(
            f"a window of {kernel} (dilation {dilation}) does not fit an axis of {length} with padding {sides}"
        )
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count if (count - 1) * stride < length + sides[0] else count - 1


def transposed_length(length: int, kernel: int, stride: int, sides: tuple[int, int], dilation: int, extra: int) -> int:
    """Return the length that a transposed window makes out of `length` places; `extra` elements are added after the
    axis."""
    return stride * (length - 1) + dilation * (kernel - 1) + 1 - sides[0] - sides[1] + extra


class PoolWindow(NamedTuple):
    """How the window slides: one entry for each of 1 to 3 axes; `ceil` keeps a last window that leaves the image."""

    kernel: Shape
    stride: Shape
    padding: Sides
    dilation: Shape
    ceil: bool = False


def widened(x: Array) -> Array:
    """Return the array in a type the kernels compute in; 32- and 64-bit integers in float64."""
    if x.dtype in (float32, float64):
        return np.ascontiguousarray(x)
    return np.ascontiguousarray(x.astype(float64 if x.dtype.kind in "iu" and x.dtype.itemsize > 2 else float32))


def pooled_shape(shape: Shape, window: PoolWindow) -> Shape:
    """Return the shape of what comes out, `(n, c, *places)`."""
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
    """Return the numbers for three axes, filled up in front."""
    depth, height, width = (*(fill,) * (3 - len(values)), *values)
    return depth, height, width


def volumes_of(x: Array, lengths: Shape) -> Array:
    """Return `(planes, depth, height, width)`."""
    return x.reshape(prod(x.shape[:2]), *triple(lengths, 1))


def window_arguments(window: PoolWindow) -> tuple[tuple[int, int, int], ...]:
    """Return kernel, stride, padding in front and dilation as the kernels take them."""
    before = [side[0] for side in window.padding]
    return (triple(window.kernel, 1), triple(window.stride, 1), triple(before, 0), triple(window.dilation, 1))


def is_flat(window: PoolWindow) -> bool:
    """Return whether the kernels for images without gaps can be used."""
    return len(window.kernel) == 2 and window.dilation == (1, 1)


def window_of(
    axes: int,
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None,
    padding: Padding,
    *,
    dilation: PerAxis = 1,
    ceil: bool = False,
) -> PoolWindow:
    """Return the window that these arguments describe for `x`."""
    size, spread = per_axis(kernel, axes, "a pooling window"), per_axis(dilation, axes, "dilation")
    step = size if stride is None else per_axis(stride, axes, "stride")
    sides = ((0, 0),) * axes if x.ndim != axes + 2 else sides_of(padding, x.shape[2:], size, step, spread)
    return PoolWindow(size, step, sides, spread, ceil)
