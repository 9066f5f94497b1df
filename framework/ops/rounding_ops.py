"""Rounding, and division with a remainder."""

from collections.abc import Callable

import numpy as np

from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..tensor import Array, Tensor, TensorLike, method
from .arithmetic_ops import divide, maximum, minimum, multiply, negative, subtract
from .logic_ops import greater_equal, less_equal, where
from .operands import as_tensor, infer_broadcast, infer_same, pair
from .reduce import sum_to
from .transcendental import power


def _rounding(name: str, function: Callable[..., Array]) -> Primitive:
    """Return a primitive whose slope is 0 wherever it has one; integers are round already."""

    def evaluate(x: Array) -> Array:
        rounded: Array = x if x.dtype.kind in "iub" else function(x)
        return rounded

    return Primitive(name, evaluate, infer_same, NOT_DIFFERENTIABLE)


_floor = _rounding("floor", np.floor)
_ceil = _rounding("ceil", np.ceil)
_round = _rounding("round", np.rint)
_trunc = _rounding("trunc", np.trunc)


@method
def floor(x: Tensor) -> Tensor:
    """Return the largest integer not above; no gradient flows."""
    return _floor(as_tensor(x))


@method
def ceil(x: Tensor) -> Tensor:
    """Return the smallest integer not below; no gradient flows."""
    return _ceil(as_tensor(x))


@method
def round(x: Tensor, decimals: int = 0) -> Tensor:
    """Return the nearest multiple of `10**-decimals`, the even one of two; no gradient flows."""
    x = as_tensor(x)
    if decimals == 0:
        return _round(x)
    scale = 10.0**decimals
    return divide(_round(multiply(x, scale)), scale)


@method
def trunc(x: Tensor) -> Tensor:
    """Return the integer part, towards 0; no gradient flows."""
    return _trunc(as_tensor(x))


@method
def frac(x: Tensor) -> Tensor:
    """Return what `trunc` takes away, with the sign of `x`."""
    return subtract(x, trunc(x))


_floor_divide: Primitive = Primitive("floor_divide", np.floor_divide, infer_broadcast, NOT_DIFFERENTIABLE)


@method
def floor_divide(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `floor(a / b)`, as Python's `//`; no gradient flows. An integer divided by 0 gives 0."""
    return _floor_divide(*pair(a, b))


def _remainder(name: str, function: Callable[..., Array], quotient: Callable[[Tensor], Tensor]) -> Primitive:
    """Return `a - b quotient(a / b)`: linear in `a`, and in `b` between the jumps."""
    return Primitive(
        name,
        function,
        infer_broadcast,
        (
            lambda g, _, a, b: sum_to(g, a),
            lambda g, _, a, b: sum_to(negative(multiply(g, quotient(divide(a, b)))), b),
        ),
    )


_remainder_primitive = _remainder("remainder", np.remainder, floor)
_fmod = _remainder("fmod", np.fmod, trunc)


@method
def remainder(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a - b floor(a / b)`, with the sign of the divisor, as Python's `%`. An integer divided by 0 gives 0."""
    return _remainder_primitive(*pair(a, b))


@method
def fmod(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a - b trunc(a / b)`, with the sign of the dividend, as C's `fmod`."""
    return _fmod(*pair(a, b))


def _clip_gradient(g: Tensor, _: None, x: Tensor, *, low: float | None, high: float | None) -> Tensor:
    if low is not None:
        g = where(greater_equal(x, low), g, 0.0)
    return g if high is None else where(less_equal(x, high), g, 0.0)


_clip: Primitive = Primitive(
    "clip", lambda x, *, low, high: np.clip(x, low, high).astype(x.dtype, copy=False), infer_same, (_clip_gradient,)
)


@method
def clip(x: Tensor, low: TensorLike | None = None, high: TensorLike | None = None) -> Tensor:
    """Return elements below `low` or above `high` replaced by the bound; where they contradict each other `high` wins.

    Args:
        x: Real.
        low: A number, or a tensor that broadcasts; None for no bound.
        high: The same.

    Returns:
        The gradient passes inside, a number as a bound included; a tensor as a bound shares it at equality.
    """
    x = as_tensor(x)
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        x = x if low is None else maximum(x, low)
        return x if high is None else minimum(x, high)
    return _clip(x, low=low, high=high)


@method
def float_power(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a ** b` in float64."""
    return power(as_tensor(a).astype("float64"), b)
