"""Comparisons, tests, logic, operations on bits, and choice by a condition."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtype import Dtype, as_dtype, bool_
from ..errors import DtypeError, ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..specs import Spec, broadcast_shapes, normalize_axis
from ..tensor import Array, Tensor, TensorLike, method
from .operands import as_tensor, cast_to, infer_broadcast, infer_same, pair
from .reduce import sum_to


def _infer_pair(a: Spec, b: Spec) -> Spec:
    return Spec(broadcast_shapes(a.shape, b.shape), bool_)


def _comparison(name: str, function: Callable[..., Array]) -> Primitive:
    return Primitive(name, function, _infer_pair, NOT_DIFFERENTIABLE)


_equal = _comparison("equal", np.equal)
_not_equal = _comparison("not_equal", np.not_equal)
_less = _comparison("less", np.less)
_less_equal = _comparison("less_equal", np.less_equal)
_greater = _comparison("greater", np.greater)
_greater_equal = _comparison("greater_equal", np.greater_equal)
_logical_and = _comparison("logical_and", np.logical_and)
_logical_or = _comparison("logical_or", np.logical_or)
_logical_xor = _comparison("logical_xor", np.logical_xor)


@method
def equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a == b`."""
    return _equal(*pair(a, b))


@method
def not_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a != b`."""
    return _not_equal(*pair(a, b))


@method
def less(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a < b`."""
    return _less(*pair(a, b))


@method
def less_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a <= b`."""
    return _less_equal(*pair(a, b))


@method
def greater(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a > b`."""
    return _greater(*pair(a, b))


@method
def greater_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a >= b`."""
    return _greater_equal(*pair(a, b))


@method
def logical_and(a: TensorLike, b: TensorLike) -> Tensor:
    """Return whether both elements are true (not zero)."""
    return _logical_and(*pair(a, b))


@method
def logical_or(a: TensorLike, b: TensorLike) -> Tensor:
    """Return whether one of the elements is true (not zero)."""
    return _logical_or(*pair(a, b))


@method
def logical_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """Return whether exactly one of the elements is true (not zero)."""
    return _logical_xor(*pair(a, b))


@method
def isclose(a: TensorLike, b: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Return whether `|a - b| <= atol + rtol |b|`; infinities are close to themselves."""
    return _isclose(*pair(a, b), rtol=rtol, atol=atol, equal_nan=equal_nan)


_isclose: Primitive = Primitive(
    "isclose",
    lambda a, b, *, rtol, atol, equal_nan: np.isclose(a, b, rtol, atol, equal_nan),
    lambda a, b, **_: _infer_pair(a, b),
    NOT_DIFFERENTIABLE,
)


def _test(name: str, function: Callable[..., Array]) -> Primitive:
    return Primitive(name, function, lambda x: Spec(x.shape, bool_), NOT_DIFFERENTIABLE)


_logical_not = _test("logical_not", np.logical_not)
_isfinite = _test("isfinite", np.isfinite)
_isnan = _test("isnan", np.isnan)
_isinf: Primitive = Primitive(
    "isinf",
    lambda x, *, positive, negative: np.isinf(x) if positive and negative else x == (np.inf if positive else -np.inf),
    lambda x, **_: Spec(x.shape, bool_),
    NOT_DIFFERENTIABLE,
)


@method
def logical_not(x: Tensor) -> Tensor:
    """Return whether the element is false (zero)."""
    return _logical_not(as_tensor(x))


@method
def isfinite(x: Tensor) -> Tensor:
    """Return whether the element is neither NaN nor infinite."""
    return _isfinite(as_tensor(x))


@method
def isnan(x: Tensor) -> Tensor:
    """Return whether the element is NaN."""
    return _isnan(as_tensor(x))


@method
def isinf(x: Tensor, *, positive: bool = True, negative: bool = True) -> Tensor:
    """Return whether the element is infinite, of a sign that counts."""
    if not positive and not negative:
        raise ValueError("isinf expects positive or negative infinities to count, or both; got neither")
    return _isinf(as_tensor(x), positive=positive, negative=negative)


def _infer_index(x: Spec, *, axis: int | None) -> Spec:
    if axis is None:
        return Spec((), np.dtype(np.intp))
    gone = normalize_axis(axis, len(x.shape))
    return Spec(x.shape[:gone] + x.shape[gone + 1 :], np.dtype(np.intp))


def _argmax_of(x: Array, *, axis: int | None) -> Array | np.intp:
    return np.argmax(x, axis=axis)


_argmax: Primitive = Primitive("argmax", _argmax_of, _infer_index, NOT_DIFFERENTIABLE)


@method
def argmax(x: Tensor, axis: int | None = None) -> Tensor:
    """Index of the largest element (the first of equals), over `axis` or over all elements."""
    return _argmax(as_tensor(x), axis=axis)


_argmin: Primitive = Primitive("argmin", lambda x, *, axis: np.argmin(x, axis=axis), _infer_index, NOT_DIFFERENTIABLE)


@method
def argmin(x: Tensor, axis: int | None = None) -> Tensor:
    """Index of the smallest element (the first of equals), over `axis` or over all elements."""
    return _argmin(as_tensor(x), axis=axis)


def _bits(name: str, function: Callable[..., Array]) -> Primitive:
    return Primitive(name, function, infer_broadcast, NOT_DIFFERENTIABLE)


def _whole(name: str, a: TensorLike, b: TensorLike) -> tuple[TensorLike, TensorLike]:
    """Return both operands in one integer (or bool) dtype."""
    first, second = pair(a, b)
    for x in (first, second):
        if isinstance(x, Tensor) and x.dtype.kind not in "iub":
            raise DtypeError(f"'{name}' expects integers or bools, got {x.dtype}; cast it first")
    return first, second


def _shift(function: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    """Return a shift in which every bit is lost once the distance reaches the width, as mathematics has it."""

    def evaluate(a: Array, b: Array) -> Array:
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
    """Return the bits that both have."""
    return _and(*_whole("bitwise_and", a, b))


@method
def bitwise_or(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the bits that one or both have."""
    return _or(*_whole("bitwise_or", a, b))


@method
def bitwise_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the bits that exactly one has."""
    return _xor(*_whole("bitwise_xor", a, b))


@method
def bitwise_not(x: Tensor) -> Tensor:
    """Return every bit turned over; of a bool the opposite."""
    return _not(_whole("bitwise_not", x, x)[0])


@method
def left_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a 2**b`, without the bits that leave the dtype."""
    return _left(*_whole("left_shift", a, b))


@method
def right_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `floor(a / 2**b)`."""
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
    """Return the same bytes read as another dtype.

    Args:
        x: `(*shape)`.
        dtype: Of the same size, or smaller: then a last axis holds the pieces; or larger: then the last axis is one
            element's pieces. No gradient flows.
    """
    return _bitcast(as_tensor(x), dtype=as_dtype(dtype))


def _infer_where(condition: Spec, a: Spec, b: Spec) -> Spec:
    shape = broadcast_shapes(condition.shape, a.shape, b.shape)
    return Spec(shape, b.dtype if a.weak else a.dtype)


def _choose(condition: Array, a: Any, b: Any) -> Array:
    """Return `np.where`, in which a Python number takes the dtype of the other operand, bfloat16 too."""
    if not isinstance(a, np.ndarray):
        a = b.dtype.type(a)
    elif not isinstance(b, np.ndarray):
        b = a.dtype.type(b)
    chosen: Array = np.where(condition, a, b)
    return chosen


_where: Primitive = Primitive(
    "where",
    _choose,
    _infer_where,
    (
        None,
        lambda g, _, condition, a, b: sum_to(_where(condition, g, 0.0), a),
        lambda g, _, condition, a, b: sum_to(_where(condition, 0.0, g), b),
    ),
)


def where(condition: Tensor, a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a` where the condition holds, else `b`."""
    a, b = pair(a, b)
    return _where(cast_to(as_tensor(condition), bool_), a, b)


@method
def masked_fill(x: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """Return the tensor with one value where the mask, which broadcasts, holds."""
    return where(mask, value, x)
