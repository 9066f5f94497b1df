"""The loss, found by itself."""

from ..collector import Step, collector


@collector("loss", at="after_step")
class Loss:
    """Value of the scalar from which the backward pass started, without loss scale; several are summed."""

    def prepare(self, step: Step) -> None:
        """Nothing is needed before the step."""

    def __call__(self, step: Step) -> dict[str, float]:
        """`loss`, where one was found."""
        return {} if step.loss is None else {"loss": step.loss}
