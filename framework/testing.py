"""Proof of derivatives: what the rules say against finite differences, in float64, to any order."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .context import no_grad
from .dtype import is_floating
from .tensor import Array, Tensor
from .transforms import grad

__all__ = ["check_gradients"]

# The step that balances the error of central differences (step**2) against that of float64 (1e-16 / step).
_STEP = 6e-6


def check_gradients(
    fn: Callable[..., Any], *inputs: Tensor, order: int = 2, tolerance: float = 1e-6, seed: int = 0
) -> None:
    """Nothing, if the derivatives of `fn` are right at `inputs`.

    Args:
        fn: Takes the inputs, returns a tensor or a tuple of tensors.
        inputs: Tensors; the floating-point ones must be float64, and are varied one element at a time.
        order: 1 checks the gradient, 2 also the gradient of the gradient, and so on.
        tolerance: Allowed difference, relative to the larger of 1 and the derivative; tenfold for each further order.
        seed: Of the weights with which the outputs are summed.

    Raises:
        AssertionError: A derivative differs; the message has both.
    """
    varied = tuple(i for i, x in enumerate(inputs) if is_floating(x.dtype))
    for i in varied:
        assert inputs[i].dtype == np.float64, f"input {i} must be float64 for finite differences, is {inputs[i].dtype}"
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
    """The function, its outputs summed with fixed random weights."""

    def scalar(*inputs: Tensor) -> Tensor:
        weights = np.random.default_rng(seed)
        outputs = fn(*inputs)
        total = Tensor(np.zeros(()))
        for y in outputs if isinstance(outputs, tuple) else (outputs,):
            if is_floating(y.dtype):
                total = total + (y * Tensor(weights.uniform(0.5, 1.5, y.shape))).sum()
        return total

    return scalar


def _differences(scalar: Callable[..., Tensor], inputs: Sequence[Tensor], position: int) -> Array:
    """The gradient by one input, by central differences."""
    x = inputs[position].asnumpy()
    result = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        values = []
        for sign in (1.0, -1.0):
            moved = x.copy()
            moved[place] += sign * _STEP
            varied = [*inputs[:position], Tensor(moved), *inputs[position + 1 :]]
            with no_grad():
                values.append(float(scalar(*varied)))
        result[place] = (values[0] - values[1]) / (2.0 * _STEP)
    return result
