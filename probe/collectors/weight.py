"""Weights: the parameters after the step."""

from ..kernels import STATISTICS
from .collector import Rows, Step, collector


@collector("weight", at="after_step", columns=STATISTICS)
class Weight:
    """Statistics of every parameter after the optimizer has moved it; whole tensors of `dump` are those before it."""

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Rows of `weight`."""
        arrays = step.weights()
        return {"weight": Rows(step.statistics(arrays, step.weight_rows), arrays.present)}
