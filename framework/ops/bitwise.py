"""Operations on the bits of integers, and on truth values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtype import Dtype, as_dtype
from ..errors import DtypeError, ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import Spec
from ..tensor import Array, Tensor, TensorLike, method
from .operands import as_tensor, infer_broadcast, infer_same, pair


def _bits(name: str, function: Callable[..., Any]) -> Primitive:
    return Primitive(name, function, infer_broadcast, NOT_DIFFERENTIABLE)


def _whole(name: str, a: TensorLike, b: TensorLike) -> tuple[Any, Any]:
    """Both operands in one integer (or bool) dtype."""
    first, second = pair(a, b)
    for x in (first, second):
        if isinstance(x, Tensor) and x.dtype.kind not in "iub":
            raise DtypeError(f"'{name}' expects integers or bools, got {x.dtype}; cast it first")
    return first, second


def _shift(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A shift in which every bit is lost once the distance reaches the width, as mathematics has it."""

    def evaluate(a: Any, b: Any) -> Any:
        width = 8 * (a if isinstance(a, np.ndarray) else b).dtype.itemsize
        beyond = np.asarray(b) >= width
        shifted = function(
            a, np.where(beyond, 0, b).astype(b.dtype) if isinstance(b, np.ndarray) else min(b, width - 1)
        )
        if not beyond.any():
            return shifted
        lost = -(np.asarray(a) < 0).astype(np.int8) if function is np.right_shift else np.int8(0)
        return np.where(beyond, lost, shifted).astype(shifted.dtype)

    return evaluate


_and = _bits("bitwise_and", np.bitwise_and)
_or = _bits("bitwise_or", np.bitwise_or)
_xor = _bits("bitwise_xor", np.bitwise_xor)
_left = _bits("left_shift", _shift(np.left_shift))
_right = _bits("right_shift", _shift(np.right_shift))
_not: Primitive = Primitive("bitwise_not", np.invert, infer_same, NOT_DIFFERENTIABLE)


@method
def bitwise_and(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that both have."""
    return _and(*_whole("bitwise_and", a, b))


@method
def bitwise_or(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that one or both have."""
    return _or(*_whole("bitwise_or", a, b))


@method
def bitwise_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that exactly one has."""
    return _xor(*_whole("bitwise_xor", a, b))


@method
def bitwise_not(x: Tensor) -> Tensor:
    """Every bit turned over; of a bool the opposite."""
    return _not(_whole("bitwise_not", x, x)[0])


@method
def left_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """`a 2**b`, without the bits that leave the dtype."""
    return _left(*_whole("left_shift", a, b))


@method
def right_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """`floor(a / 2**b)`."""
    return _right(*_whole("right_shift", a, b))


def _infer_bitcast(x: Spec, *, dtype: Dtype) -> Spec:
    if dtype.itemsize == x.dtype.itemsize:
        return Spec(x.shape, dtype)
    if dtype.itemsize < x.dtype.itemsize:
        return Spec((*x.shape, x.dtype.itemsize // dtype.itemsize), dtype)
    if not x.shape or x.shape[-1] * x.dtype.itemsize != dtype.itemsize:
        raise ShapeError(
            f"bitcast of {x.shape} {x.dtype} to {dtype} expects a last axis of {dtype.itemsize // x.dtype.itemsize}"
        )
    return Spec(x.shape[:-1], dtype)


def _bitcast_of(x: Array, *, dtype: Dtype) -> Array:
    shape = _infer_bitcast(Spec(x.shape, x.dtype), dtype=dtype).shape
    return np.frombuffer(np.ascontiguousarray(x).tobytes(), dtype).reshape(shape).copy()


_bitcast: Primitive = Primitive("bitcast", _bitcast_of, _infer_bitcast, NOT_DIFFERENTIABLE)


@method
def bitcast(x: Tensor, dtype: npt.DTypeLike) -> Tensor:
    """The same bytes read as another dtype.

    Args:
        x: `(*shape)`.
        dtype: Of the same size, or smaller: then a last axis holds the pieces; or larger: then the last axis is one
            element's pieces. No gradient flows.
    """
    return _bitcast(as_tensor(x), dtype=as_dtype(dtype))
