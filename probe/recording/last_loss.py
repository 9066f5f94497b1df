"""The loss of the newest idle step, which is recorded if it turns out to be the last one of the run."""

from ..late_scalars import LateScalar


class LastLoss:
    """Keeps the losses of the step in progress and of the one before it, while steps are idle.

    Attributes:
        step: The newest step with a backward pass; -1 without.
        usual_passes: Backward passes of the newest step that was no idle one. A step with another number is not
            understood without the hooks that rest, and has no loss here.
    """

    __slots__ = ("_before", "_losses", "step", "usual_passes")

    def __init__(self) -> None:
        self.step, self.usual_passes = -1, 0
        self._losses: list[float | LateScalar | None] = []
        self._before: tuple[int, list[float | LateScalar | None]] = (-1, [])

    def add(self, step: int, loss: float | LateScalar | None) -> None:
        """Add the loss that a backward pass of this step starts from; None where it is no scalar."""
        if step != self.step:
            self._before = (self.step, self._losses)
            self.step, self._losses = step, []
        if len(self._losses) <= self.usual_passes:
            self._losses.append(loss)

    def of(self, step: int) -> float | None:
        """Return the loss of the step, the sum over its backward passes; None where that is not known."""
        found = next((losses for number, losses in ((self.step, self._losses), self._before) if number == step), [])
        known = [loss() if callable(loss) else loss for loss in found]
        values = [loss for loss in known if loss is not None]
        return sum(values) if values and len(values) == len(found) == self.usual_passes else None
