"""Convolutions and transposed convolutions over one, two or three axes, and the primitives under them.

Windows are gathered into columns, a block of images at a time, and matrices multiplied. Convolution is bilinear. Its
two gradients are bilinear too, and the gradient of any of the three is one of the other two: the family is closed, so
derivatives of every order run at the same speed.
"""

from math import prod
from typing import NamedTuple

import numpy as np

from .. import kernels
from ..dtype import Dtype, float32, float64
from ..errors import ShapeError
from ..primitive import Primitive
from ..specs import Shape, Spec
from ..tensor import Array, Tensor
from .indexing_ops import getitem
from .operands import cast_to, pair
from .sliding_window import AXIS_NAMES, Padding, PerAxis, Sides, per_axis, sides_of, transposed_length, window_count

# Columns of so many bytes are gathered at once: about what the second-level cache holds. Our choice.
_BLOCK_BYTES = 1 << 20


class ConvolutionWindow(NamedTuple):
    """How the kernel slides: one entry for each of 1 to 3 axes, and the number of groups."""

    stride: Shape
    padding: Sides
    dilation: Shape
    groups: int


def _sizes(x: Shape, w: Shape, window: ConvolutionWindow) -> Shape:
    """Return lengths of the result's axes behind batch and channels."""
    axes = len(window.stride)
    if len(x) != axes + 2 or len(w) != axes + 2:
        raise ShapeError(
            f"convolution over {axes} axes expects images (n, c, {AXIS_NAMES[axes]}) and weights (out, c / groups, "
            f"kernel of {axes}), got {x} and {w}"
        )
    if x[1] != w[1] * window.groups or w[0] % window.groups:
        raise ShapeError(
            f"convolution of images {x} with weights {w} in {window.groups} groups: the images' channels ({x[1]}) must "
            f"be {w[1]} x {window.groups}, and the groups must divide {w[0]}"
        )
    return tuple(
        window_count(x[2 + i], w[2 + i], window.stride[i], window.padding[i], window.dilation[i], ceil=False)
        for i in range(axes)
    )


def _wide(x: Array) -> Array:
    return np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))


def _volume(lengths: Shape, fill: int) -> tuple[int, int, int]:
    """Return the numbers for depth, height and width: those of missing axes in front are `fill`."""
    depth, height, width = (*(fill,) * (3 - len(lengths)), *lengths)
    return depth, height, width


class _Blocks:
    """The images in blocks, and the buffer for the columns of one of them; an image is a volume of depth 1."""

    def __init__(self, x: Shape, w: Shape, size: Shape, window: ConvolutionWindow, dtype: Dtype) -> None:
        self.size = size
        before = tuple(side[0] for side in window.padding)
        self.how = (
            _volume(w[2:], 1),
            _volume(window.stride, 1),
            _volume(before, 0),
            _volume(window.dilation, 1),
            _volume(size, 1),
        )
        self.volume = (*x[:2], *_volume(x[2:], 1))
        self.is_plain = prod(w[2:]) == 1 and size == x[2:] and set(window.stride) == {1} and not any(before)
        depth, length = x[1] * prod(w[2:]), prod(size)
        images = min(x[0], max(1, _BLOCK_BYTES // max(1, depth * length * np.dtype(dtype).itemsize)))
        self.slices = [slice(start, min(start + images, x[0])) for start in range(0, x[0], images)] if images else []
        self.buffer = np.empty((images, depth, length), dtype)
        self.groups = window.groups

    def gather(self, x: Array) -> Array:
        """Return the columns of a block of images, `(images, groups, depth, length)`."""
        columns = self.buffer[: len(x)]
        if self.is_plain:
            columns = x.reshape(columns.shape)
        else:
            kernels.window_kernels.gather_columns(x.reshape(len(x), *self.volume[1:]), columns, *self.how)
        return columns.reshape(len(x), self.groups, -1, columns.shape[-1])

    def add(self, columns: Array, out: Array) -> None:
        """Add the columns up in a block of images."""
        if self.is_plain:
            out[...] = columns.reshape(out.shape)
        else:
            kernels.window_kernels.add_columns(columns, out.reshape(len(out), *self.volume[1:]), *self.how)


def _conv_of(x: Array, w: Array, bias: Array | None = None, *, window: ConvolutionWindow) -> Array:
    images, weights = _wide(x), _wide(w)
    blocks = _Blocks(x.shape, w.shape, _sizes(x.shape, w.shape, window), window, images.dtype)
    matrix = weights.reshape(1, window.groups, w.shape[0] // window.groups, -1)
    out = np.empty((len(x), window.groups, w.shape[0] // window.groups, prod(blocks.size)), images.dtype)
    for part in blocks.slices:
        np.matmul(matrix, blocks.gather(images[part]), out=out[part])
        if bias is not None:
            out[part] += bias.reshape(1, window.groups, -1, 1)
    return out.reshape(len(x), w.shape[0], *blocks.size).astype(x.dtype, copy=False)


def _conv_input_of(g: Array, w: Array, *, window: ConvolutionWindow, shape: Shape) -> Array:
    gradient, weights = _wide(g), _wide(w)
    blocks = _Blocks(shape, w.shape, g.shape[2:], window, gradient.dtype)
    matrix = weights.reshape(1, window.groups, w.shape[0] // window.groups, -1).swapaxes(-1, -2)
    flat = gradient.reshape(shape[0], window.groups, w.shape[0] // window.groups, prod(blocks.size))
    out = np.empty(shape, gradient.dtype)
    for part in blocks.slices:
        columns = blocks.buffer[: part.stop - part.start]
        np.matmul(matrix, flat[part], out=columns.reshape(len(columns), window.groups, -1, columns.shape[-1]))
        blocks.add(columns, out[part])
    return out.astype(g.dtype, copy=False)


def _conv_weight_of(g: Array, x: Array, *, window: ConvolutionWindow, shape: Shape) -> Array:
    gradient, images = _wide(g), _wide(x)
    blocks = _Blocks(x.shape, shape, g.shape[2:], window, gradient.dtype)
    flat = gradient.reshape(len(g), window.groups, shape[0] // window.groups, prod(blocks.size))
    # The columns stand first: BLAS is a third faster when the longer matrix gives the rows.
    total = np.zeros((window.groups, prod(shape[1:]), shape[0] // window.groups), gradient.dtype)
    products = np.empty((len(blocks.buffer), *total.shape), gradient.dtype)
    for part in blocks.slices:
        columns = blocks.gather(images[part])
        found = np.matmul(columns, flat[part].swapaxes(-1, -2), out=products[: len(columns)])
        total += found[0] if len(found) == 1 else found.sum(0)
    return np.ascontiguousarray(total.swapaxes(1, 2)).reshape(shape).astype(g.dtype, copy=False)


def _infer_transposed(g: Spec, w: Spec, *, window: ConvolutionWindow, shape: Shape) -> Spec:
    axes = len(window.stride)
    if g.ndim != axes + 2 or w.ndim != axes + 2 or g.shape[1] != w.shape[0] or w.shape[0] % window.groups:
        raise ShapeError(
            f"transposed convolution over {axes} axes expects images (n, c, {AXIS_NAMES[axes]}) and weights "
            f"(c, out / groups, kernel of {axes}), c divisible by {window.groups}, got {g.shape} and {w.shape}"
        )
    return Spec(shape, g.dtype)


def _first(found: Tensor, like: Tensor) -> Tensor:
    """Return the first places along each axis: as many as `like` has, where output padding makes room for more
    windows."""
    if found.shape == like.shape:
        return found
    return getitem(found, (Ellipsis, *(slice(0, length) for length in like.shape[2:])))


conv: Primitive = Primitive(
    "conv",
    _conv_of,
    lambda x, w, *, window: Spec((x.shape[0], w.shape[0], *_sizes(x.shape, w.shape, window)), x.dtype),
    (
        lambda g, _, x, w, *, window: conv_input(g, w, window=window, shape=x.shape),
        lambda g, _, x, w, *, window: _conv_weight(g, x, window=window, shape=w.shape),
    ),
)


conv_bias: Primitive = Primitive(
    "conv_bias",
    _conv_of,
    lambda x, w, bias, *, window: Spec((x.shape[0], w.shape[0], *_sizes(x.shape, w.shape, window)), x.dtype),
    (
        lambda g, _, x, w, bias, *, window: conv_input(g, w, window=window, shape=x.shape),
        lambda g, _, x, w, bias, *, window: _conv_weight(g, x, window=window, shape=w.shape),
        lambda g, _, x, w, bias, *, window: g.sum((0, *range(2, g.ndim))),
    ),
)


conv_input: Primitive = Primitive(
    "conv_input_gradient",
    _conv_input_of,
    _infer_transposed,
    (
        lambda gg, _, g, w, *, window, shape: _first(conv(gg, w, window=window), g),
        lambda gg, _, g, w, *, window, shape: _conv_weight(g, gg, window=window, shape=w.shape),
    ),
)


_conv_weight: Primitive = Primitive(
    "conv_weight_gradient",
    _conv_weight_of,
    lambda g, x, *, window, shape: Spec(shape, g.dtype),
    (
        lambda gg, _, g, x, *, window, shape: conv(x, gg, window=window),
        lambda gg, _, g, x, *, window, shape: conv_input(g, gg, window=window, shape=x.shape),
    ),
)


def convolve(x: Tensor, weight: Tensor, window: ConvolutionWindow) -> Tensor:
    """Return images `(n, channels, ...)` correlated with a weight, in a window that is known in full."""
    return conv(x, weight, window=window)


def deconvolve(x: Tensor, weight: Tensor, window: ConvolutionWindow, shape: Shape) -> Tensor:
    """Return the transpose of `convolve`: the images of that shape whose windows `x` stands for."""
    return conv_input(x, weight, window=window, shape=shape)


def _convolve(
    axes: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: PerAxis,
    padding: Padding,
    dilation: PerAxis,
    groups: int,
) -> Tensor:
    step, spread = per_axis(stride, axes, "stride"), per_axis(dilation, axes, "dilation")
    kernel = weight.shape[2:]
    sides: Sides = ((0, 0),) * axes
    if len(kernel) == axes and x.ndim == axes + 2:  # else the primitive complains
        sides = sides_of(padding, x.shape[2:], kernel, step, spread)
    window = ConvolutionWindow(step, sides, spread, groups)
    if bias is None:
        return conv(*pair(x, weight), window=window)
    if bias.shape != weight.shape[:1]:
        raise ShapeError(f"conv{axes}d with weights {weight.shape} expects a bias {weight.shape[:1]}, got {bias.shape}")
    x, weight = pair(x, weight)
    return conv_bias(x, weight, cast_to(bias, x.dtype), window=window)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Return rows `(n, channels, w)` correlated with a weight `(out, channels / groups, k)`, as `(n, out, w')`.

    Args:
        bias: `(out)`, added to every place.
        padding: Zeros on both sides, a pair of them, or `valid`, `same`, `same_lower`.
    """
    return _convolve(1, x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Return images `(n, channels, h, w)` correlated with a weight `(out, channels / groups, kh, kw)`, as `(n, out,
    h', w')`.

    Args:
        bias: `(out)`, added to every pixel.
        padding: Zeros on both sides of both axes, of each, pairs of them, or `valid`, `same`, `same_lower`.
    """
    return _convolve(2, x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Return volumes `(n, channels, d, h, w)` correlated with `(out, channels / groups, kd, kh, kw)`; see `conv2d`."""
    return _convolve(3, x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def _transpose_convolve(
    axes: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: PerAxis,
    padding: Padding,
    output_padding: PerAxis,
    dilation: PerAxis,
    groups: int,
) -> Tensor:
    step, spread = per_axis(stride, axes, "stride"), per_axis(dilation, axes, "dilation")
    extra, kernel = per_axis(output_padding, axes, "output_padding"), weight.shape[2:]
    if len(kernel) != axes or x.ndim != axes + 2:
        raise ShapeError(
            f"conv_transpose{axes}d expects images (n, c, {AXIS_NAMES[axes]}) and weights (c, out / groups, kernel of "
            f"{axes}), got {x.shape} and {weight.shape}"
        )
    if any(more >= max(s, d) for more, s, d in zip(extra, step, spread, strict=True)):
        raise ShapeError(f"output_padding must be smaller than stride {step} or dilation {spread}, got {extra}")
    lengths = tuple(length * s for length, s in zip(x.shape[2:], step, strict=True))
    if isinstance(padding, str) and padding != "valid":
        sides = _sides_to_grow(padding, kernel, step, spread, extra)
    else:
        sides = sides_of(padding, lengths, kernel, step, spread)
    whole = zip(x.shape[2:], kernel, step, sides, spread, extra, strict=True)
    shape = (x.shape[0], weight.shape[1] * groups, *(transposed_length(*axis) for axis in whole))
    x, weight = pair(x, weight)
    out = conv_input(x, weight, window=ConvolutionWindow(step, sides, spread, groups), shape=shape)
    return out if bias is None else out + bias.reshape(-1, *(1,) * axes)


def _sides_to_grow(how: str, kernel: Shape, stride: Shape, dilation: Shape, extra: Shape) -> Sides:
    """Return the padding with which a transposed window makes `length * stride` out of `length`."""
    found = []
    for size, step, spread, more in zip(kernel, stride, dilation, extra, strict=True):
        total = spread * (size - 1) + 1 - step + more
        less = total // 2
        found.append((less, total - less) if how == "same" else (total - less, less))
    return tuple(found)


def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Return the transpose of `conv1d`: rows `(n, c, w)` and a weight `(c, out / groups, k)` to `(n, out, w')`."""
    return _transpose_convolve(
        1,
        x,
        weight,
        bias,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
    )


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Return the transpose of `conv2d`: images `(n, c, h, w)` and a weight `(c, out / groups, kh, kw)` to `(n, out,
    h', w')`.

    Args:
        bias: `(out)`, added to every pixel.
        padding: What `conv2d` would have added on both sides and is cut off here; `same` makes `h * stride` of `h`.
        output_padding: Rows and columns added at the end, where several lengths have the same convolution.
    """
    return _transpose_convolve(
        2,
        x,
        weight,
        bias,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
    )


def conv_transpose3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Return the transpose of `conv3d`; see `conv_transpose2d`."""
    return _transpose_convolve(
        3,
        x,
        weight,
        bias,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
    )
