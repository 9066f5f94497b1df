"""Element-wise functions of analysis: powers, exponentials, logarithms, roots, and the functions of angles."""

import math
from collections.abc import Callable

import numpy as np

from ..dtype import Array
from ..primitive import Primitive
from ..tensor import Tensor, TensorLike, method
from .arithmetic_ops import add, divide, multiply, negative, square, subtract
from .complex import imag, real
from .create import full
from .logic_ops import equal, where
from .operands import as_floating, as_real, conjugate, infer_broadcast, infer_same, pair
from .reduce import sum_to


def _power_of_base(g: Tensor, out: Tensor, a: TensorLike, b: TensorLike) -> Tensor:
    slope = multiply(b, power(a, b - 1))
    if isinstance(b, Tensor):  # 0 * 0**-1 is not a number, but the slope of a**0 is 0
        slope = where(equal(b, 0.0), 0.0, slope)
    return sum_to(multiply(g, conjugate(slope)), a)


def _power_of_exponent(g: Tensor, out: Tensor, a: TensorLike, b: TensorLike) -> Tensor:
    safe = where(equal(a, 0.0), 1.0, a)
    return sum_to(multiply(g, conjugate(multiply(out, log(safe)))), b)


_power: Primitive = Primitive(
    "power", np.power, infer_broadcast, (_power_of_base, _power_of_exponent), saves_output=True
)


@method
def power(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a ** b`; the slope in the exponent is taken as 0 where the base is 0."""
    if not isinstance(b, Tensor) and isinstance(a, Tensor):
        if b == 2:
            return square(a)
        if b == 1:
            return a
        if b == 0:
            return where(full(a.shape, False, "bool"), a, 1.0)  # NaN and infinities too
    return _power(*pair(a, b))


_exp: Primitive = Primitive(
    "exp", np.exp, infer_same, (lambda g, out, x: multiply(g, conjugate(out)),), saves_output=True
)


@method
def exp(x: Tensor) -> Tensor:
    """Return `e ** x`."""
    return _exp(as_floating(x))


_log: Primitive = Primitive("log", np.log, infer_same, (lambda g, _, x: divide(g, conjugate(x)),))


@method
def log(x: Tensor) -> Tensor:
    """Return natural logarithm."""
    return _log(as_floating(x))


_log1p: Primitive = Primitive("log1p", np.log1p, infer_same, (lambda g, _, x: divide(g, add(conjugate(x), 1.0)),))


@method
def log1p(x: Tensor) -> Tensor:
    """`log(1 + x)`, exact for small `x`."""
    return _log1p(as_floating(x))


_expm1: Primitive = Primitive(
    "expm1", np.expm1, infer_same, (lambda g, out, x: multiply(g, add(conjugate(out), 1.0)),), saves_output=True
)


@method
def expm1(x: Tensor) -> Tensor:
    """Return `e ** x - 1`, exact for small `x`."""
    return _expm1(as_floating(x))


_sqrt: Primitive = Primitive(
    "sqrt", np.sqrt, infer_same, (lambda g, out, x: divide(multiply(g, 0.5), conjugate(out)),), saves_output=True
)


@method
def sqrt(x: Tensor) -> Tensor:
    """Square root."""
    return _sqrt(as_floating(x))


@method
def rsqrt(x: Tensor) -> Tensor:
    """Return `1 / sqrt(x)`."""
    return divide(1.0, sqrt(x))


_sin: Primitive = Primitive("sin", np.sin, infer_same, (lambda g, _, x: multiply(g, cos(conjugate(x))),))


@method
def sin(x: Tensor) -> Tensor:
    """Return sine."""
    return _sin(as_floating(x))


_cos: Primitive = Primitive("cos", np.cos, infer_same, (lambda g, _, x: negative(multiply(g, sin(conjugate(x)))),))


@method
def cos(x: Tensor) -> Tensor:
    """Return cosine."""
    return _cos(as_floating(x))


_tanh: Primitive = Primitive(
    "tanh",
    np.tanh,
    infer_same,
    (lambda g, out, x: multiply(g, subtract(1.0, square(conjugate(out)))),),
    saves_output=True,
)


@method
def tanh(x: Tensor) -> Tensor:
    """Return hyperbolic tangent."""
    return _tanh(as_floating(x))


def _smooth(name: str, function: Callable[..., Array], slope: Callable[[Tensor, Tensor], Tensor]) -> Primitive:
    """Return a primitive of one tensor with the derivative `slope(output, input)`."""
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
    """Return tangent."""
    return _tan(as_floating(x))


@method
def asin(x: Tensor) -> Tensor:
    """Return the angle from -pi/2 to pi/2 whose sine is `x`; NaN outside of [-1, 1]."""
    return _asin(as_floating(x))


@method
def acos(x: Tensor) -> Tensor:
    """Return the angle from 0 to pi whose cosine is `x`; NaN outside of [-1, 1]."""
    return _acos(as_floating(x))


@method
def atan(x: Tensor) -> Tensor:
    """Return the angle from -pi/2 to pi/2 whose tangent is `x`."""
    return _atan(as_floating(x))


@method
def sinh(x: Tensor) -> Tensor:
    """Return hyperbolic sine."""
    return _sinh(as_floating(x))


@method
def cosh(x: Tensor) -> Tensor:
    """Return hyperbolic cosine."""
    return _cosh(as_floating(x))


@method
def asinh(x: Tensor) -> Tensor:
    """Return the number whose hyperbolic sine is `x`."""
    return _asinh(as_floating(x))


@method
def acosh(x: Tensor) -> Tensor:
    """Return the number, 0 or more, whose hyperbolic cosine is `x`; NaN below 1."""
    return _acosh(as_floating(x))


@method
def atanh(x: Tensor) -> Tensor:
    """Return the number whose hyperbolic tangent is `x`; NaN outside of [-1, 1]."""
    return _atanh(as_floating(x))


def _per_square(g: Tensor, x: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    return divide(multiply(g, x), add(_square_of(a), _square_of(b)))


def _square_of(x: TensorLike) -> TensorLike:  # a tensor or a number, and the same comes back
    """Return `x ** 2`."""
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


def _reals(name: str, a: TensorLike, b: TensorLike) -> tuple[TensorLike, TensorLike]:
    return pair(*(as_real(x, name) if isinstance(x, Tensor) else x for x in (a, b)))


@method
def atan2(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the angle from -pi to pi of the point with ordinate `a` and abscissa `b`."""
    return _atan2(*_reals("atan2", a, b))


@method
def hypot(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `sqrt(a**2 + b**2)`, without overflow; no slope at the origin (NaN)."""
    return _hypot(*_reals("hypot", a, b))


@method
def deg2rad(x: Tensor) -> Tensor:
    """Return degrees in radians."""
    return multiply(x, math.pi / 180.0)


@method
def rad2deg(x: Tensor) -> Tensor:
    """Return radians in degrees."""
    return multiply(x, 180.0 / math.pi)


@method
def angle(z: Tensor) -> Tensor:
    """Return the angle from -pi to pi of complex numbers; of real ones 0, or pi where negative."""
    z = as_floating(z)
    return _atan2(imag(z), real(z))
