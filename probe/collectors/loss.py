"""The loss, found by itself."""

from collections.abc import Mapping

from ..outbox.promises import LateScalar
from .collector import Step, collector


@collector("loss", at="after_step")
class Loss:
    """Value of the scalar from which the backward pass started, without loss scale; several are summed."""

    def __call__(self, step: Step) -> Mapping[str, float | LateScalar]:
        """`loss`, where one was found."""
        return {} if step.loss is None else {"loss": step.loss}
