"""Comparisons and tests of elements; no gradient flows through any of them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtype import bool_
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import Spec, broadcast_shapes, normalize_axis
from ..tensor import Array, Tensor, TensorLike, method
from .operands import as_tensor, pair


def _infer_pair(a: Spec, b: Spec) -> Spec:
    return Spec(broadcast_shapes(a.shape, b.shape), bool_)


def _comparison(name: str, function: Callable[..., Any]) -> Primitive:
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
    """`a == b`."""
    return _equal(*pair(a, b))


@method
def not_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """`a != b`."""
    return _not_equal(*pair(a, b))


@method
def less(a: TensorLike, b: TensorLike) -> Tensor:
    """`a < b`."""
    return _less(*pair(a, b))


@method
def less_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """`a <= b`."""
    return _less_equal(*pair(a, b))


@method
def greater(a: TensorLike, b: TensorLike) -> Tensor:
    """`a > b`."""
    return _greater(*pair(a, b))


@method
def greater_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """`a >= b`."""
    return _greater_equal(*pair(a, b))


@method
def logical_and(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether both elements are true (not zero)."""
    return _logical_and(*pair(a, b))


@method
def logical_or(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether one of the elements is true (not zero)."""
    return _logical_or(*pair(a, b))


@method
def logical_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether exactly one of the elements is true (not zero)."""
    return _logical_xor(*pair(a, b))


@method
def isclose(a: TensorLike, b: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether `|a - b| <= atol + rtol |b|`; infinities are close to themselves."""
    return _isclose(*pair(a, b), rtol=rtol, atol=atol, equal_nan=equal_nan)


_isclose: Primitive = Primitive(
    "isclose",
    lambda a, b, *, rtol, atol, equal_nan: np.isclose(a, b, rtol, atol, equal_nan),
    lambda a, b, **_: _infer_pair(a, b),
    NOT_DIFFERENTIABLE,
)


def _test(name: str, function: Callable[..., Any]) -> Primitive:
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
    """Whether the element is false (zero)."""
    return _logical_not(as_tensor(x))


@method
def isfinite(x: Tensor) -> Tensor:
    """Whether the element is neither NaN nor infinite."""
    return _isfinite(as_tensor(x))


@method
def isnan(x: Tensor) -> Tensor:
    """Whether the element is NaN."""
    return _isnan(as_tensor(x))


@method
def isinf(x: Tensor, *, positive: bool = True, negative: bool = True) -> Tensor:
    """Whether the element is infinite, of a sign that counts."""
    if not positive and not negative:
        raise ValueError("isinf expects positive or negative infinities to count, or both; got neither")
    return _isinf(as_tensor(x), positive=positive, negative=negative)


def _infer_index(x: Spec, *, axis: int | None) -> Spec:
    if axis is None:
        return Spec((), np.dtype(np.intp))
    gone = normalize_axis(axis, len(x.shape))
    return Spec(x.shape[:gone] + x.shape[gone + 1 :], np.dtype(np.intp))


def _argmax_of(x: Array, *, axis: int | None) -> Any:
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
