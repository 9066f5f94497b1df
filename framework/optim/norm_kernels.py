"""The kernels that need a norm, or look whether numbers are finite: they see one tensor at a time."""

from math import sqrt

import numpy as np
from numba import njit
from numpy.typing import NDArray

Flat = NDArray[np.floating]


@njit(cache=True, nogil=True, error_model="numpy")
def lamb(
    weight: Flat,
    gradient: Flat,
    exp_avg: Flat,
    exp_avg_sq: Flat,
    rate: float,
    correction1: float,
    root_correction: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> None:
    """`r = m / c1 / (sqrt(v) / root + eps) + decay * w; w -= rate * |w| / |r| * r`; a ratio with 0 is 1."""
    number = weight.dtype.type
    first, root, eps, penalty = number(correction1), number(root_correction), number(epsilon), number(decay)
    old1, new1, old2, new2 = number(beta1), number(1.0 - beta1), number(beta2), number(1.0 - beta2)
    of_weight, of_update = 0.0, 0.0
    for i in range(weight.size):
        w, g = weight[i], gradient[i]
        m = old1 * exp_avg[i] + new1 * g
        v = old2 * exp_avg_sq[i] + new2 * g * g
        exp_avg[i] = m
        exp_avg_sq[i] = v
        r = (m / first) / (np.sqrt(v) / root + eps) + penalty * w
        of_weight += float(w) * float(w)
        of_update += float(r) * float(r)
    ratio = sqrt(of_weight / of_update) if of_weight > 0.0 and of_update != 0.0 else 1.0
    step = number(rate * ratio)
    for i in range(weight.size):
        w = weight[i]
        r = (exp_avg[i] / first) / (np.sqrt(exp_avg_sq[i]) / root + eps) + penalty * w
        weight[i] = w - step * r


@njit(cache=True, nogil=True, error_model="numpy")
def lars(
    weight: Flat, gradient: Flat, buffer: Flat, rate: float, mu: float, decay: float, coefficient: float, epsilon: float
) -> None:
    """`b = mu * b + rate * ratio * (g + decay * w); w -= b`, ratio = coefficient * |w| / (|g| + decay * |w| + eps)."""
    number = weight.dtype.type
    of_weight, of_gradient = 0.0, 0.0
    for i in range(weight.size):
        of_weight += float(weight[i]) * float(weight[i])
        of_gradient += float(gradient[i]) * float(gradient[i])
    of_weight, of_gradient = sqrt(of_weight), sqrt(of_gradient)
    ratio = 1.0
    if coefficient > 0.0 and of_weight > 0.0 and of_gradient != 0.0:
        ratio = coefficient * of_weight / (of_gradient + decay * of_weight + epsilon)
    step, keep, penalty = number(rate * ratio), number(mu), number(decay)
    for i in range(weight.size):
        w = weight[i]
        b = keep * buffer[i] + step * (gradient[i] + penalty * w)
        buffer[i] = b
        weight[i] = w - b


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def sum_of_squares(gradient: Flat) -> float:
    """Sum of the squares in float64; NaN or infinite exactly when an element is, or when float64 overflows."""
    total = 0.0
    for i in range(gradient.size):
        g = np.float64(gradient[i])
        total += g * g
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def scale(gradient: Flat, factor: float) -> None:
    """`g *= factor`, in place."""
    by = gradient.dtype.type(factor)
    for i in range(gradient.size):
        gradient[i] *= by


@njit(cache=True, nogil=True, error_model="numpy")
def unscale(gradient: Flat, inverse: float) -> bool:
    """True when every element is finite after `g *= inverse`, which happens in place."""
    by = gradient.dtype.type(inverse)
    bad = 0
    for i in range(gradient.size):
        g = gradient[i] * by
        gradient[i] = g
        bad += g - g != 0
    return bad == 0
