"""What an explanation needs of a model, as callables, and the checks of what these return.

The model stays where it is: whoever has one wraps it into functions of NumPy arrays. `examples/explain_a_model.py` and
`examples/explain_pytorch.py` do so.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Gradient", "Score", "gradients", "scores", "space_of"]

Floats = NDArray[np.float64]
#: `(n, *input)` to `(n,)`: what is explained, e.g. the logit of one class, of each of several inputs.
Score = Callable[[Any], Any]  # Any: arrays of whatever float the model takes and gives
#: `(n, *input)` to `(n, *input)`: the gradient of each input's own score.
Gradient = Callable[[Any], Any]

_BATCH = 64


def scores(score: Score, inputs: Floats, *, batch: int = _BATCH) -> Floats:
    """`(n,)` the scores, asked for in batches.

    Raises:
        ValueError: The function returned something else than one number an input.
    """
    parts = []
    for start in range(0, len(inputs), batch):
        given = inputs[start : start + batch]
        part = np.asarray(score(given), dtype=np.float64)
        if part.shape != (len(given),):
            raise ValueError(f"score of inputs {given.shape} must have shape {(len(given),)}, got {part.shape}")
        parts.append(part)
    return np.concatenate(parts)


def gradients(gradient: Gradient, inputs: Floats, *, batch: int = _BATCH) -> Floats:
    """`(n, *input)` the gradients, asked for in batches.

    Raises:
        ValueError: The function returned another shape than the inputs'.
    """
    parts = []
    for start in range(0, len(inputs), batch):
        given = inputs[start : start + batch]
        part = np.asarray(gradient(given), dtype=np.float64)
        if part.shape != given.shape:
            raise ValueError(f"gradient of inputs {given.shape} must have their shape, got {part.shape}")
        parts.append(part)
    return np.concatenate(parts)


def space_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths of the axes that are space: all of a vector or a matrix, the last two behind channels."""
    return shape if len(shape) < 3 else shape[-2:]
