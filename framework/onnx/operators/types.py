"""Element types: casts between all of ONNX's, words and 8- and 4-bit numbers included."""

from typing import Any

import ml_dtypes
import numpy as np

from ... import ops
from ...dtype import Dtype, as_dtype
from ...errors import DtypeError
from ...tensor import Array, Tensor, wrap
from ..call import Call, array_of
from ..registry import operator
from ..values import as_strings, dtype_of

_STRING = 8


def is_own(dtype: Dtype) -> bool:
    """Whether it is an element type of the engine."""
    try:
        as_dtype(dtype)
    except DtypeError:
        return False
    return True


@operator("Cast")
def cast(call: Call, x: Any) -> Any:
    """The values in another element type."""
    return _cast(call, x, call.get("to"))


@operator("CastLike")
def cast_like(call: Call, x: Any, like: Any) -> Any:
    """The values in the element type of another tensor."""
    if isinstance(like, np.ndarray):
        return _cast(call, x, _STRING)
    return _to(call, x, like.dtype)


def _cast(call: Call, x: Any, code: int) -> Any:
    if code == _STRING:
        return as_strings(array_of(x))
    return _to(call, x, dtype_of(code))


def _to(call: Call, x: Any, dtype: Dtype) -> Tensor:
    if isinstance(x, np.ndarray):
        return wrap(_parsed(x, dtype))
    if is_own(x.dtype) and is_own(dtype):
        return ops.cast(x, dtype)
    saturate, rounding = bool(call.get("saturate", 1)), call.get("round_mode", "up")
    return wrap(narrowed(x.numpy(), dtype, saturate=saturate, rounding=rounding))


def _parsed(words: Array, dtype: Dtype) -> Array:
    """The numbers that words name."""
    numbers = np.asarray([float(word) for word in words.reshape(-1)], np.float64).reshape(words.shape)
    if dtype.kind in "iu":
        return np.asarray([int(float(word)) for word in words.reshape(-1)], dtype).reshape(words.shape)
    return numbers.astype(dtype)


def narrowed(x: Array, dtype: Dtype, *, saturate: bool = True, rounding: str = "up") -> Array:
    """The values in a type of 8 bits or fewer: too large ones become the largest where `saturate` holds."""
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
    """Powers of two by their exponent alone (E8M0), rounded to the nearest, up or down.

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
def bit_cast(call: Call, x: Tensor) -> Tensor:
    """The same bits read as another type of the same width."""
    dtype = dtype_of(call.get("to"))
    if dtype.itemsize != x.dtype.itemsize:
        raise DtypeError(f"BitCast expects types of one width, got {x.dtype} and {dtype}")
    return wrap(np.ascontiguousarray(x.numpy()).view(dtype).reshape(x.shape))
