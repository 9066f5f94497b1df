"""What the clipping of gradients did."""

from collections.abc import Mapping

from ..outbox.promises import LateScalar
from .collector import Step, collector


@collector("clip", at="before_step")
class Clip:
    """Norm of the gradients before they were shortened, and the factor that this took: 1 where the limit was above it.

    Nothing where nobody clips by norm. Seen are `torch.nn.utils.clip_grad_norm_` and the engine's
    `clip_by_global_norm` outside of compiled functions.
    """

    def __call__(self, step: Step) -> Mapping[str, float | LateScalar]:
        """`clip/norm` and `clip/coefficient`."""
        if step.clip is None:
            return {}
        norm, limit = step.clip
        if callable(norm):
            return {"clip/norm": norm, "clip/coefficient": lambda: coefficient(norm(), limit)}
        return {"clip/norm": norm, "clip/coefficient": coefficient(norm, limit) or 0.0}


def coefficient(norm: float | None, limit: float) -> float | None:
    """What gradients of this norm are multiplied by: 1 below the limit, NaN for NaN, None where it is not known."""
    if norm is None:
        return None
    return limit / norm if norm > limit else 1.0 if norm == norm else norm
