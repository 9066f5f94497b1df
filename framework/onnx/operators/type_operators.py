"""Casts between ONNX's element types, and quantized numbers; 8-bit floats and 4-bit numbers included."""

import ml_dtypes
import numpy as np

from ... import ops
from ...dtype import Dtype, as_dtype
from ...errors import DtypeError
from ...ops.sliding_window import ConvolutionOptions
from ...tensor import Array, Tensor, wrap
from ..onnx_values import as_strings, dtype_of
from ..operator_call import Elements, OperatorCall, array_of, operator
from .network_operators import padding_of

_STRING = 8


def is_own(dtype: Dtype) -> bool:
    """Return whether it is an element type of the engine."""
    try:
        as_dtype(dtype)
    except DtypeError:
        return False
    return True


@operator("Cast")
def cast(call: OperatorCall, x: Elements) -> Elements:
    """Return the values in another element type."""
    return _cast(call, x, call.get("to"))


@operator("CastLike")
def cast_like(call: OperatorCall, x: Elements, like: Elements) -> Elements:
    """Return the values in the element type of another tensor."""
    if isinstance(like, np.ndarray):
        return _cast(call, x, _STRING)
    return _to(call, x, like.dtype)


def _cast(call: OperatorCall, x: Elements, code: int) -> Elements:
    if code == _STRING:
        return as_strings(array_of(x))
    return _to(call, x, dtype_of(code))


def _to(call: OperatorCall, x: Elements, dtype: Dtype) -> Tensor:
    if isinstance(x, np.ndarray):
        return wrap(_parsed(x, dtype))
    if is_own(x.dtype) and is_own(dtype):
        return ops.cast(x, dtype)
    saturate, rounding = bool(call.get("saturate", 1)), call.get("round_mode", "up")
    return wrap(narrowed(x.numpy(), dtype, saturate=saturate, rounding=rounding))


def _parsed(words: Array, dtype: Dtype) -> Array:
    """Return the numbers that words name."""
    numbers = np.asarray([float(word) for word in words.reshape(-1)], np.float64).reshape(words.shape)
    if dtype.kind in "iu":
        return np.asarray([int(float(word)) for word in words.reshape(-1)], dtype).reshape(words.shape)
    return numbers.astype(dtype)


def narrowed(x: Array, dtype: Dtype, *, saturate: bool = True, rounding: str = "up") -> Array:
    """Return the values in a type of 8 bits or fewer: too large ones become the largest where `saturate` holds."""
    if dtype == ml_dtypes.float8_e8m0fnu:
        return _exponents(x, saturate, rounding)
    if not dtype.name.startswith("float8") or not saturate:
        return x.astype(dtype)
    most = ml_dtypes.finfo(dtype)
    wide = x.astype(np.float64)
    return (
        np.clip(wide, float(most.min), float(most.max))
        .astype(x.dtype if x.dtype.kind == "f" else np.float32)
        .astype(dtype)
    )


def _exponents(x: Array, saturate: bool, rounding: str) -> Array:
    """Return powers of two by their exponent alone (E8M0), rounded to the nearest, up or down.

    Reference:
        OCP Microscaling Formats (MX) Specification 1.0, section 5.4.1.
    """
    bits = np.asarray(x, np.float32).view(np.uint32)
    exponent = ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int64)
    fraction = (bits & np.uint32(0x7FFFFF)).astype(np.int64)
    finite = exponent != 0xFF
    half = 1 << 22
    if rounding == "up":
        grows = fraction > 0
    elif rounding == "nearest":
        grows = (fraction > half) | ((fraction == half) & (exponent > 0))
    else:
        grows = np.zeros(exponent.shape, np.bool_)
    grown = exponent + (grows & finite)
    limit = 0xFE if saturate else 0xFF
    found: Array = np.minimum(grown, np.where(finite, limit, 0xFF)).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    return found


@operator("BitCast")
def bit_cast(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the same bits read as another type of the same width."""
    dtype = dtype_of(call.get("to"))
    if dtype.itemsize != x.dtype.itemsize:
        raise DtypeError(f"BitCast expects types of one width, got {x.dtype} and {dtype}")
    return wrap(np.ascontiguousarray(x.numpy()).view(dtype).reshape(x.shape))


_SMALL = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


@operator("QuantizeLinear")
def quantize(call: OperatorCall, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """Return `x / scale + zero_point`, rounded, in a type of few bits."""
    code, axis, block = call.get("output_dtype", 0), call.get("axis", 1), call.get("block_size", 0)
    dtype = zero_point.dtype if zero_point is not None else dtype_of(code) if code else np.dtype(np.uint8)
    if "precision" in call.attributes and call.get("precision"):
        precision = dtype_of(call.get("precision"))
        x, scale = ops.cast(x, precision), ops.cast(scale, precision)
    if is_own(dtype) and dtype.kind in "iu":
        return ops.quantize_linear(x, scale, zero_point, dtype=dtype, axis=axis, block=block)
    quotient = ops.divide(x, ops.spread_scales(scale, x, axis, block)).numpy()
    zero = None if zero_point is None else ops.spread_scales(zero_point, x, axis, block).numpy()
    return wrap(_small(quotient, zero, dtype, saturate=bool(call.get("saturate", 1))))


def _small(quotient: Array, zero: Array | None, dtype: Dtype, *, saturate: bool) -> Array:
    if dtype.name in _SMALL:
        whole = np.rint(quotient).astype(np.int32) + (0 if zero is None else zero.astype(np.int32))
        clipped: Array = np.clip(whole, *_SMALL[dtype.name]).astype(dtype)
        return clipped
    if zero is not None and dtype.name.startswith(("float4", "float6")):
        quotient = quotient + zero.astype(quotient.dtype)
    return narrowed(quotient, dtype, saturate=saturate)


@operator("DequantizeLinear")
def dequantize(call: OperatorCall, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """Return `(x - zero_point) scale`."""
    axis, block = call.get("axis", 1), call.get("block_size", 0)
    if not is_own(x.dtype):
        x = wrap(x.numpy().astype(np.float32))
        zero_point = None if zero_point is None else wrap(zero_point.numpy().astype(np.float32))
    own = ops.cast(scale, "float32") if not is_own(scale.dtype) or scale.dtype == ml_dtypes.bfloat16 else scale
    out = ops.dequantize_linear(x, own, zero_point, axis=axis, block=block)
    code = call.get("output_dtype", 0)
    return ops.cast(out, dtype_of(code) if code else scale.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(call: OperatorCall, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tensor as uint8 with its scale and zero point."""
    return ops.dynamic_quantize_linear(x)


@operator("MatMulInteger")
def matmul_integer(
    call: OperatorCall, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """Return the product of 8-bit matrices less their zero points, in int32."""
    return ops.matmul_integer(a, b, a_zero, b_zero)


def _conv_how(call: OperatorCall, axes: int) -> ConvolutionOptions:
    return {
        "stride": call.get("strides", 1),
        "padding": padding_of(call, axes),
        "dilation": call.get("dilations", 1),
        "groups": call.get("group", 1),
    }


@operator("ConvInteger")
def conv_integer(
    call: OperatorCall, x: Tensor, weight: Tensor, x_zero: Tensor | None = None, weight_zero: Tensor | None = None
) -> Tensor:
    """Return the convolution of 8-bit images less their zero points, in int32."""
    return ops.conv_integer(x, weight, x_zero, weight_zero, **_conv_how(call, x.ndim - 2))


@operator("QLinearMatMul")
def qlinear_matmul(call: OperatorCall, *inputs: Tensor) -> Tensor:
    """Return the product of quantized matrices, quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero_point = inputs
    if not is_own(a.dtype):
        raise call.refuse(f"a product of {a.dtype} matrices")
    return ops.qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, scale=scale, zero_point=zero_point)


@operator("QLinearConv")
def qlinear_conv(call: OperatorCall, x: Tensor, *inputs: Tensor) -> Tensor:
    """Return the convolution of quantized images, quantized."""
    return ops.qlinear_conv(x, *inputs, **_conv_how(call, x.ndim - 2))
