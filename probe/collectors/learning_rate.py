"""The learning rate of every group."""

from .collector import Step, collector


@collector("learning_rate", at="before_step")
class LearningRate:
    """Rate with which the step is taken: `learning_rate`, and `learning_rate/1` and so on for further groups."""

    def __call__(self, step: Step) -> dict[str, float]:
        """One scalar a group."""
        rates = step.view.learning_rates()
        return {f"learning_rate/{i}" if i else "learning_rate": rate for i, rate in enumerate(rates)}
