"""Adversarial training: the model learns from the worst inputs instead of the clean ones, or from both."""

from dataclasses import dataclass

from ..arrays import Array, concatenate
from ..errors import InvalidInput
from ..model import Model
from .inner import Inner
from .losses import cross_entropy
from .recipe import Lesson
from .trainee import Loss


@dataclass(frozen=True, slots=True)
class Adversarial:
    """Cross-entropy of the worst inputs; with a share of clean ones it is natural adversarial training.

    Args:
        inner: How they are found: `Inner(epsilon)` for PGD, `fast(epsilon)`, `single_step(epsilon)`.
        clean_share: Weight of the clean inputs' loss, 0 or more and below 1.

    Reference:
        Madry et al. 2018, arXiv:1706.06083; the mixture is Goodfellow, Shlens and Szegedy 2015, arXiv:1412.6572.
    """

    inner: Inner
    clean_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.clean_share < 1:
            raise InvalidInput(f"clean_share expects 0 or more and below 1, got {self.clean_share}")

    def lesson(self, model: Model, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """The worst inputs, and behind them the clean ones where they have a share."""
        worst = self.inner.worst(model, x, labels, key)
        if not self.clean_share:
            return Lesson(worst, lambda logits: cross_entropy(logits, labels), slice(None))
        return Lesson(concatenate([worst, x]), mixed(labels, self.clean_share), slice(0, len(x)))


def mixed(labels: Array, clean_share: float) -> Loss:
    """The loss of attacked inputs and, behind them, the clean ones they were made of."""

    def loss(logits: Array) -> tuple[float, Array]:
        count = len(labels)
        attacked, slope = cross_entropy(logits[:count], labels)
        clean, other = cross_entropy(logits[count:], labels)
        value = (1 - clean_share) * attacked + clean_share * clean
        return value, concatenate([(1 - clean_share) * slope, clean_share * other])

    return loss
