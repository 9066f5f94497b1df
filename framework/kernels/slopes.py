"""Slopes of activation functions for one element, to be inlined into generated loops."""

from numba import njit

from .exponential import exp


@njit(inline="always", error_model="numpy")
def silu_slope(g: float, x: float, one: float) -> float:
    """`g s (1 + x (1 - s))`, `s = sigmoid(x)`; `one` is 1 in the type of `x`."""
    s = one / (one + exp(-x))
    return g * s * (one + x * (one - s))


@njit(inline="always", error_model="numpy")
def gelu_slope(g: float, x: float, one: float, scale: float, cubic: float, three: float) -> float:
    """`g gelu'(x)` in the tanh approximation; the constants are those of `activation.gelu_gradient`."""
    square = x * x
    s = one / (one + exp(-scale * x * (one + cubic * square)))
    slope = s * (one - s)
    tail = x * slope * scale * (one + three * square) if slope > 0 else slope
    return g * (s + tail)
