"""The fused update kernels: weight, gradient and slots are each read once and written once, without temporaries.

Every kernel takes flat contiguous arrays of one dtype and scalars of that same dtype, so that the loop stays in it and
vectorises. The operations stand in the order of their papers' usual implementations; no reassociation is allowed in an
update, so a plain NumPy version in the same order gives the same bits.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Flat = NDArray[np.floating]
Scalar = np.floating


@njit(cache=True, nogil=True, error_model="numpy")
def sgd(weight: Flat, gradient: Flat, rate: Scalar, decay: Scalar) -> None:
    """`w -= rate * (g + decay * w)`."""
    for i in range(weight.size):
        w = weight[i]
        weight[i] = w - rate * (gradient[i] + decay * w)


@njit(cache=True, nogil=True, error_model="numpy")
def momentum(
    weight: Flat, gradient: Flat, buffer: Flat, rate: Scalar, decay: Scalar, mu: Scalar, fresh: Scalar
) -> None:
    """`b = mu * b + fresh * (g + decay * w); w -= rate * b`."""
    for i in range(weight.size):
        w = weight[i]
        b = mu * buffer[i] + fresh * (gradient[i] + decay * w)
        buffer[i] = b
        weight[i] = w - rate * b


@njit(cache=True, nogil=True, error_model="numpy")
def nesterov(
    weight: Flat, gradient: Flat, buffer: Flat, rate: Scalar, decay: Scalar, mu: Scalar, fresh: Scalar
) -> None:
    """`g += decay * w; b = mu * b + fresh * g; w -= rate * (g + mu * b)`."""
    for i in range(weight.size):
        w = weight[i]
        g = gradient[i] + decay * w
        b = mu * buffer[i] + fresh * g
        buffer[i] = b
        weight[i] = w - rate * (g + mu * b)


@njit(cache=True, nogil=True, error_model="numpy")
def adam(
    weight: Flat,
    gradient: Flat,
    exp_avg: Flat,
    exp_avg_sq: Flat,
    step_size: Scalar,
    root_correction: Scalar,
    fresh1: Scalar,
    beta2: Scalar,
    fresh2: Scalar,
    epsilon: Scalar,
    decay: Scalar,
    keep: Scalar,
) -> None:
    """`m += fresh1 * (g - m); v = beta2 * v + fresh2 * g * g; w = keep * w - step_size * m / (sqrt(v) / root + eps)`.

    `decay` adds to the gradient (Adam), `keep = 1 - rate * decay` shrinks the weight itself (AdamW).
    """
    for i in range(weight.size):
        w = weight[i]
        g = gradient[i] + decay * w
        m = exp_avg[i] + fresh1 * (g - exp_avg[i])
        v = exp_avg_sq[i] * beta2 + fresh2 * g * g
        exp_avg[i] = m
        exp_avg_sq[i] = v
        weight[i] = w * keep - step_size * m / (np.sqrt(v) / root_correction + epsilon)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def sum_of_squares(gradient: Flat) -> float:
    """Sum of the squares in float64; NaN or infinite exactly when an element is, or when float64 overflows."""
    total = 0.0
    for i in range(gradient.size):
        g = np.float64(gradient[i])
        total += g * g
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def scale(gradient: Flat, factor: Scalar) -> None:
    """`g *= factor`, in place."""
    for i in range(gradient.size):
        gradient[i] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def unscale(gradient: Flat, inverse: Scalar) -> bool:
    """True when every element is finite after `g *= inverse`, which happens in place."""
    bad = 0
    for i in range(gradient.size):
        g = gradient[i] * inverse
        gradient[i] = g
        bad += g - g != 0
    return bad == 0
