"""What the clipping of gradients did."""

from ..collector import Step, collector


@collector("clip", at="before_step")
class Clip:
    """Norm of the gradients before they were shortened, and the factor that this took: 1 where the limit was above it.

    Nothing where nobody clips by norm. Seen are `torch.nn.utils.clip_grad_norm_` on the CPU and the engine's
    `clip_by_global_norm` outside of compiled functions.
    """

    def prepare(self, step: Step) -> None:
        """Nothing is needed before the step."""

    def __call__(self, step: Step) -> dict[str, float]:
        """`clip/norm` and `clip/coefficient`."""
        if step.clip is None:
            return {}
        norm, limit = step.clip
        return {"clip/norm": norm, "clip/coefficient": limit / norm if norm > limit else 1.0 if norm == norm else norm}
