"""The global gradient norm, as clipping would measure it."""

from ..collector import Step, collector


@collector("gradient_norm", at="before_step")
class GradientNorm:
    """L2 norm over the gradients of all recorded parameters as the optimizer gets them; not finite where one is not.

    Made of the norms that `gradient` has measured in the same step, so it costs nothing; nothing where that is not due.
    """

    def prepare(self, step: Step) -> None:
        """Nothing is needed before the step."""

    def __call__(self, step: Step) -> dict[str, float]:
        """The scalar `gradient_norm`."""
        if step.gradient_norm is None:
            return {}
        return {"gradient_norm": step.gradient_norm}
