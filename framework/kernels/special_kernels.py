"""Special functions element by element: what NumPy does not have and the C library or a series has.

Reference:
    Abramowitz and Stegun 1964, 6.3.18 and 6.4.11 (asymptotic series of the polygamma functions), 6.3.5 and 6.4.6
    (recurrence). The inverse error function starts from Giles 2012, "Approximating the erfinv function", and is
    polished by Newton's method.
"""

import math

import numpy as np
from numba import njit

from ..tensor import Array
from .exponential import JIT

# Bernoulli numbers B2, B4, ... B24.
_BERNOULLI = np.array(
    [
        1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
        854513 / 138, -236364091 / 2730,
    ]
)  # fmt: skip
_PLAIN = {**JIT, "fastmath": False}


@njit(**_PLAIN)
def erf(x: Array, out: Array) -> None:
    """Compute `out = 2 / sqrt(pi) integral of e**-t**2 from 0 to x`."""
    for i in range(x.size):
        out[i] = math.erf(x[i])


@njit(**_PLAIN)
def erfc(x: Array, out: Array) -> None:
    """Compute `out = 1 - erf(x)`, exact where that is small."""
    for i in range(x.size):
        out[i] = math.erfc(x[i])


@njit(**_PLAIN)
def lgamma(x: Array, out: Array) -> None:
    """Compute `out = log |Gamma(x)|`, infinite at the poles."""
    for i in range(x.size):
        v = float(x[i])
        out[i] = math.inf if v <= 0.0 and v == math.floor(v) else math.lgamma(v)


@njit(**_PLAIN)
def _erfinv(y: float) -> float:
    if not -1.0 < y < 1.0:
        return math.copysign(math.inf, y) if abs(y) == 1.0 else math.nan
    w = -math.log((1.0 - y) * (1.0 + y))
    is_tail = w >= 5.0  # where the start, made for float32, is poorer the farther out
    if not is_tail:
        w -= 2.5
        p = 2.81022636e-08
        for c in (3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
                  0.246640727, 1.50140941):  # fmt: skip
            p = p * w + c
    else:
        w = math.sqrt(w) - 3.0
        p = -0.000200214257
        for c in (0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
                  1.00167406, 2.83297682):  # fmt: skip
            p = p * w + c
    x = p * y
    for _ in range(6 if is_tail else 2):  # Newton on erf; on erfc in the tail, where erf is 1 to the last digits
        error = math.erf(x) - y if abs(y) < 0.5 else math.copysign(1.0, y) * ((1.0 - abs(y)) - math.erfc(abs(x)))
        x -= error / (2.0 / math.sqrt(math.pi) * math.exp(-x * x))
    return x


@njit(**_PLAIN)
def erfinv(x: Array, out: Array) -> None:
    """Compute `out` such that `erf(out) = x`."""
    for i in range(x.size):
        out[i] = _erfinv(float(x[i]))


@njit(**_PLAIN)
def _digamma(x: float) -> float:
    if x <= 0.0 and x == math.floor(x):
        return math.nan
    total = 0.0
    if x < 0.0:  # reflected
        total = -math.pi / math.tan(math.pi * (x - math.floor(x)))
        x = 1.0 - x
    while x < 12.0:
        total -= 1.0 / x
        x += 1.0
    power, square = 1.0, 1.0 / (x * x)
    total += math.log(x) - 0.5 / x
    for k in range(10):
        power *= square
        total -= _BERNOULLI[k] / (2.0 * (k + 1.0)) * power
    return total


@njit(**_PLAIN)
def _polygamma(order: int, x: float) -> float:
    """Return the derivative of that order, 1 or more, of digamma."""
    if x <= 0.0 and x == math.floor(x):
        return math.inf if order % 2 else math.nan
    total = 0.0
    sign = 1.0 if order % 2 else -1.0
    factorial = math.gamma(order + 1.0)
    while x < 15.0 + order:
        total += factorial / x ** (order + 1)
        x += 1.0
    # (order - 1)! / x**order + order! / (2 x**(order + 1)) + sum of B2k (2k + order - 1)! / ((2k)! x**(2k + order))
    total += factorial / order / x**order + factorial / (2.0 * x ** (order + 1))
    term = factorial / order / x**order  # (2k + order - 1)! / ((2k)! x**(2k + order)) at k = 0
    for k in range(12):
        n = 2.0 * k
        term *= (n + order) * (n + order + 1.0) / ((n + 1.0) * (n + 2.0) * x * x)
        total += _BERNOULLI[k] * term
    return sign * total


@njit(**_PLAIN)
def polygamma(x: Array, out: Array, order: int) -> None:
    """Compute `out` = the derivative of that order of digamma, itself for order 0."""
    for i in range(x.size):
        v = float(x[i])
        out[i] = v if v != v else _digamma(v) if order == 0 else _polygamma(order, v)
