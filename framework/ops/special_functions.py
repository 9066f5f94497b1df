"""Special functions: of the error integral, of the factorial, and logarithms of sums."""

import math
from collections.abc import Callable

import numpy as np
from ml_dtypes import finfo

from .. import kernels
from ..dtype import float32, float64, is_floating
from ..primitive import Primitive
from ..tensor import Array, Tensor, TensorLike, method
from .arithmetic_ops import add, divide, multiply, negative, square, subtract
from .logic_ops import equal, isnan, less_equal, logical_and, logical_or, where
from .operands import as_floating, as_real, as_tensor, conjugate, infer_broadcast, infer_same, pair
from .reduce import sum_to
from .transcendental import exp, log, log1p


def _kernel(name: str, **fixed: float) -> Callable[..., Array]:
    """Return an evaluation by the element-wise kernel of that name; 16-bit floats are computed in float32."""

    def evaluate(x: Array, **attributes: float) -> Array:
        wide = np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32)).reshape(-1)
        out = np.empty_like(wide)
        getattr(kernels.special_kernels, name)(wide, out, *attributes.values())
        return out.reshape(x.shape).astype(x.dtype, copy=False)

    return evaluate


_BELL = 2.0 / math.sqrt(math.pi)


def _bell(g: Tensor, x: Tensor) -> Tensor:
    return multiply(g, multiply(exp(negative(square(x))), _BELL))


_erf: Primitive = Primitive("erf", _kernel("erf"), infer_same, (lambda g, _, x: _bell(g, x),))
_erfc: Primitive = Primitive("erfc", _kernel("erfc"), infer_same, (lambda g, _, x: negative(_bell(g, x)),))
_erfinv: Primitive = Primitive(
    "erfinv",
    _kernel("erfinv"),
    infer_same,
    (lambda g, out, x: multiply(g, multiply(exp(square(out)), 1.0 / _BELL)),),
    saves_output=True,
)
_lgamma: Primitive = Primitive("lgamma", _kernel("lgamma"), infer_same, (lambda g, _, x: multiply(g, digamma(x)),))
_polygamma: Primitive = Primitive(
    "polygamma",
    _kernel("polygamma"),
    infer_same,
    (lambda g, _, x, *, order: multiply(g, _polygamma(x, order=order + 1)),),
)


@method
def erf(x: Tensor) -> Tensor:
    """Return `2 / sqrt(pi)` times the integral of `e**-t**2` from 0 to `x`."""
    return _erf(as_real(x, "erf"))


@method
def erfc(x: Tensor) -> Tensor:
    """Return `1 - erf(x)`, exact where that is small."""
    return _erfc(as_real(x, "erfc"))


@method
def erfinv(x: Tensor) -> Tensor:
    """Return the number whose error function is `x`; infinite at -1 and 1, NaN beyond."""
    return _erfinv(as_real(x, "erfinv"))


@method
def lgamma(x: Tensor) -> Tensor:
    """`log |Gamma(x)|`; infinite at 0, -1, -2, ..."""
    return _lgamma(as_real(x, "lgamma"))


@method
def digamma(x: Tensor) -> Tensor:
    """Return the derivative of `lgamma`; NaN at 0, -1, -2, ..."""
    return _polygamma(as_real(x, "digamma"), order=0)


@method
def polygamma(x: Tensor, order: int) -> Tensor:
    """Return the derivative of that order of `digamma`.

    Args:
        x: Real.
        order: 0 or more.
    """
    if order < 0:
        raise ValueError(f"polygamma expects an order of 0 or more, got {order}")
    return _polygamma(as_real(x, "polygamma"), order=int(order))


_logaddexp: Primitive = Primitive(
    "logaddexp",
    np.logaddexp,
    infer_broadcast,
    (
        lambda g, out, a, b: sum_to(multiply(g, exp(subtract(a, _finite(out)))), a),
        lambda g, out, a, b: sum_to(multiply(g, exp(subtract(b, _finite(out)))), b),
    ),
    saves_output=True,
)


def _finite(out: Tensor) -> Tensor:
    """Return the same, 0 where it is minus infinity: there both shares are 0."""
    return where(equal(out, -math.inf), 0.0, out)


@method
def logaddexp(a: TensorLike, b: TensorLike) -> Tensor:
    """`log(e**a + e**b)`, without overflow."""
    return _logaddexp(*pair(*(as_real(x, "logaddexp") if isinstance(x, Tensor) else x for x in (a, b))))


@method
def xlogy(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a log(b)`, 0 where `a` is 0 and `b` has no finite logarithm."""
    a, b = pair(a, b)
    nothing = logical_and(equal(a, 0.0), logical_or(less_equal(b, 0.0), equal(b, math.inf)))
    return where(nothing, 0.0, multiply(a, log(where(nothing, 1.0, b))))


_log2: Primitive = Primitive(
    "log2", np.log2, infer_same, (lambda g, _, x: divide(g, multiply(conjugate(x), math.log(2.0))),)
)
_log10: Primitive = Primitive(
    "log10", np.log10, infer_same, (lambda g, _, x: divide(g, multiply(conjugate(x), math.log(10.0))),)
)
_exp2: Primitive = Primitive(
    "exp2", np.exp2, infer_same, (lambda g, out, x: multiply(g, multiply(out, math.log(2.0))),), saves_output=True
)


@method
def log2(x: Tensor) -> Tensor:
    """Return logarithm to the base of 2."""
    return _log2(as_floating(x))


@method
def log10(x: Tensor) -> Tensor:
    """Return logarithm to the base of 10."""
    return _log10(as_floating(x))


@method
def exp2(x: Tensor) -> Tensor:
    """Return `2 ** x`."""
    return _exp2(as_real(x, "exp2"))


@method
def logit(x: Tensor) -> Tensor:
    """`log(x / (1 - x))`: the inverse of the sigmoid."""
    return subtract(log(x), log1p(negative(x)))


@method
def copysign(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the size of `a` with the sign of `b`, that of -0 included; no gradient flows to `b`."""
    return _copysign(*pair(*(as_real(x, "copysign") if isinstance(x, Tensor) else x for x in (a, b))))


_copysign: Primitive = Primitive(
    "copysign",
    np.copysign,
    infer_broadcast,
    (lambda g, out, a, b: sum_to(multiply(g, where(equal(a, 0.0), 0.0, divide(out, a))), a), None),
    saves_output=True,
)


_cbrt: Primitive = Primitive(
    "cbrt",
    np.cbrt,
    infer_same,
    (lambda g, out, x: divide(multiply(g, 1.0 / 3.0), square(out)),),
    saves_output=True,
)


@method
def cbrt(x: Tensor) -> Tensor:
    """Return the cube root, of negative numbers too; its slope at 0 is infinite."""
    return _cbrt(as_real(x, "cbrt"))


@method
def lerp(x: Tensor, end: TensorLike, weight: TensorLike) -> Tensor:
    """Return `x + weight (end - x)`: from `x` (0) to `end` (1)."""
    return add(x, multiply(weight, subtract(end, x)))


@method
def nan_to_num(x: Tensor, nan: float = 0.0, high: float | None = None, low: float | None = None) -> Tensor:
    """Return finite numbers in the place of NaN and infinities: those of the largest size by default."""
    x = as_tensor(x)
    if not is_floating(x.dtype):
        return x
    largest = float(finfo(x.dtype).max)
    x = where(isnan(x), nan, x)
    x = where(equal(x, math.inf), largest if high is None else high, x)
    return where(equal(x, -math.inf), -largest if low is None else low, x)
