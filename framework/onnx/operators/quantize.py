"""Quantized numbers; those of types that the engine does not compute in (8- and 4-bit floats, 4-bit integers) too."""

from typing import Any

import ml_dtypes
import numpy as np

from ... import ops
from ...dtype import Dtype
from ...tensor import Tensor, wrap
from ..call import Call
from ..registry import operator
from ..values import dtype_of
from .types import is_own, narrowed
from .window import padding_of

_SMALL = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


@operator("QuantizeLinear")
def quantize(call: Call, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """`x / scale + zero_point`, rounded, in a type of few bits."""
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


def _small(quotient: Any, zero: Any, dtype: Dtype, *, saturate: bool) -> Any:
    if dtype.name in _SMALL:
        whole = np.rint(quotient).astype(np.int32) + (0 if zero is None else zero.astype(np.int32))
        return np.clip(whole, *_SMALL[dtype.name]).astype(dtype)
    if zero is not None and dtype.name.startswith(("float4", "float6")):
        quotient = quotient + zero.astype(quotient.dtype)
    return narrowed(quotient, dtype, saturate=saturate)


@operator("DequantizeLinear")
def dequantize(call: Call, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """`(x - zero_point) scale`."""
    axis, block = call.get("axis", 1), call.get("block_size", 0)
    if not is_own(x.dtype):
        x = wrap(x.numpy().astype(np.float32))
        zero_point = None if zero_point is None else wrap(zero_point.numpy().astype(np.float32))
    own = ops.cast(scale, "float32") if not is_own(scale.dtype) or scale.dtype == ml_dtypes.bfloat16 else scale
    out = ops.dequantize_linear(x, own, zero_point, axis=axis, block=block)
    code = call.get("output_dtype", 0)
    return ops.cast(out, dtype_of(code) if code else scale.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(call: Call, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The tensor as uint8 with its scale and zero point."""
    return ops.dynamic_quantize_linear(x)


@operator("MatMulInteger")
def matmul_integer(call: Call, a: Tensor, b: Tensor, a_zero: Any = None, b_zero: Any = None) -> Tensor:
    """The product of 8-bit matrices less their zero points, in int32."""
    return ops.matmul_integer(a, b, a_zero, b_zero)


def _conv_how(call: Call, axes: int) -> dict[str, Any]:
    return {
        "stride": call.get("strides", 1),
        "padding": padding_of(call, axes),
        "dilation": call.get("dilations", 1),
        "groups": call.get("group", 1),
    }


@operator("ConvInteger")
def conv_integer(call: Call, x: Tensor, weight: Tensor, x_zero: Any = None, weight_zero: Any = None) -> Tensor:
    """The convolution of 8-bit images less their zero points, in int32."""
    return ops.conv_integer(x, weight, x_zero, weight_zero, **_conv_how(call, x.ndim - 2))


@operator("QLinearMatMul")
def qlinear_matmul(call: Call, *inputs: Tensor) -> Tensor:
    """The product of quantized matrices, quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero_point = inputs
    if not is_own(a.dtype):
        raise call.refuse(f"a product of {a.dtype} matrices")
    return ops.qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero_point)


@operator("QLinearConv")
def qlinear_conv(call: Call, x: Tensor, *inputs: Tensor) -> Tensor:
    """The convolution of quantized images, quantized."""
    return ops.qlinear_conv(x, *inputs, **_conv_how(call, x.ndim - 2))
