"""Tells a loss that falls below zero without end from a likelihood that falls ever slower."""

from dataclasses import dataclass, field

#: Times the first loss below zero at which a loss that falls ever faster has no floor, and steps that it takes. Our
#: choice: likelihoods of healthy flows and mixtures fall ever slower.
_DEEP, _LONG = 10.0, 60
#: Share of the steps so far after which a level is kept.
_APART = 0.02


@dataclass(slots=True)
class BottomlessLoss:
    """The levels of a loss over steps, ever farther apart.

    Attributes:
        half: The level when half of the steps had been made.
    """

    marks: list[tuple[int, float]] = field(default_factory=list)
    half: float = float("nan")

    def learn(self, step: int, level: float, first: float) -> bool:
        """Take the level of the loss; return whether it is far below zero and falls no slower than at first."""
        if not self.marks or step - self.marks[-1][0] >= _APART * (step - self.marks[0][0]):
            self.marks.append((step, level))
        since, start = self.marks[0]
        if level >= 0 or step - since < _LONG or abs(level) <= _DEEP * max(abs(first), 1.0):
            return False
        self.half = next(mark for at, mark in reversed(self.marks) if 2 * (at - since) <= step - since)
        early, late = start - self.half, self.half - level
        return late >= early > 0
