"""Reductions made of others: products, truth, norms, logarithms of sums, spread."""

import math
from collections.abc import Callable

import numpy as np

from ..dtype import NARROW, bool_, int64, uint64
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..specs import Axes, Shape, Spec, normalize_axes, reduced_shape
from ..tensor import Array, Tensor, method
from .arithmetic_ops import abs, divide, multiply, square, subtract
from .cumulative import exclusive_products
from .logic_ops import isfinite, not_equal, where
from .operands import as_floating, as_real, as_tensor, cast_to, conjugate
from .reduce import kept, max, mean, min, sum
from .transcendental import exp, log, power, sqrt


def _product_of(x: Array, *, axes: Shape, keepdims: bool) -> Array:
    if x.dtype in NARROW:
        return np.asarray(x.prod(axes, np.float32, keepdims=keepdims)).astype(x.dtype)
    return np.asarray(x.prod(axes, keepdims=keepdims))


def _infer_product(x: Spec, *, axes: Shape, keepdims: bool) -> Spec:
    dtype = int64 if x.dtype.kind in "bi" else uint64 if x.dtype.kind == "u" else x.dtype
    return Spec(reduced_shape(x.shape, axes, keepdims), dtype)


def _product_gradient(g: Tensor, _: None, x: Tensor, *, axes: Shape, keepdims: bool) -> Tensor:
    """Return `g` times the product of the other elements: no division, so zeros are no exception."""
    stay = tuple(axis for axis in range(x.ndim) if axis not in axes)
    order = (*stay, *axes)
    rows = x.transpose(order).reshape(*(x.shape[axis] for axis in stay), math.prod(x.shape[axis] for axis in axes))
    others = exclusive_products(rows) * exclusive_products(rows, reverse=True)
    back = tuple(order.index(axis) for axis in range(x.ndim))
    shaped = others.reshape(tuple(x.shape[axis] for axis in order)).transpose(back)
    return multiply(kept(g, x, axes), conjugate(shaped))


_prod: Primitive = Primitive("prod", _product_of, _infer_product, (_product_gradient,))


@method
def prod(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return product over `axis`; integers multiply in int64, 16-bit floats in float32. The gradient is right at zeros
    too."""
    x = as_tensor(x)
    if x.dtype == bool_:
        x = cast_to(x, int64)
    return _prod(x, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


def _truth(name: str, function: Callable[..., Array]) -> Primitive:
    return Primitive(
        name,
        lambda x, *, axes, keepdims: np.asarray(function(x, axis=axes, keepdims=keepdims)),
        lambda x, *, axes, keepdims: Spec(reduced_shape(x.shape, axes, keepdims), bool_),
        NOT_DIFFERENTIABLE,
    )


_any, _all = _truth("any", np.any), _truth("all", np.all)


@method
def any(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return whether one element over `axis` is true (not zero); false where there is none."""
    x = as_tensor(x)
    return _any(x, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


@method
def all(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return whether every element over `axis` is true (not zero); true where there is none."""
    x = as_tensor(x)
    return _all(x, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


@method
def count_nonzero(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return how many elements over `axis` are not zero, in int64."""
    return sum(not_equal(x, 0), axis, keepdims)


@method
def logsumexp(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """`log(sum(e**x))` over `axis`, without overflow; minus infinity where there is no element."""
    x = as_real(x, "logsumexp")
    axes = normalize_axes(axis, x.ndim)
    return _logsumexp(x, axes=axes, keepdims=keepdims)


def _logsumexp_of(x: Array, *, axes: Shape, keepdims: bool) -> Array:
    wide = x.astype(np.float32) if x.dtype in NARROW else x
    top = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, wide.dtype.type(0))
    total = np.log(np.exp(wide - shift).sum(axes, keepdims=True)) + shift
    found: Array = total.reshape(reduced_shape(x.shape, axes, keepdims)).astype(x.dtype, copy=False)
    return found


def _logsumexp_gradient(g: Tensor, out: Tensor, x: Tensor, *, axes: Shape, keepdims: bool) -> Tensor:
    whole = kept(out, x, axes)
    return multiply(kept(g, x, axes), exp(subtract(x, where(isfinite(whole), whole, 0.0))))


_logsumexp: Primitive = Primitive(
    "logsumexp",
    _logsumexp_of,
    lambda x, *, axes, keepdims: Spec(reduced_shape(x.shape, axes, keepdims), x.dtype),
    (_logsumexp_gradient,),
    saves_output=True,
)


@method
def log_sum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """`log(sum(x))` over `axis`."""
    return log(sum(x, axis, keepdims))


@method
def sum_square(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """`sum(|x|**2)` over `axis`."""
    x = as_tensor(x)
    return sum(square(abs(x)) if x.dtype.kind == "c" else square(x), axis, keepdims)


@method
def l1_norm(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """`sum(|x|)` over `axis`."""
    return sum(abs(as_tensor(x)), axis, keepdims)


@method
def l2_norm(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return `sqrt(sum(|x|**2))` over `axis`; the slope at 0 is taken as 0."""
    x = as_floating(x)
    return safe_sqrt(sum_square(x, axis, keepdims))


def safe_sqrt(x: Tensor) -> Tensor:
    """Return the square root, whose slope at 0 is taken as 0 instead of infinity."""
    nothing = x <= 0.0
    return where(nothing, 0.0, sqrt(where(nothing, 1.0, x)))


@method
def vector_norm(x: Tensor, order: float = 2.0, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the norm of that order of the elements over `axis`; infinite orders give the largest or smallest size."""
    x = as_floating(x)
    if order == math.inf:
        return max(abs(x), axis, keepdims)
    if order == -math.inf:
        return min(abs(x), axis, keepdims)
    if order == 0:
        return cast_to(count_nonzero(x, axis, keepdims), abs(x).dtype)
    if order == 1:
        return l1_norm(x, axis, keepdims)
    if order == 2:
        return l2_norm(x, axis, keepdims)
    size = abs(x)
    nothing = size == 0.0  # where the slope of a small power is infinite
    powers = where(nothing, 0.0, power(where(nothing, 1.0, size), order)) if order > 0 else power(size, order)
    total = sum(powers, axis, keepdims)
    nowhere = total == 0.0
    return where(nowhere, 0.0, power(where(nowhere, 1.0, total), 1.0 / order))


@method
def std(x: Tensor, axis: Axes = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
    """Return standard deviation over `axis`; of a sample with `ddof=1`. The slope at 0 is taken as 0."""
    return safe_sqrt(moment(x, axis, keepdims, ddof))


def moment(x: Tensor, axis: Axes, keepdims: bool, ddof: int) -> Tensor:
    """Return the variance over `axis`, divided by the number of elements less `ddof`; NaN where that is not
    positive."""
    x = as_floating(x)
    axes = normalize_axes(axis, x.ndim)
    count = math.prod(x.shape[i] for i in axes) - ddof
    centred = abs(subtract(x, mean(x, axes, keepdims=True)))
    total = sum(square(centred), axes, keepdims)
    return divide(total, count) if count > 0 else multiply(total, math.nan)


@method
def var_mean(x: Tensor, axis: Axes = None, keepdims: bool = False, ddof: int = 0) -> tuple[Tensor, Tensor]:
    """Return variance and mean over `axis`."""
    return moment(x, axis, keepdims, ddof), mean(x, axis, keepdims)


@method
def amax(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return largest element over `axis`: `max` under its other name."""
    return max(x, axis, keepdims)


@method
def amin(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return smallest element over `axis`: `min` under its other name."""
    return min(x, axis, keepdims)


@method
def nansum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum over `axis` of what is not NaN."""
    return sum(where(x == x, x, 0.0), axis, keepdims)


@method
def ptp(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return largest less smallest element over `axis`."""
    return subtract(max(x, axis, keepdims), min(x, axis, keepdims))
