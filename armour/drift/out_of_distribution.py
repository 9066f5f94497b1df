"""Inputs unlike anything that the model was trained on, by the energy of its logits; see also `fit_mahalanobis`."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Images
from ..errors import InvalidInput
from ..model import Model
from ..model.confidence import model_logits


@dataclass(frozen=True, slots=True)
class Energy:
    """The free energy -T log sum exp(logits / T): low for inputs of the training distribution.

    Args:
        model: Wrapped.
        temperature: T, above 0.

    Reference:
        Liu et al. 2020, arXiv:2010.03759, equation 3.
    """

    model: Model
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise InvalidInput(f"temperature expects a number above 0, got {self.temperature}")

    def scores(self, x: Images) -> Floats:
        """`(n,)`, larger when stranger."""
        logits = model_logits(self.model, x) / self.temperature
        return np.asarray(-self.temperature * np.logaddexp.reduce(logits, axis=1), np.float64)
