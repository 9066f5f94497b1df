"""How long a step took."""

from .collector import Step, collector


@collector("step_seconds", at="after_step")
class StepSeconds:
    """Wall time from the end of the previous step to the end of this one, data loading included."""

    def __call__(self, step: Step) -> dict[str, float]:
        """`step_seconds`."""
        return {"step_seconds": step.elapsed_s}
