"""Gradients: what the optimizer is about to apply."""

from ..collector import Rows, Step, collector
from ..kernels import STATISTICS


@collector("gradient", at="before_step", columns=STATISTICS)
class Gradient:
    """Statistics of every parameter's gradient as the optimizer gets it: after clipping, without loss scale."""

    def prepare(self, step: Step) -> None:
        """Nothing is needed before the step."""

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Rows of `gradient`; a parameter without gradient has none."""
        arrays = step.view.gradients()
        return {"gradient": Rows(arrays.statistics(), arrays.present)}
