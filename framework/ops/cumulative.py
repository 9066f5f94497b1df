"""Running totals along an axis: sums, products, extremes, logarithms of sums."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtype import NARROW, bool_, int64
from ..primitive import Primitive
from ..specs import Spec, normalize_axis
from ..tensor import Array, Tensor, method
from .arithmetic_ops import minimum, multiply, subtract
from .create import full
from .gather_scatter import put_elements
from .indexing_ops import narrow
from .layout import concat
from .logic_ops import equal, where
from .operands import as_real, as_tensor, cast_to, conjugate
from .transcendental import exp


def _running(function: Any, x: Array, axis: int, exclusive: bool, reverse: bool, first: float) -> Array:
    """Return a NumPy accumulation along an axis, from its end if `reverse`, of the elements before each if
    `exclusive`."""
    wide = x.astype(np.float32) if x.dtype in NARROW else x
    turned = np.flip(wide, axis) if reverse else wide
    total = function(turned, axis)
    if exclusive:
        total = np.roll(total, 1, axis)
        total[(*(slice(None),) * axis, slice(0, 1))] = first
    result: Array = np.ascontiguousarray(np.flip(total, axis) if reverse else total)
    return result.astype(x.dtype, copy=False)


def _sums(x: Array, axis: int) -> Array:
    return np.cumsum(x, axis, dtype=x.dtype)


def _products(x: Array, axis: int) -> Array:
    return np.cumprod(x, axis, dtype=x.dtype)


_cumsum: Primitive = Primitive(
    "cumsum",
    lambda x, *, axis, exclusive, reverse: _running(_sums, x, axis, exclusive, reverse, 0.0),
    lambda x, **_: x,
    (lambda g, _, x, *, axis, exclusive, reverse: _cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),),
)


@method
def cumsum(x: Tensor, axis: int = 0, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Return sums of the elements up to each along `axis`.

    Args:
        x: Integers stay in their dtype (bools become int64), 16-bit floats add up in float32.
        axis: Along which.
        exclusive: Without the element itself: the first sum is 0.
        reverse: From each element to the end.
    """
    x = as_tensor(x)
    x = cast_to(x, int64) if x.dtype == bool_ else x
    return _cumsum(x, axis=normalize_axis(axis, x.ndim), exclusive=exclusive, reverse=reverse)


def exclusive_products(x: Tensor, reverse: bool = False) -> Tensor:
    """Return products of the elements before each (after each) along the last axis, made of plain products.

    A shifted product with itself doubles its reach: `log2(n)` products, differentiable to any order at zeros too.
    """
    axis, n = x.ndim - 1, x.shape[-1]
    total = _shifted(x, 1, reverse)
    reach = 1
    while reach < n:
        total = multiply(total, _shifted(total, reach, reverse))
        reach *= 2
    return narrow(total, axis, 0, n)


def _shifted(x: Tensor, by: int, reverse: bool) -> Tensor:
    """Return the rows moved by so many places, ones where they come from."""
    axis, n = x.ndim - 1, x.shape[-1]
    by = by if by < n else n
    ones = full((*x.shape[:-1], by), 1, x.dtype)
    return concat([narrow(x, axis, by, n), ones] if reverse else [ones, narrow(x, axis, 0, n - by)], axis)


def _cumprod_gradient(g: Tensor, _: None, x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """`sum over i >= j of g_i prod of x_k, k <= i, k != j`: products up to j times a recurrence from the end.

    With `s_j = g_j + x_(j+1) s_(j+1)` the gradient is `s_j prod of x_k, k < j`: no division, so zeros are no exception.
    """
    rows, weights = x.swapaxes(axis, -1), g.swapaxes(axis, -1)
    if exclusive:
        weights = _moved(weights, not reverse)
    before = exclusive_products(rows, reverse)
    totals = _recurrence(_moved(rows, not reverse), weights, not reverse)
    return multiply(totals, before).swapaxes(axis, -1)


def _recurrence(factors: Tensor, weights: Tensor, forward: bool) -> Tensor:
    """Compute `s_j = weights_j + factors_j s_(j+1)` along the last axis (`s_(j-1)` if not forward), by doubling.

    Reference:
        Blelloch 1990, "Prefix sums and their applications", section 1.4 (first-order recurrences).
    """
    n, reach = weights.shape[-1], 1
    while reach < n:
        weights = weights + factors * _moved(weights, forward, reach)
        factors = factors * _moved(factors, forward, reach)
        reach *= 2
    return weights


def _moved(x: Tensor, forward: bool, by: int = 1) -> Tensor:
    """Return rows in which each element is the one `by` places later (earlier), zeros where there is none."""
    axis, n = x.ndim - 1, x.shape[-1]
    by = by if by < n else n
    zeros = full((*x.shape[:-1], by), 0, x.dtype)
    return concat([narrow(x, axis, by, n), zeros] if forward else [zeros, narrow(x, axis, 0, n - by)], axis)


_cumprod: Primitive = Primitive(
    "cumprod",
    lambda x, *, axis, exclusive, reverse: _running(_products, x, axis, exclusive, reverse, 1.0),
    lambda x, **_: x,
    (lambda g, _, x, **how: conjugate(_cumprod_gradient(conjugate(g), None, x, **how)),),
)


@method
def cumprod(x: Tensor, axis: int = 0, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Return products of the elements up to each along `axis`; the gradient is right at zeros too.

    Args:
        x: Integers stay in their dtype (bools become int64), 16-bit floats multiply in float32.
        axis: Along which.
        exclusive: Without the element itself: the first product is 1.
        reverse: From each element to the end.
    """
    x = as_tensor(x)
    x = cast_to(x, int64) if x.dtype == bool_ else x
    return _cumprod(x, axis=normalize_axis(axis, x.ndim), exclusive=exclusive, reverse=reverse)


def _extremes_of(function: Any) -> Any:
    """Return running extremes and the places of the latest of equals; NaN stays once met."""

    def evaluate(x: Array, *, axis: int) -> tuple[Array, Array]:
        values = function.accumulate(x, axis)
        shape = tuple(length if i == axis else 1 for i, length in enumerate(x.shape))
        counter = np.arange(x.shape[axis]).reshape(shape)
        fresh = (values == x) | (np.isnan(x) if x.dtype.kind not in "iub" else False)
        return values, np.maximum.accumulate(np.where(fresh, counter, 0), axis)

    return evaluate


def _extreme_gradient(
    needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], x: Tensor, *, axis: int
) -> tuple[Tensor | None]:
    if g[0] is None:
        return (None,)
    return (put_elements(g[0], out[1], axis, x.shape),)


def _infer_extremes(x: Spec, *, axis: int) -> tuple[Spec, Spec]:
    return x, Spec(x.shape, int64)


_cummax: Primitive = Primitive(
    "cummax", _extremes_of(np.maximum), _infer_extremes, _extreme_gradient, saves_output=True
)
_cummin: Primitive = Primitive(
    "cummin", _extremes_of(np.minimum), _infer_extremes, _extreme_gradient, saves_output=True
)


@method
def cummax(x: Tensor, axis: int = 0) -> tuple[Tensor, Tensor]:
    """Return the largest elements up to each along `axis`, and where they stand (the latest of equals)."""
    values, places = _cummax.several(as_tensor(x), axis=normalize_axis(axis, x.ndim))
    return values, places


@method
def cummin(x: Tensor, axis: int = 0) -> tuple[Tensor, Tensor]:
    """Return the smallest elements up to each along `axis`, and where they stand (the latest of equals)."""
    values, places = _cummin.several(as_tensor(x), axis=normalize_axis(axis, x.ndim))
    return values, places


def _log_sums_of(x: Array, *, axis: int, reverse: bool) -> Array:
    return _running(np.logaddexp.accumulate, x, axis, False, reverse, 0.0)


def _log_sums_gradient(g: Tensor, out: Tensor, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    """`sum over i >= j of g_i e**(x_j - out_i)`: a recurrence with factors `e**(out_j - out_(j+1))`, never above 1."""
    totals = where(equal(out, -np.inf), 0.0, out).swapaxes(axis, -1)
    factors = exp(minimum(subtract(totals, _moved(totals, not reverse)), 0.0))
    summed = _recurrence(factors, g.swapaxes(axis, -1), not reverse)
    return multiply(summed, exp(subtract(x.swapaxes(axis, -1), totals))).swapaxes(axis, -1)


_logcumsumexp: Primitive = Primitive(
    "logcumsumexp", _log_sums_of, lambda x, **_: x, (_log_sums_gradient,), saves_output=True
)


@method
def logcumsumexp(x: Tensor, axis: int = 0, *, reverse: bool = False) -> Tensor:
    """`log` of the sums of `e**x` up to each element along `axis`, without overflow."""
    x = as_real(x, "logcumsumexp")
    return _logcumsumexp(x, axis=normalize_axis(axis, x.ndim), reverse=reverse)
