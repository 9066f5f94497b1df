"""Region-based detection: an adversarial input sits in a thin corner of its class, most of its surroundings do not."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Images
from ..errors import InvalidInput
from ..model import Model
from ..model.confidence import model_logits


@dataclass(frozen=True, slots=True)
class RegionBased:
    """The share of points drawn from the hypercube around an input that get another class than the input.

    Args:
        model: Wrapped; points are clipped to its bounds.
        radius: Half the edge of the hypercube.
        points: Drawn for each input.
        seed: Of the draw.

    Reference:
        Cao, Gong 2017, arXiv:1709.05583, section 4.
    """

    model: Model
    radius: float = 0.3
    points: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.radius > 0 or self.points < 1:
            raise InvalidInput(f"radius expects above 0, points 1 or more, got {self.radius} and {self.points}")

    def scores(self, x: Images) -> Floats:
        """`(n,)` from 0 to 1."""
        own = model_logits(self.model, x).argmax(axis=1)
        other = np.zeros(len(x))
        generator = np.random.default_rng(self.seed)
        for _ in range(self.points):
            around = x + generator.uniform(-self.radius, self.radius, x.shape)
            moved = np.clip(around, *self.model.bounds).astype(x.dtype)
            other += model_logits(self.model, moved).argmax(axis=1) != own
        return other / self.points
