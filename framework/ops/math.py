"""Element-wise arithmetic and functions."""

import numpy as np

from ..dtype import is_complex, real_dtype
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import Spec
from ..tensor import Array, Tensor, TensorLike, method
from .array import full, where
from .compare import equal, greater, less
from .operands import array_conjugate, as_floating, conjugate, infer_broadcast, infer_same, pair
from .reduce import array_sum_to, sum_to

_add: Primitive = Primitive(
    "add",
    np.add,
    infer_broadcast,
    (lambda g, _, a, b: sum_to(g, a), lambda g, _, a, b: sum_to(g, b)),
    eager_vjp=lambda needs, g, _, a, b: (
        array_sum_to(g, a) if needs[0] else None,
        array_sum_to(g, b) if needs[1] else None,
    ),
)


@method
def add(a: TensorLike, b: TensorLike) -> Tensor:
    """`a + b`."""
    return _add(*pair(a, b))


_subtract: Primitive = Primitive(
    "subtract",
    np.subtract,
    infer_broadcast,
    (lambda g, _, a, b: sum_to(g, a), lambda g, _, a, b: negative(sum_to(g, b))),
    eager_vjp=lambda needs, g, _, a, b: (
        array_sum_to(g, a) if needs[0] else None,
        _negative.evaluate(array_sum_to(g, b)) if needs[1] else None,
    ),
)


@method
def subtract(a: TensorLike, b: TensorLike) -> Tensor:
    """`a - b`."""
    return _subtract(*pair(a, b))


_multiply: Primitive = Primitive(
    "multiply",
    np.multiply,
    infer_broadcast,
    (
        lambda g, _, a, b: sum_to(_multiply(g, conjugate(b)), a),
        lambda g, _, a, b: sum_to(_multiply(g, conjugate(a)), b),
    ),
    eager_vjp=lambda needs, g, _, a, b: (
        array_sum_to(_multiply.evaluate(g, array_conjugate(b)), a) if needs[0] else None,
        array_sum_to(_multiply.evaluate(g, array_conjugate(a)), b) if needs[1] else None,
    ),
)


@method
def multiply(a: TensorLike, b: TensorLike) -> Tensor:
    """`a * b`."""
    return _multiply(*pair(a, b))


_divide: Primitive = Primitive(
    "divide",
    np.true_divide,
    infer_broadcast,
    (
        lambda g, _, a, b: sum_to(divide(g, conjugate(b)), a),
        lambda g, out, a, b: sum_to(negative(divide(multiply(g, conjugate(out)), conjugate(b))), b),
    ),
    eager_vjp=lambda needs, g, out, a, b: (
        array_sum_to(_divide.evaluate(g, array_conjugate(b)), a) if needs[0] else None,
        _divide_of_second(g, out, b) if needs[1] else None,
    ),
    saves_output=True,
)


def _divide_of_second(g: Array, out: Array, b: Array) -> Array:
    weighted = _divide.evaluate(_multiply.evaluate(g, array_conjugate(out)), array_conjugate(b))
    return array_sum_to(_negative.evaluate(weighted), b)


@method
def divide(a: TensorLike, b: TensorLike) -> Tensor:
    """`a / b`; integers are divided in float32."""
    a, b = pair(a, b)
    if isinstance(a, Tensor) and a.dtype.kind in "iub":
        a = as_floating(a)
    if isinstance(b, Tensor) and b.dtype.kind in "iub":
        b = as_floating(b)
    return _divide(a, b)


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


def _tie_share(g: Tensor, a: TensorLike, b: TensorLike) -> Tensor:
    """Half of the gradient where both operands are equal."""
    return where(equal(a, b), multiply(g, 0.5), 0.0)


_maximum: Primitive = Primitive(
    "maximum",
    np.maximum,
    infer_broadcast,
    (
        lambda g, _, a, b: sum_to(where(greater(a, b), g, _tie_share(g, a, b)), a),
        lambda g, _, a, b: sum_to(where(less(a, b), g, _tie_share(g, a, b)), b),
    ),
)


@method
def maximum(a: TensorLike, b: TensorLike) -> Tensor:
    """The larger of two elements; equal ones share the gradient."""
    return _maximum(*pair(a, b))


_minimum: Primitive = Primitive(
    "minimum",
    np.minimum,
    infer_broadcast,
    (
        lambda g, _, a, b: sum_to(where(less(a, b), g, _tie_share(g, a, b)), a),
        lambda g, _, a, b: sum_to(where(greater(a, b), g, _tie_share(g, a, b)), b),
    ),
)


@method
def minimum(a: TensorLike, b: TensorLike) -> Tensor:
    """The smaller of two elements; equal ones share the gradient."""
    return _minimum(*pair(a, b))


_negative: Primitive = Primitive("negative", np.negative, infer_same, (lambda g, _, x: negative(g),))


@method
def negative(x: Tensor) -> Tensor:
    """`-x`."""
    return _negative(x)


_sign: Primitive = Primitive("sign", np.sign, infer_same, NOT_DIFFERENTIABLE)


@method
def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; no gradient flows."""
    return _sign(x)


def _direction(out: Tensor, x: Tensor) -> Tensor:
    """The slope of the absolute value: the sign, or for a complex number its direction, 0 at 0."""
    return divide(x, where(equal(out, 0.0), 1.0, out)) if is_complex(x.dtype) else sign(x)


_abs: Primitive = Primitive(
    "abs",
    np.abs,
    lambda x: Spec(x.shape, real_dtype(x.dtype)),
    (lambda g, out, x: multiply(g, _direction(out, x)),),
    saves_output=True,
)


@method
def abs(x: Tensor) -> Tensor:
    """`|x|`, with slope 0 at 0; real for a complex tensor."""
    return _abs(x)


_square: Primitive = Primitive(
    "square", np.square, infer_same, (lambda g, _, x: multiply(g, multiply(conjugate(x), 2.0)),)
)


@method
def square(x: Tensor) -> Tensor:
    """`x ** 2`."""
    return _square(x)


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


@method
def reciprocal(x: Tensor) -> Tensor:
    """`1 / x`."""
    return divide(1.0, x)
