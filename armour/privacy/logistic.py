"""A logistic classifier for the shadow attack: few features, solved to the end by Newton's method."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import InvalidInput

_RIDGE = 1e-3  # by the number of samples: keeps separable data finite; our choice


def fit_logistic(x: Floats, is_positive: NDArray[np.bool_], *, steps: int = 50) -> Callable[[Floats], Floats]:
    """A function of features `(n, d)` to log-odds `(n,)`, fitted by maximum likelihood with a small ridge.

    Args:
        x: `(samples, d)` finite features.
        is_positive: `(samples,)`, both classes present.
        steps: Newton steps at most; it stops when a step no longer moves the weights.

    Raises:
        InvalidInput: Only one class is present.
    """
    if is_positive.all() or not is_positive.any():
        raise InvalidInput("is_positive expects both classes, got one; train shadows on halves of the population")
    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)

    def standardised(values: Floats) -> Floats:
        return np.concatenate([(values - mean) / scale, np.ones((len(values), 1))], axis=1)

    design = standardised(x)
    ridge = _RIDGE * np.eye(design.shape[1])
    weights = np.zeros(design.shape[1])
    for _ in range(steps):
        probabilities = 1 / (1 + np.exp(-np.clip(design @ weights, -500, 500)))
        slope = design.T @ (is_positive - probabilities) / len(x) - ridge @ weights
        curvature = (design * (probabilities * (1 - probabilities))[:, None]).T @ design / len(x) + ridge
        move = np.linalg.solve(curvature, slope)
        weights = weights + move * min(1.0, 5.0 / max(float(np.abs(move).max()), 1e-12))
        if np.abs(move).max() < 1e-9:
            break
    return lambda values: standardised(values) @ weights
