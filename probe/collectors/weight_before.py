"""Weights before the step, for who records them now and then and wants both sides of the update."""

from ..kernels import STATISTICS
from .collector import Rows, Step, collector


@collector("weight/before", at="before_step", columns=STATISTICS, is_optional=True)
class WeightBefore:
    """Statistics of every parameter before the optimizer moves it, the same as `weight` one step earlier.

    Off unless the configuration names it: where `weight` is recorded at every step it says nothing new.
    """

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Rows of `weight/before`."""
        arrays = step.weights()
        return {"weight/before": Rows(step.statistics(arrays), arrays.present)}
