"""Defensive distillation: the model learns a teacher's probabilities, softened by a temperature."""

import math
from dataclasses import dataclass

from ..arrays import Array, namespace
from ..errors import InvalidInput
from ..model import Model
from .losses import log_softmax, soft_cross_entropy
from .recipe import Lesson


@dataclass(frozen=True, slots=True)
class Distillation:
    """Cross-entropy with the teacher's probabilities, the logits of both divided by the temperature.

    It makes gradients vanish rather than the model robust (Carlini and Wagner 2017, arXiv:1608.04644): what it is worth
    stands in the masking verdict of `evaluate`.

    Args:
        teacher: Wrapped, of either framework; trained at the same temperature in the paper.
        temperature: By which logits are divided in training; the model is used without.

    Reference:
        Papernot et al. 2016, arXiv:1511.04508, section IV.
    """

    teacher: Model
    temperature: float = 20.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise InvalidInput(f"distillation expects a temperature above 0, got {self.temperature}")

    def lesson(self, model: Model, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """The inputs as they are, with the teacher's probabilities for labels."""
        logits = model.native(self.teacher.logits(self.teacher.native(x)))
        softened = namespace(x).exp(log_softmax(logits / self.temperature))
        return Lesson(x, lambda logits: soft_cross_entropy(logits, softened, self.temperature), slice(0, 0))
