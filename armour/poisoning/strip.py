"""STRIP: an input that carries a trigger keeps its class whatever else is blended into it."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Images
from ..errors import InvalidInput
from ..model import Model
from ..model.confidence import probabilities


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """Minus the mean entropy of the predictions for an input blended with clean ones.

    Args:
        model: Wrapped.
        clean: `(m, ...)` inputs to blend with, clipped to the model's bounds after.
        blends: How many are drawn for each input.
        weight: Of the clean input; the suspect one is added in full. The paper takes 1, which saturates unit boxes.
        seed: Of the draw.

    Reference:
        Gao et al. 2019, arXiv:1902.06531, section 4.
    """

    model: Model
    clean: Images
    blends: int = 50
    weight: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not len(self.clean) or self.blends < 1 or not self.weight > 0:
            raise InvalidInput(
                f"expected clean inputs, blends >= 1 and weight > 0, got {len(self.clean)}, {self.blends}"
            )

    def scores(self, x: Images) -> Floats:
        """`(n,)` up to 0, larger when more like a trigger."""
        generator = np.random.default_rng(self.seed)
        total = np.zeros(len(x))
        for _ in range(self.blends):
            others = self.clean[generator.integers(len(self.clean), size=len(x))]
            blended = np.clip(x + self.weight * others, *self.model.bounds).astype(x.dtype)
            p = probabilities(self.model, blended)
            total += (p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
        return total / self.blends
