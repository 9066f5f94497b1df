"""Convolution over one, two or three axes."""

from ..errors import ShapeError
from ..tensor import Tensor
from .conv_primitives import Window, conv, conv_bias
from .operands import cast_to, pair
from .window import Padding, PerAxis, Sides, per_axis, sides_of


def _convolve(
    axes: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
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
    window = Window(step, sides, spread, groups)
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
    """Rows `(n, channels, w)` correlated with a weight `(out, channels / groups, k)`, as `(n, out, w')`.

    Args:
        bias: `(out)`, added to every place.
        padding: Zeros on both sides, a pair of them, or `valid`, `same`, `same_lower`.
    """
    return _convolve(1, x, weight, bias, stride, padding, dilation, groups)


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
    """Images `(n, channels, h, w)` correlated with a weight `(out, channels / groups, kh, kw)`, as `(n, out, h', w')`.

    Args:
        bias: `(out)`, added to every pixel.
        padding: Zeros on both sides of both axes, of each, pairs of them, or `valid`, `same`, `same_lower`.
    """
    return _convolve(2, x, weight, bias, stride, padding, dilation, groups)


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
    """Volumes `(n, channels, d, h, w)` correlated with `(out, channels / groups, kd, kh, kw)`; see `conv2d`."""
    return _convolve(3, x, weight, bias, stride, padding, dilation, groups)
