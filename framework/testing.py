"""Proof of derivatives: what the rules say against finite differences, in float64, to any order."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .context import no_grad
from .dtype import is_complex, is_inexact
from .ops import imag, real
from .tensor import Array, Tensor
from .transforms import grad

__all__ = ["check_gradients"]

# The step that balances the error of central differences (step**2) against that of float64 (1e-16 / step).
_STEP = 6e-6


def check_gradients(
    fn: Callable[..., Any], *inputs: Tensor, order: int = 2, tolerance: float = 1e-6, seed: int = 0
) -> None:
    """Check that the derivatives of `fn` are right at `inputs`.

    Args:
        fn: Takes the inputs, returns a tensor or a tuple of tensors.
        inputs: Tensors; the floating-point ones must be float64 or complex128, and are varied one element at a time,
            of complex ones the real and the imaginary part.
        order: 1 checks the gradient, 2 also the gradient of the gradient, and so on.
        tolerance: Allowed difference, relative to the larger of 1 and the derivative; tenfold for each further order.
        seed: Of the weights with which the outputs are summed.

    Raises:
        AssertionError: A derivative differs; the message has both.
    """
    varied = tuple(i for i, x in enumerate(inputs) if is_inexact(x.dtype))
    for i in varied:
        kind = inputs[i].dtype
        assert kind in (np.float64, np.complex128), f"input {i} must be float64 for finite differences, is {kind}"
    scalar = _weighted(fn, seed)
    gradients = grad(scalar, varied)
    found = gradients(*inputs)
    for i, gradient in zip(varied, found, strict=True):
        expected = _differences(scalar, inputs, i)
        bound = tolerance * np.maximum(1.0, np.abs(expected))
        wrong = np.abs(gradient.numpy() - expected) > bound
        assert gradient.shape == expected.shape
        assert not wrong.any(), (
            f"gradient by input {i}, order {order} to go: rules say\n{gradient.numpy()}\ndifferences say\n{expected}"
        )
    if order > 1:
        check_gradients(gradients, *inputs, order=order - 1, tolerance=10 * tolerance, seed=seed + 1)


def _weighted(fn: Callable[..., Any], seed: int) -> Callable[..., Tensor]:
    """Return the function, its outputs summed with fixed random weights."""

    def scalar(*inputs: Tensor) -> Tensor:
        weights = np.random.default_rng(seed)
        outputs = fn(*inputs)
        total = Tensor(np.zeros(()))
        for y in outputs if isinstance(outputs, tuple) else (outputs,):
            for part in (real(y), imag(y)) if is_complex(y.dtype) else (y,) if is_inexact(y.dtype) else ():
                total = total + (part * Tensor(weights.uniform(0.5, 1.5, y.shape))).sum()
        return total

    return scalar


def _differences(scalar: Callable[..., Tensor], inputs: Sequence[Tensor], position: int) -> Array:
    """Return the gradient by one input, by central differences; `dL/da + i dL/db` by a complex one."""
    x = inputs[position].asnumpy()
    result = np.empty(x.shape, x.dtype)
    for place in np.ndindex(x.shape):
        result[place] = sum(
            direction * _slope(scalar, inputs, position, place, direction)
            for direction in ((1.0, 1.0j) if is_complex(x.dtype) else (1.0,))
        )
    return result


def _slope(
    scalar: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    position: int,
    place: tuple[int, ...],
    direction: complex,
) -> float:
    """Return how fast the scalar rises when one element moves in a direction of the complex plane."""
    values = []
    for sign in (1.0, -1.0):
        moved = inputs[position].asnumpy()
        moved[place] += sign * _STEP * direction
        varied = [*inputs[:position], Tensor(moved), *inputs[position + 1 :]]
        with no_grad():
            values.append(float(scalar(*varied)))
    return (values[0] - values[1]) / (2.0 * _STEP)
