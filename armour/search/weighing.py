"""The constant that weighs a hinge on the logits against a distance, found for each sample by search."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import namespace, to_numpy
from ..arrays.rows import flat
from ..problem import Problem
from ..problem.objective import margin

_SMALLEST, _LARGEST = 1e-12, 1e12  # beyond, float32 would lose one side of the sum
_WIDEN = 3.0  # by which an open side of the bracket is widened: our choice, as the first guess is seldom far off


class Weighing:
    """The smallest weight of each sample under which a descent still finds an adversarial example.

    The paper starts all samples at one constant and needs many rounds to come near. Here the first guess is the one
    that is right for a linear model in L2: there the minimum of `|d|^2 + c (gap - g d)` reaches the boundary when
    `c = 2 gap / |g|^2`, with the gap between the logits and its gradient `g` at the input.

    Args:
        toll: What every element costs in proportion to its change, which the pull of the steepest has to exceed first.

    Reference:
        Carlini and Wagner 2017, arXiv:1608.04644, section VI-A; the first guess is our choice.
    """

    def __init__(self, problem: Problem, toll: float = 0.0) -> None:
        ascent = problem.ascend(problem.x, problem.rows, margin)
        slopes = flat(ascent.gradient)
        steepness = namespace(slopes).sum(slopes**2, axis=1)
        gap = problem.criterion(problem.rows).lead - np.asarray(to_numpy(ascent.value), np.float64)
        steep = np.asarray(to_numpy(steepness), np.float64)
        guess = np.where(steep > 0, 2 * gap / np.where(steep > 0, steep, 1.0), 1.0)
        if toll:
            steepest = np.asarray(to_numpy(namespace(slopes).max(abs(slopes), axis=1)), np.float64)
            guess = guess + toll / np.where(steepest > 0, steepest, 1.0)
        self.weights: NDArray[np.float64] = np.clip(guess, _SMALLEST, _LARGEST)
        self._low = np.zeros(len(guess))
        self._high = np.full(len(guess), np.inf)

    def narrow(self, met: NDArray[np.bool_]) -> None:
        """The next weights, after the last ones gave an adversarial example where `met`."""
        self._high = np.where(met, self.weights, self._high)
        self._low = np.where(met, self._low, self.weights)
        middle = np.sqrt(self._low * np.where(np.isinf(self._high), 0.0, self._high))
        lower = np.where(self._low > 0, middle, self._high / _WIDEN)
        self.weights = np.clip(np.where(np.isinf(self._high), self.weights * _WIDEN, lower), _SMALLEST, _LARGEST)
