"""Element-wise functions of analysis: powers of e, logarithms, roots, sine and cosine."""

import numpy as np

from ..primitive import Primitive
from ..tensor import Tensor, TensorLike, method
from .arithmetic import add, divide, multiply, negative, square, subtract
from .choose import where
from .compare import equal
from .create import full
from .operands import as_floating, conjugate, infer_broadcast, infer_same, pair
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
    """`a ** b`; the slope in the exponent is taken as 0 where the base is 0."""
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
    """`e ** x`."""
    return _exp(as_floating(x))


_log: Primitive = Primitive("log", np.log, infer_same, (lambda g, _, x: divide(g, conjugate(x)),))


@method
def log(x: Tensor) -> Tensor:
    """Natural logarithm."""
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
    """`e ** x - 1`, exact for small `x`."""
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
    """`1 / sqrt(x)`."""
    return divide(1.0, sqrt(x))


_sin: Primitive = Primitive("sin", np.sin, infer_same, (lambda g, _, x: multiply(g, cos(conjugate(x))),))


@method
def sin(x: Tensor) -> Tensor:
    """Sine."""
    return _sin(as_floating(x))


_cos: Primitive = Primitive("cos", np.cos, infer_same, (lambda g, _, x: negative(multiply(g, sin(conjugate(x)))),))


@method
def cos(x: Tensor) -> Tensor:
    """Cosine."""
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
    """Hyperbolic tangent."""
    return _tanh(as_floating(x))
