"""Angles and hyperbolas: trigonometric and hyperbolic functions, their inverses, and what is measured with them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..primitive import Primitive
from ..tensor import Tensor, TensorLike, method
from .arithmetic import add, divide, multiply, negative, square, subtract
from .complex import imag, real
from .math import sqrt
from .operands import as_floating, as_real, conjugate, infer_broadcast, infer_same, pair
from .reduce import sum_to


def _smooth(name: str, function: Callable[..., Any], slope: Callable[[Tensor, Tensor], Tensor]) -> Primitive:
    """A primitive of one tensor with the derivative `slope(output, input)`."""
    return Primitive(
        name,
        function,
        infer_same,
        (lambda g, out, x: multiply(g, conjugate(slope(out, x))),),
        saves_output=True,
    )


_tan = _smooth("tan", np.tan, lambda y, x: add(square(y), 1.0))
_asin = _smooth("asin", np.arcsin, lambda y, x: divide(1.0, sqrt(subtract(1.0, square(x)))))
_acos = _smooth("acos", np.arccos, lambda y, x: divide(-1.0, sqrt(subtract(1.0, square(x)))))
_atan = _smooth("atan", np.arctan, lambda y, x: divide(1.0, add(square(x), 1.0)))
_sinh = _smooth("sinh", np.sinh, lambda y, x: cosh(x))
_cosh = _smooth("cosh", np.cosh, lambda y, x: sinh(x))
_asinh = _smooth("asinh", np.arcsinh, lambda y, x: divide(1.0, sqrt(add(square(x), 1.0))))
_acosh = _smooth("acosh", np.arccosh, lambda y, x: divide(1.0, multiply(sqrt(subtract(x, 1.0)), sqrt(add(x, 1.0)))))
_atanh = _smooth("atanh", np.arctanh, lambda y, x: divide(1.0, subtract(1.0, square(x))))


@method
def tan(x: Tensor) -> Tensor:
    """Tangent."""
    return _tan(as_floating(x))


@method
def asin(x: Tensor) -> Tensor:
    """The angle from -pi/2 to pi/2 whose sine is `x`; NaN outside of [-1, 1]."""
    return _asin(as_floating(x))


@method
def acos(x: Tensor) -> Tensor:
    """The angle from 0 to pi whose cosine is `x`; NaN outside of [-1, 1]."""
    return _acos(as_floating(x))


@method
def atan(x: Tensor) -> Tensor:
    """The angle from -pi/2 to pi/2 whose tangent is `x`."""
    return _atan(as_floating(x))


@method
def sinh(x: Tensor) -> Tensor:
    """Hyperbolic sine."""
    return _sinh(as_floating(x))


@method
def cosh(x: Tensor) -> Tensor:
    """Hyperbolic cosine."""
    return _cosh(as_floating(x))


@method
def asinh(x: Tensor) -> Tensor:
    """The number whose hyperbolic sine is `x`."""
    return _asinh(as_floating(x))


@method
def acosh(x: Tensor) -> Tensor:
    """The number, 0 or more, whose hyperbolic cosine is `x`; NaN below 1."""
    return _acosh(as_floating(x))


@method
def atanh(x: Tensor) -> Tensor:
    """The number whose hyperbolic tangent is `x`; NaN outside of [-1, 1]."""
    return _atanh(as_floating(x))


def _per_square(g: Tensor, x: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    return divide(multiply(g, x), add(_square_of(a), _square_of(b)))


def _square_of(x: Any) -> Any:  # a tensor or a number, and the same comes back
    """`x ** 2`."""
    return square(x) if isinstance(x, Tensor) else x * x


_atan2: Primitive = Primitive(
    "atan2",
    np.arctan2,
    infer_broadcast,
    (
        lambda g, _, a, b: sum_to(_per_square(g, b, a, b), a),
        lambda g, _, a, b: sum_to(negative(_per_square(g, a, a, b)), b),
    ),
)
_hypot: Primitive = Primitive(
    "hypot",
    np.hypot,
    infer_broadcast,
    (
        lambda g, out, a, b: sum_to(multiply(g, divide(a, out)), a),
        lambda g, out, a, b: sum_to(multiply(g, divide(b, out)), b),
    ),
    saves_output=True,
)


def _reals(name: str, a: TensorLike, b: TensorLike) -> tuple[Any, Any]:
    return pair(*(as_real(x, name) if isinstance(x, Tensor) else x for x in (a, b)))


@method
def atan2(a: TensorLike, b: TensorLike) -> Tensor:
    """The angle from -pi to pi of the point with ordinate `a` and abscissa `b`."""
    return _atan2(*_reals("atan2", a, b))


@method
def hypot(a: TensorLike, b: TensorLike) -> Tensor:
    """`sqrt(a**2 + b**2)`, without overflow; no slope at the origin (NaN)."""
    return _hypot(*_reals("hypot", a, b))


@method
def deg2rad(x: Tensor) -> Tensor:
    """Degrees in radians."""
    return multiply(x, math.pi / 180.0)


@method
def rad2deg(x: Tensor) -> Tensor:
    """Radians in degrees."""
    return multiply(x, 180.0 / math.pi)


@method
def angle(z: Tensor) -> Tensor:
    """The angle from -pi to pi of complex numbers; of real ones 0, or pi where negative."""
    z = as_floating(z)
    return _atan2(imag(z), real(z))
