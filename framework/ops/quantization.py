"""Numbers in few bits: `q = round(x / scale) + zero_point`, and products of such numbers.

Reference:
    Jacob et al. 2018, arXiv:1712.05877; ONNX operators QuantizeLinear, MatMulInteger, ConvInteger.
"""

from typing import Unpack

import numpy as np
import numpy.typing as npt

from ..dtype import Dtype, as_dtype, float32, float64, int32
from ..errors import DtypeError, ShapeError
from ..specs import normalize_axis
from ..tensor import Tensor
from .arithmetic_ops import add, divide, multiply, subtract
from .convolution_ops import conv1d, conv2d, conv3d
from .layout import expand_dims, repeat, reshape
from .matrix_products import matmul
from .operands import cast_to
from .reduce import broadcast_to
from .rounding_ops import clip, round
from .sliding_window import ConvolutionOptions

_CONV = {3: conv1d, 4: conv2d, 5: conv3d}


def spread_scales(values: Tensor, x: Tensor, axis: int, block: int = 0) -> Tensor:
    """Return scales or zero points in a shape that broadcasts to `x`: one for all, one along an axis, or one a
    block."""
    if values.size == 1 and not block:
        return reshape(values, ())
    place = normalize_axis(axis, x.ndim)
    if block:
        return repeat(values, block, place)[(*(slice(None),) * place, slice(0, x.shape[place]))]
    if values.ndim != 1 or values.shape[0] != x.shape[place]:
        raise ShapeError(
            f"one scale for each element along axis {axis} of {x.shape} expects ({x.shape[place]},), got {values.shape}"
        )
    return reshape(values, (-1, *(1,) * (x.ndim - 1 - place)))


def _bounds(dtype: Dtype) -> tuple[int, int]:
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        raise DtypeError(f"quantization expects int8, uint8, int16 or uint16, got {dtype}")
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    dtype: npt.DTypeLike = "uint8",
    axis: int = 1,
    block: int = 0,
) -> Tensor:
    """`round(x / scale) + zero_point`, within the range of the integer type; halves to even.

    Args:
        x: Floating-point.
        scale: One number, one for each element along `axis`, or one for each block of `block` elements along it.
        zero_point: Like `scale`; its type takes the place of `dtype`.
        dtype: Of the result: int8, uint8, int16 or uint16.
    """
    kind = as_dtype(dtype) if zero_point is None else zero_point.dtype
    low, high = _bounds(kind)
    whole = cast_to(round(cast_to(divide(x, spread_scales(scale, x, axis, block)), float32)), float64)
    if zero_point is not None:
        whole = add(whole, cast_to(spread_scales(zero_point, x, axis, block), float64))
    return cast_to(clip(whole, low, high), kind)


def dequantize_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block: int = 0
) -> Tensor:
    """Return `(x - zero_point) scale`, in the type of the scale; see `quantize_linear`."""
    numbers = cast_to(x, float32)
    if zero_point is not None:
        numbers = subtract(numbers, cast_to(spread_scales(zero_point, x, axis, block), float32))
    return cast_to(multiply(numbers, cast_to(spread_scales(scale, x, axis, block), float32)), scale.dtype)


def _centred(x: Tensor, zero_point: Tensor | None, axis: int) -> Tensor:
    """Return `x - zero_point` in float64, whose products of such numbers BLAS computes exactly."""
    wide = cast_to(x, float64)
    if zero_point is None:
        return wide
    zero = cast_to(zero_point, float64)
    if zero.ndim == 1 and zero.size > 1:
        zero = reshape(zero, (-1, *(1,) * (x.ndim - 1 - normalize_axis(axis, x.ndim))))
    elif zero.size == 1:
        zero = reshape(zero, ())
    return subtract(wide, zero)


def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """Return `(a - a_zero) @ (b - b_zero)` in int32, exact.

    Args:
        a: 8-bit integers `(..., m, k)`.
        b: 8-bit integers `(..., k, n)`.
        a_zero: One number, or one for each row `(m,)`.
        b_zero: One number, or one for each column `(n,)`.
    """
    return cast_to(matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1)), int32)


def conv_integer(
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    **how: Unpack[ConvolutionOptions],
) -> Tensor:
    """Return the convolution of `x - x_zero` with `weight - weight_zero` in int32; options as of `conv2d`.

    Args:
        x: 8-bit integers `(n, channels, ...)` with one to three further axes; padding counts as `x_zero`.
        weight: 8-bit integers `(out, channels / groups, ...)`.
        weight_zero: One number, or one for each output channel.
    """
    if x.ndim not in _CONV:
        raise ShapeError(f"conv_integer expects images with one to three axes behind the channels, got {x.shape}")
    return cast_to(_CONV[x.ndim](_centred(x, x_zero, 0), _centred(weight, weight_zero, 0), **how), int32)


def _requantized(total: Tensor, factor: Tensor, zero_point: Tensor) -> Tensor:
    low, high = _bounds(zero_point.dtype)
    whole = round(multiply(cast_to(total, float64), cast_to(factor, float64)))
    return cast_to(clip(add(whole, cast_to(reshape(zero_point, ()), float64)), low, high), zero_point.dtype)


def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    scale: Tensor,
    zero_point: Tensor,
) -> Tensor:
    """Return the product of two quantized matrices, quantized by `scale` and `zero_point`."""
    total = matmul_integer(a, b, a_zero, b_zero)
    rows = expand_dims(a_scale, -1) if a_scale.ndim == 1 and a_scale.size > 1 else a_scale
    factor = divide(multiply(cast_to(rows, float64), cast_to(b_scale, float64)), cast_to(reshape(scale, ()), float64))
    return _requantized(total, broadcast_to(factor, total.shape), zero_point)


def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    bias: Tensor | None = None,
    **how: Unpack[ConvolutionOptions],
) -> Tensor:
    """Return the convolution of quantized images, quantized by `scale` and `zero_point`; `bias` in units of both
    scales."""
    total = conv_integer(x, weight, x_zero, weight_zero, **how)
    channels = (-1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total = add(total, reshape(bias, channels))
    weights = reshape(weight_scale, channels) if weight_scale.size > 1 else reshape(weight_scale, ())
    factor = divide(
        multiply(cast_to(reshape(x_scale, ()), float64), cast_to(weights, float64)),
        cast_to(reshape(scale, ()), float64),
    )
    return _requantized(total, broadcast_to(factor, total.shape), zero_point)


def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return `x` as uint8 with scale and zero point that use the whole range, 0 included: `(quantized, scale, zero
    point)`."""
    high, low = clip(x.max(), 0.0, None), clip(x.min(), None, 0.0)
    scale = divide(subtract(high, low), 255.0)
    zero = cast_to(clip(round(divide(cast_to(-low, float32), scale)), 0.0, 255.0), as_dtype("uint8"))
    return quantize_linear(x, scale, zero), scale, zero
