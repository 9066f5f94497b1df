"""Tells a training whose weights have hardly moved, and whose loss is still that of guessing."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isnan
from typing import Final

from ..context.step_context import StepContext
from ..running_statistics import Window

#: Scalars that tell what guessing costs.
GUESSES: Final = ("target/entropy", "target/constant_loss")
#: Records, sum of updates over weights in them, and share of the loss of guessing: so little movement in so many steps,
#: with a loss that is still near that of guessing. Our healthy trainings had moved ten times as far.
RECORDS, _PATH, _NEAR_GUESSING = 150, 0.05, 0.9
#: The same after more steps; thinned records count for the steps between them.
_LONG, LONG_PATH, _AT_GUESSING = 300, 0.3, 0.97
#: Records between two judgements.
JUDGED: Final = 10


@dataclass(slots=True)
class SlowPath:
    """How far the weights have come since the beginning, and the loss.

    Attributes:
        length: The sum of updates over weights, of the typical matrix.
        records: Number of them.
        guess: What guessing costs; NaN where that is not known.
        first_loss: NaN before there is one.
        losses: The newest.
    """

    length: float = 0.0
    records: int = 0
    guess: float = float("nan")
    first_loss: float = float("nan")
    losses: Window = field(default_factory=lambda: Window(12))

    def learn_loss(self, loss: float | None) -> None:
        """Take the loss of a record."""
        if loss is not None:
            self.losses.add(loss)
            self.first_loss = loss if isnan(self.first_loss) else self.first_loss

    def learn_guess(self, values: Iterable[float | None]) -> None:
        """Take what guessing costs, by the scalars of a record; the last that is known counts."""
        for value in values:
            self.guess = self.guess if value is None else value

    def learn_update(self, ratio: float) -> None:
        """Take the update of a record over its weights; NaN where there is none."""
        if not isnan(ratio):
            self.length += ratio
            self.records += 1

    def is_due(self) -> bool:
        """Return whether so many records have been taken that the path may be judged now."""
        return self.records >= RECORDS and self.records % JUDGED == 0 and 0 < self.length < LONG_PATH

    def is_near_guessing(self, context: StepContext) -> bool:
        """Return whether the loss is near that of guessing, after a short path, or nearer after a longer one."""
        loss = self.losses.median()
        if self.length < _PATH:
            return loss > _NEAR_GUESSING * self.guess > 0
        is_long = context.step >= _LONG and self.length / self.records * (context.step + 1) < LONG_PATH
        return is_long and loss > _AT_GUESSING * self.guess > 0
