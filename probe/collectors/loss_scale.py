"""The loss scale of mixed precision."""

from collections.abc import Mapping

from ..outbox.promises import LateScalar
from .collector import Step, collector


@collector("loss_scale", at="after_step")
class LossScale:
    """Factor by which the loss was multiplied before the backward pass."""

    def __call__(self, step: Step) -> Mapping[str, float | LateScalar]:
        """`loss_scale`, where there is one."""
        return {} if step.loss_scale is None else {"loss_scale": step.loss_scale}
