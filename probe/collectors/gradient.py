"""Gradients: what the optimizer is about to apply."""

import numpy as np
from numpy.typing import NDArray

from ..collector import Rows, Step, collector
from ..kernels import STATISTICS

_NANS = STATISTICS.index("nans")
_INFS = [STATISTICS.index("pos_infs"), STATISTICS.index("neg_infs")]


@collector("gradient", at="before_step", columns=STATISTICS)
class Gradient:
    """Statistics of every parameter's gradient as the optimizer gets it: after clipping, without loss scale."""

    def prepare(self, step: Step) -> None:
        """Nothing is needed before the step."""

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Rows of `gradient`; a parameter without gradient has none."""
        arrays = step.view.gradients()
        rows = step.statistics(arrays)
        present = arrays.present
        if step.may_be_late(arrays):
            step.gradient_norm = lambda: _norm(rows[present])
        else:
            step.gradient_norm = _norm(rows[present])
        return {"gradient": Rows(rows, arrays.present)}


def _norm(rows: NDArray[np.float64]) -> float | None:
    """The norm over all parameters; NaN or infinity where a gradient holds one, None of nothing."""
    if not len(rows):
        return None
    if rows[:, _NANS].any():
        return float("nan")
    return float("inf") if rows[:, _INFS].any() else float(np.sqrt((rows[:, 0] ** 2).sum()))
