"""Optimizer state: momenta and second moments, whatever slots the optimizer keeps."""

from ..kernels import STATISTICS
from .collector import Rows, Step, collector


@collector("optimizer", at="after_step", columns=STATISTICS)
class Optimizer:
    """Statistics of every slot after the step, as subject `optimizer/<slot>`; counters are left out."""

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Rows of each slot."""
        return {
            f"optimizer/{slot}": Rows(step.statistics(arrays), arrays.present)
            for slot, arrays in step.view.slots().items()
        }
