"""The fused update kernels: weight, gradient and slots are each read once and written once, without temporaries.

Every kernel takes flat contiguous arrays of one dtype and Python numbers, which it rounds to that dtype first, so that
the loop stays in it and vectorises. The operations stand in the order of their papers' usual implementations; no
reassociation is allowed in an update, so a plain NumPy version in the same order gives the same bits. Kernels that need
a norm see one tensor at a time.
"""

from math import sqrt

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "adagrad",
    "adam",
    "follow",
    "lamb",
    "lars",
    "lion",
    "momentum",
    "nesterov",
    "rmsprop",
    "scale",
    "sgd",
    "sum_of_squares",
    "unscale",
]

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
    """Compute `r = m / c1 / (sqrt(v) / root + eps) + decay * w; w -= rate * |w| / |r| * r`; a ratio with 0 is 1."""
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
    """Compute `b = mu * b + rate * ratio * (g + decay * w); w -= b`, ratio = coefficient * |w| / (|g| + decay * |w| +
    eps)."""
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
    """Compute `g *= factor`, in place."""
    by = gradient.dtype.type(factor)
    for i in range(gradient.size):
        gradient[i] *= by


@njit(cache=True, nogil=True, error_model="numpy")
def unscale(gradient: Flat, inverse: float) -> bool:
    """Return True when every element is finite after `g *= inverse`, which happens in place."""
    by = gradient.dtype.type(inverse)
    bad = 0
    for i in range(gradient.size):
        g = gradient[i] * by
        gradient[i] = g
        bad += g - g != 0
    return bad == 0


@njit(cache=True, nogil=True, error_model="numpy")
def sgd(weight: Flat, gradient: Flat, rate: float, decay: float) -> None:
    """Compute `w -= rate * (g + decay * w)`."""
    number = weight.dtype.type
    step, shrink = number(rate), number(decay)
    for i in range(weight.size):
        w = weight[i]
        weight[i] = w - step * (gradient[i] + shrink * w)


@njit(cache=True, nogil=True, error_model="numpy")
def momentum(weight: Flat, gradient: Flat, buffer: Flat, rate: float, decay: float, mu: float, fresh: float) -> None:
    """Compute `b = mu * b + fresh * (g + decay * w); w -= rate * b`."""
    number = weight.dtype.type
    step, shrink, keep, new = number(rate), number(decay), number(mu), number(fresh)
    for i in range(weight.size):
        w = weight[i]
        b = keep * buffer[i] + new * (gradient[i] + shrink * w)
        buffer[i] = b
        weight[i] = w - step * b


@njit(cache=True, nogil=True, error_model="numpy")
def nesterov(weight: Flat, gradient: Flat, buffer: Flat, rate: float, decay: float, mu: float, fresh: float) -> None:
    """Compute `g += decay * w; b = mu * b + fresh * g; w -= rate * (g + mu * b)`."""
    number = weight.dtype.type
    step, shrink, keep, new = number(rate), number(decay), number(mu), number(fresh)
    for i in range(weight.size):
        w = weight[i]
        g = gradient[i] + shrink * w
        b = keep * buffer[i] + new * g
        buffer[i] = b
        weight[i] = w - step * (g + keep * b)


@njit(cache=True, nogil=True, error_model="numpy")
def adam(
    weight: Flat,
    gradient: Flat,
    exp_avg: Flat,
    exp_avg_sq: Flat,
    step_size: float,
    root_correction: float,
    fresh1: float,
    beta2: float,
    fresh2: float,
    epsilon: float,
    decay: float,
    keep: float,
) -> None:
    """Compute `m += fresh1 * (g - m); v = beta2 * v + fresh2 * g * g; w = keep * w - step_size * m / (sqrt(v) / root +
    eps)`.

    `decay` adds to the gradient (Adam), `keep = 1 - rate * decay` shrinks the weight itself (AdamW).
    """
    number = weight.dtype.type
    step, root, eps = number(step_size), number(root_correction), number(epsilon)
    new1, old2, new2 = number(fresh1), number(beta2), number(fresh2)
    penalty, shrink = number(decay), number(keep)
    for i in range(weight.size):
        w = weight[i]
        g = gradient[i] + penalty * w
        m = exp_avg[i] + new1 * (g - exp_avg[i])
        v = exp_avg_sq[i] * old2 + new2 * g * g
        exp_avg[i] = m
        exp_avg_sq[i] = v
        weight[i] = shrink * w - step * m / (np.sqrt(v) / root + eps)


@njit(cache=True, nogil=True, error_model="numpy")
def adagrad(weight: Flat, gradient: Flat, total: Flat, rate: float, epsilon: float, decay: float) -> None:
    """Compute `g += decay * w; s += g * g; w -= rate * g / (sqrt(s) + eps)`."""
    number = weight.dtype.type
    step, eps, penalty = number(rate), number(epsilon), number(decay)
    for i in range(weight.size):
        w = weight[i]
        g = gradient[i] + penalty * w
        s = total[i] + g * g
        total[i] = s
        weight[i] = w - step * (g / (np.sqrt(s) + eps))


@njit(cache=True, nogil=True, error_model="numpy")
def rmsprop(
    weight: Flat,
    gradient: Flat,
    square_avg: Flat,
    grad_avg: Flat,
    buffer: Flat,
    rate: float,
    old: float,
    fresh: float,
    epsilon: float,
    decay: float,
    mu: float,
    is_centred: float,
) -> None:
    """Compute `v = old * v + fresh * g * g; b = mu * b + g / (sqrt(v - centred * mean**2) + eps); w -= rate * b`."""
    number = weight.dtype.type
    step, keep, new, eps = number(rate), number(old), number(fresh), number(epsilon)
    penalty, inertia, centred = number(decay), number(mu), number(is_centred)
    for i in range(weight.size):
        w = weight[i]
        g = gradient[i] + penalty * w
        v = keep * square_avg[i] + new * g * g
        mean = grad_avg[i] + centred * new * (g - grad_avg[i])
        b = inertia * buffer[i] + g / (np.sqrt(v - mean * mean) + eps)
        square_avg[i] = v
        grad_avg[i] = mean
        buffer[i] = b
        weight[i] = w - step * b


@njit(cache=True, nogil=True, error_model="numpy")
def lion(weight: Flat, gradient: Flat, exp_avg: Flat, rate: float, beta1: float, beta2: float, keep: float) -> None:
    """Compute `w = keep * w - rate * sign(beta1 * m + (1 - beta1) * g); m = beta2 * m + (1 - beta2) * g`."""
    number = weight.dtype.type
    step, shrink = number(rate), number(keep)
    old1, new1, old2, new2 = number(beta1), number(1.0 - beta1), number(beta2), number(1.0 - beta2)
    for i in range(weight.size):
        g = gradient[i]
        m = exp_avg[i]
        weight[i] = shrink * weight[i] - step * np.sign(old1 * m + new1 * g)
        exp_avg[i] = old2 * m + new2 * g


@njit(cache=True, nogil=True, error_model="numpy")
def follow(average: Flat, weight: Flat, fresh: float) -> None:
    """Compute `a += fresh * (w - a)`."""
    new = average.dtype.type(fresh)
    for i in range(average.size):
        average[i] += new * (weight[i] - average[i])
