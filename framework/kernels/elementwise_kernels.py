"""Activations, their gradients, and dropout, element by element.

Dropout makes its mask from a counter: an element's fate is a hash of its number and the key, so nothing has to be
stored. The hash is the 32-bit finalizer with the lowest known bias of its size, applied twice, each time with another
key word.

Reference:
    C. Wellons, "Prospecting for hash functions", 2018 (`lowbias32`).
"""

import math
from typing import Any

import numpy as np
from numba import njit, uint32

from ..tensor import Array
from .exponential import JIT, exp

_ROOT = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715


@njit(**JIT)
def relu_gradient(g: Array, y: Array, out: Array) -> None:
    """Compute `out = g`, 0 where the output `y` is 0."""
    zero = g.dtype.type(0.0)
    for i in range(g.size):
        out[i] = zero if y[i] <= zero else g[i]


@njit(**JIT)
def sigmoid(x: Array, out: Array) -> None:
    """Compute `out = 1 / (1 + e**-x)`."""
    one = x.dtype.type(1.0)
    for i in range(x.size):
        out[i] = one / (one + exp(-x[i]))


@njit(**JIT)
def silu(x: Array, out: Array) -> None:
    """Compute `out = x sigmoid(x)`."""
    one = x.dtype.type(1.0)
    for i in range(x.size):
        out[i] = x[i] / (one + exp(-x[i]))


@njit(**JIT)
def silu_gradient(g: Array, x: Array, out: Array) -> None:
    """Compute `out = g silu'(x)`."""
    one = x.dtype.type(1.0)
    for i in range(x.size):
        s = one / (one + exp(-x[i]))
        out[i] = g[i] * s * (one + x[i] * (one - s))


@njit(**JIT)
def gelu(x: Array, out: Array) -> None:
    """Compute `out = x sigmoid(2u)`, `u = sqrt(2/pi) (x + 0.044715 x**3)`, which is `x (1 + tanh u) / 2`."""
    one = x.dtype.type(1.0)
    scale = x.dtype.type(-2.0 * _ROOT)
    cubic = x.dtype.type(_CUBIC)
    for i in range(x.size):
        v = x[i]
        out[i] = v / (one + exp(scale * v * (one + cubic * v * v)))


@njit(**JIT)
def gelu_gradient(g: Array, x: Array, out: Array) -> None:
    """Compute `out = g gelu'(x)`, in the form of `gelu`."""
    one = x.dtype.type(1.0)
    scale = x.dtype.type(2.0 * _ROOT)
    cubic = x.dtype.type(_CUBIC)
    three = x.dtype.type(3.0 * _CUBIC)
    for i in range(x.size):
        v = x[i]
        square = v * v
        s = one / (one + exp(-scale * v * (one + cubic * square)))
        # Where s is exactly 0 the product below would be 0 times infinity for the largest |x|.
        slope = s * (one - s)
        tail = v * slope * scale * (one + three * square) if slope > 0 else slope
        out[i] = g[i] * (s + tail)


@njit(inline="always")
def _normal_tail(v: float) -> float:
    return 0.5 * math.erfc(v * 0.7071067811865476)


@njit(**JIT)
def gelu_exact(x: Array, out: Array) -> None:
    """Compute `out = x Phi(x)`, with the normal distribution function itself."""
    for i in range(x.size):
        out[i] = x[i] * _normal_tail(-x[i])


@njit(**JIT)
def gelu_exact_gradient(g: Array, x: Array, out: Array) -> None:
    """Compute `out = g (Phi(x) + x phi(x))`."""
    density = 1.0 / math.sqrt(2.0 * math.pi)
    for i in range(x.size):
        v = x[i]
        out[i] = g[i] * (_normal_tail(-v) + v * density * math.exp(-0.5 * v * v))


def flat(kernel: object, *arrays: Array) -> Array:
    """Return a new array shaped like the first, filled by an element-wise kernel from the arrays."""
    out = np.empty(arrays[0].shape, arrays[0].dtype)
    kernel(*[array.reshape(-1) for array in arrays], out.reshape(-1))  # type: ignore[operator]
    return out


@njit(inline="always")
def _mix(h: Any) -> Any:  # an unsigned number of 32 bits, which Python has no name for
    h = uint32(h ^ (h >> uint32(16)))
    h = uint32(h * uint32(0x7FEB352D))
    h = uint32(h ^ (h >> uint32(15)))
    h = uint32(h * uint32(0x846CA68B))
    return uint32(h ^ (h >> uint32(16)))


@njit(**JIT)
def dropout(x: Array, out: Array, first: int, second: int, threshold: int, scale: float) -> None:
    """Compute `out = scale x`, 0 where the element's random number of 32 bits is below `threshold`."""
    factor = x.dtype.type(scale)
    zero = x.dtype.type(0.0)
    low = uint32(first)
    high = uint32(second)
    limit = uint32(threshold)
    for i in range(x.size):
        h = _mix(uint32(_mix(uint32(uint32(i) ^ low)) ^ high))
        out[i] = zero if h < limit else factor * x[i]
