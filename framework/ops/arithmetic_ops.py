"""Element-wise arithmetic: sums, products, the larger and the smaller, signs."""

import numpy as np

from ..dtype import is_complex, real_dtype
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..specs import Spec
from ..tensor import Array, Tensor, TensorLike, method
from .logic_ops import equal, greater, less, where
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
    """Return `a + b`."""
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
    """Return `a - b`."""
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
    """Return `a * b`."""
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
    """Return `a / b`; integers are divided in float32."""
    a, b = pair(a, b)
    if isinstance(a, Tensor) and a.dtype.kind in "iub":
        a = as_floating(a)
    if isinstance(b, Tensor) and b.dtype.kind in "iub":
        b = as_floating(b)
    return _divide(a, b)


def _tie_share(g: Tensor, a: TensorLike, b: TensorLike) -> Tensor:
    """Return half of the gradient where both operands are equal."""
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
    """Return the larger of two elements; equal ones share the gradient."""
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
    """Return the smaller of two elements; equal ones share the gradient."""
    return _minimum(*pair(a, b))


_negative: Primitive = Primitive("negative", np.negative, infer_same, (lambda g, _, x: negative(g),))


@method
def negative(x: Tensor) -> Tensor:
    """Return `-x`."""
    return _negative(x)


_sign: Primitive = Primitive("sign", np.sign, infer_same, NOT_DIFFERENTIABLE)


@method
def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1; no gradient flows."""
    return _sign(x)


def _direction(out: Tensor, x: Tensor) -> Tensor:
    """Return the slope of the absolute value: the sign, or for a complex number its direction, 0 at 0."""
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
    """Return `|x|`, with slope 0 at 0; real for a complex tensor."""
    return _abs(x)


_square: Primitive = Primitive(
    "square", np.square, infer_same, (lambda g, _, x: multiply(g, multiply(conjugate(x), 2.0)),)
)


@method
def square(x: Tensor) -> Tensor:
    """Return `x ** 2`."""
    return _square(x)


@method
def reciprocal(x: Tensor) -> Tensor:
    """Return `1 / x`."""
    return divide(1.0, x)
