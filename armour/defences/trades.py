"""TRADES: accuracy on clean inputs, and predictions that do not change within the budget, weighed by one number."""

import math
from dataclasses import dataclass

from ..arrays import Array, concatenate
from ..errors import InvalidInput
from ..model import Model
from ..problem.criterion import Criterion
from .inner import Inner
from .losses import cross_entropy, divergence
from .recipe import Lesson
from .trainee import Loss


@dataclass(frozen=True, slots=True)
class Trades:
    """Cross-entropy of clean inputs plus beta times the largest divergence of the predictions within the budget.

    Args:
        inner: How the divergence is made large; it has to start at random, for at the input its gradient is zero.
        beta: Weight of the divergence.

    Reference:
        Zhang et al. 2019, arXiv:1901.08573, equation 5.
    """

    inner: Inner
    beta: float = 6.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.beta) and self.beta > 0) or not self.inner.random_start:
            raise InvalidInput(
                f"TRADES expects beta above 0 and an inner search with random_start=True, got beta={self.beta}, "
                f"random_start={self.inner.random_start}"
            )

    def lesson(self, model: Model, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """The inputs whose predictions have changed most, and behind them the clean ones."""
        clean = model.logits(x)

        def apart(logits: Array, _: Criterion) -> tuple[Array, Array]:
            value, _, slope = divergence(clean, logits)
            return logits[:, 0] * 0.0 + value, slope

        worst = self.inner.worst(model, x, labels, key, apart)
        return Lesson(concatenate([worst, x]), self._loss(labels), slice(0, len(x)))

    def _loss(self, labels: Array) -> Loss:
        def loss(logits: Array) -> tuple[float, Array]:
            count = len(labels)
            natural, slope = cross_entropy(logits[count:], labels)
            apart, to_clean, to_worst = divergence(logits[count:], logits[:count])
            return natural + self.beta * apart, concatenate([self.beta * to_worst, slope + self.beta * to_clean])

        return loss
