"""Gradients: what the optimizer is about to apply."""

import math

import numpy as np
from numpy.typing import NDArray

from ..kernels import STATISTICS
from .collector import Rows, Step, collector

_NANS = STATISTICS.index("nans")
_NOT_FINITE = slice(_NANS, STATISTICS.index("neg_infs") + 1)


@collector("gradient", at="before_step", columns=STATISTICS)
class Gradient:
    """Statistics of every parameter's gradient as the optimizer gets it: after clipping, without loss scale."""

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Rows of `gradient`; a parameter without gradient has none."""
        arrays = step.view.gradients()
        rows, norm = step.statistics_and_norm(arrays)
        present = arrays.present
        step.gradient_norm = norm
        if norm is None:
            step.gradient_norm = lambda: _norm(rows[present])
        elif norm == 0.0 and not present.any():
            step.gradient_norm = None
        return {"gradient": Rows(rows, present)}


def _norm(rows: NDArray[np.float64]) -> float | None:
    """The norm over all parameters; NaN or infinity where a gradient holds one, None of nothing."""
    if not len(rows):
        return None
    if rows[:, _NOT_FINITE].any():
        return math.nan if rows[:, _NANS].any() else math.inf
    norms = rows[:, 0]
    return math.sqrt(norms @ norms)
