"""Targets so far from where the answers begin that no step brings them near."""

from dataclasses import dataclass
from math import isfinite

from ..context.step_context import StepContext
from ..event_fields import number
from .loss_anchor import EXACT

#: Step from which on it is judged; times the cost of the best constant answer; share of the first loss; and the loss
#: below which the targets are no large numbers, as for squares of a hundred (our choice).
_FROM, _TIMES, _LEFT, _LARGE = 90, 5.0, 0.5, 1e4


@dataclass(frozen=True, slots=True)
class FarLoss:
    """The loss of answers that have come no nearer, its first value, and what the best constant answer would cost."""

    loss: float
    first: float
    constant: float


@dataclass(slots=True)
class FarTargets:
    """Compares the loss with that of the best constant answer, which any bias of the last layer could give."""

    first: float = float("nan")
    factor: float = 1.0
    is_over: bool = False

    def learn(self, context: StepContext) -> FarLoss | None:
        """Take this record; return what is wrong once it is."""
        for event in context.events("accumulation"):
            self.factor = number(event, "factor")
        loss, constant = context.scalar("loss"), context.scalar("target/constant_loss")
        if self.is_over or loss is None or constant is None or not isfinite(loss):
            return None
        self.first = loss if self.first != self.first else self.first
        if context.step < _FROM:
            return None
        is_plain = abs(self.factor - 1.0) < EXACT and context.kind.name == "regression"
        self.is_over = loss < _LEFT * self.first or not is_plain
        if self.is_over or loss < max(_TIMES * constant, _LARGE):
            return None
        self.is_over = True
        return FarLoss(loss, self.first, constant)
