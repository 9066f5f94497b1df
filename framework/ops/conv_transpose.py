"""Transposed convolutions: of a convolution, what the gradient of its input is."""

from ..errors import ShapeError
from ..shape import Shape
from ..tensor import Tensor
from .conv_primitives import Window, conv_input
from .operands import pair
from .window import AXIS_NAMES, Padding, PerAxis, Sides, per_axis, sides_of, transposed_length


def _transpose_convolve(
    axes: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
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
    out = conv_input(x, weight, window=Window(step, sides, spread, groups), shape=shape)
    return out if bias is None else out + bias.reshape(-1, *(1,) * axes)


def _sides_to_grow(how: str, kernel: Shape, stride: Shape, dilation: Shape, extra: Shape) -> Sides:
    """The padding with which a transposed window makes `length * stride` out of `length`."""
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
    """The transpose of `conv1d`: rows `(n, c, w)` and a weight `(c, out / groups, k)` to `(n, out, w')`."""
    return _transpose_convolve(1, x, weight, bias, stride, padding, output_padding, dilation, groups)


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
    """The transpose of `conv2d`: images `(n, c, h, w)` and a weight `(c, out / groups, kh, kw)` to `(n, out, h', w')`.

    Args:
        bias: `(out)`, added to every pixel.
        padding: What `conv2d` would have added on both sides and is cut off here; `same` makes `h * stride` of `h`.
        output_padding: Rows and columns added at the end, where several lengths have the same convolution.
    """
    return _transpose_convolve(2, x, weight, bias, stride, padding, output_padding, dilation, groups)


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
    """The transpose of `conv3d`; see `conv_transpose2d`."""
    return _transpose_convolve(3, x, weight, bias, stride, padding, output_padding, dilation, groups)
