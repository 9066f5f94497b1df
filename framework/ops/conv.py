"""Convolution of images, by gathering windows into columns and multiplying matrices.

Convolution is bilinear. Its two gradients are bilinear too, and the gradient of any of the three is one of the other
two: the family is closed, so derivatives of every order run at the same speed.
"""

from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from ..dtype import float32, float64
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Shape, Spec, window_length
from ..tensor import Array, Tensor
from .reduce import sum_to

# Columns of so many bytes are gathered at once: about what the second-level cache holds. Our choice.
_BLOCK_BYTES = 1 << 20


class Window(NamedTuple):
    """How the kernel slides: pairs for height and width, and the number of groups."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int


def _sizes(x: Shape, w: Shape, window: Window) -> tuple[int, int]:
    """Height and width of the result."""
    if len(x) != 4 or len(w) != 4:
        raise ShapeError(f"conv2d expects images (n, c, h, w) and weights (out, c / groups, kh, kw), got {x} and {w}")
    if x[1] != w[1] * window.groups or w[0] % window.groups:
        raise ShapeError(
            f"conv2d of images {x} with weights {w} in {window.groups} groups: the images' channels ({x[1]}) must be "
            f"{w[1]} x {window.groups}, and the groups must divide {w[0]}"
        )
    rows, columns = (
        window_length(x[2 + i], w[2 + i], window.stride[i], window.padding[i], window.dilation[i]) for i in (0, 1)
    )
    return rows, columns


def _wide(x: Array) -> Array:
    return np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))


class _Blocks:
    """The images in blocks, and the buffer for the columns of one of them."""

    def __init__(self, x: Shape, w: Shape, window: Window, dtype: Any) -> None:
        self.size = _sizes(x, w, window)
        self.how = (w[2:], window.stride, window.padding, window.dilation, self.size)
        self.is_plain = w[2:] == (1, 1) and window.stride == (1, 1) and window.padding == (0, 0)
        depth, length = x[1] * w[2] * w[3], self.size[0] * self.size[1]
        images = min(x[0], max(1, _BLOCK_BYTES // max(1, depth * length * np.dtype(dtype).itemsize)))
        self.slices = [slice(start, min(start + images, x[0])) for start in range(0, x[0], images)] if images else []
        self.buffer = np.empty((images, depth, length), dtype)
        self.groups = window.groups

    def gather(self, x: Array) -> Array:
        """The columns of a block of images, `(images, groups, depth, length)`."""
        columns = self.buffer[: len(x)]
        if self.is_plain:
            columns = x.reshape(columns.shape)
        else:
            kernels.window.gather_columns(x, columns, *self.how)
        return columns.reshape(len(x), self.groups, -1, columns.shape[-1])


def _conv_of(x: Array, w: Array, bias: Array | None = None, *, window: Window) -> Array:
    images, weights = _wide(x), _wide(w)
    blocks = _Blocks(x.shape, w.shape, window, images.dtype)
    length = blocks.size[0] * blocks.size[1]
    matrix = weights.reshape(1, window.groups, w.shape[0] // window.groups, -1)
    out = np.empty((len(x), window.groups, w.shape[0] // window.groups, length), images.dtype)
    for part in blocks.slices:
        np.matmul(matrix, blocks.gather(images[part]), out=out[part])
        if bias is not None:
            out[part] += bias.reshape(1, window.groups, -1, 1)
    return out.reshape(len(x), w.shape[0], *blocks.size).astype(x.dtype, copy=False)


def _conv_input_of(g: Array, w: Array, *, window: Window, shape: Shape) -> Array:
    gradient, weights = _wide(g), _wide(w)
    blocks = _Blocks(shape, w.shape, window, gradient.dtype)
    matrix = weights.reshape(1, window.groups, w.shape[0] // window.groups, -1).swapaxes(-1, -2)
    flat = gradient.reshape(shape[0], window.groups, w.shape[0] // window.groups, -1)
    out = np.empty(shape, gradient.dtype)
    for part in blocks.slices:
        count = part.stop - part.start
        columns = blocks.buffer[:count]
        np.matmul(matrix, flat[part], out=columns.reshape(count, window.groups, -1, columns.shape[-1]))
        if blocks.is_plain:
            out[part] = columns.reshape(out[part].shape)
        else:
            kernels.window.add_columns(columns, out[part], *blocks.how)
    return out.astype(g.dtype, copy=False)


def _conv_weight_of(g: Array, x: Array, *, window: Window, shape: Shape) -> Array:
    gradient, images = _wide(g), _wide(x)
    blocks = _Blocks(x.shape, shape, window, gradient.dtype)
    flat = gradient.reshape(len(g), window.groups, shape[0] // window.groups, -1)
    total = np.zeros((window.groups, shape[0] // window.groups, shape[1] * shape[2] * shape[3]), gradient.dtype)
    for part in blocks.slices:
        columns = blocks.gather(images[part])
        total += np.matmul(flat[part], columns.swapaxes(-1, -2)).sum(0)
    return total.reshape(shape).astype(g.dtype, copy=False)


_conv: Primitive = Primitive(
    "conv2d",
    _conv_of,
    lambda x, w, *, window: Spec((x.shape[0], w.shape[0], *_sizes(x.shape, w.shape, window)), x.dtype),
    (
        lambda g, _, x, w, *, window: _conv_input(g, w, window=window, shape=x.shape),
        lambda g, _, x, w, *, window: _conv_weight(g, x, window=window, shape=w.shape),
    ),
)
_conv_bias: Primitive = Primitive(
    "conv2d_bias",
    _conv_of,
    lambda x, w, bias, *, window: Spec((x.shape[0], w.shape[0], *_sizes(x.shape, w.shape, window)), x.dtype),
    (
        lambda g, _, x, w, bias, *, window: _conv_input(g, w, window=window, shape=x.shape),
        lambda g, _, x, w, bias, *, window: _conv_weight(g, x, window=window, shape=w.shape),
        lambda g, _, x, w, bias, *, window: sum_to(g, (1, w.shape[0], 1, 1)).reshape(bias.shape),
    ),
)
_conv_input: Primitive = Primitive(
    "conv2d_input_gradient",
    _conv_input_of,
    lambda g, w, *, window, shape: Spec(shape, g.dtype),
    (
        lambda gg, _, g, w, *, window, shape: _conv(gg, w, window=window),
        lambda gg, _, g, w, *, window, shape: _conv_weight(g, gg, window=window, shape=w.shape),
    ),
)
_conv_weight: Primitive = Primitive(
    "conv2d_weight_gradient",
    _conv_weight_of,
    lambda g, x, *, window, shape: Spec(shape, g.dtype),
    (
        lambda gg, _, g, x, *, window, shape: _conv(x, gg, window=window),
        lambda gg, _, g, x, *, window, shape: _conv_input(g, gg, window=window, shape=x.shape),
    ),
)


def as_pair(value: int | tuple[int, int]) -> tuple[int, int]:
    """The number for height and for width."""
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Tensor:
    """Images `(n, channels, h, w)` correlated with a weight `(out, channels / groups, kh, kw)`, as `(n, out, h', w')`.

    Args:
        bias: `(out)`, added to every pixel.
        padding: Zeros on both sides.
    """
    window = Window(as_pair(stride), as_pair(padding), as_pair(dilation), groups)
    if bias is None:
        return _conv(x, weight, window=window)
    if bias.shape != weight.shape[:1]:
        raise ShapeError(f"conv2d with weights {weight.shape} expects a bias {weight.shape[:1]}, got {bias.shape}")
    return _conv_bias(x, weight, bias, window=window)
