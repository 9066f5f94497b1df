"""Ensemble adversarial training: inputs attacked through other models, which this one cannot learn to bend."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, concatenate
from ..errors import InvalidInput
from ..model import Model
from .adversarial import mixed
from .inner import Inner
from .recipe import Lesson


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Half clean inputs, half inputs attacked through a model that is drawn anew for each step.

    Args:
        inner: How inputs are attacked.
        sources: Trained models, wrapped, of either framework, that stay as they are; the one in training is drawn as
            often as each of them.

    Reference:
        Tramèr et al. 2018, arXiv:1705.07204, section 3.3.
    """

    inner: Inner
    sources: tuple[Model, ...]

    def __post_init__(self) -> None:
        if not self.sources:
            raise InvalidInput("sources expects one wrapped model or more, got none; without them it is Adversarial")

    def lesson(self, model: Model, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """Inputs attacked through one of the models, and behind them the clean ones."""
        drawn = int(np.random.default_rng(key).integers(1 + len(self.sources)))
        source = (model, *self.sources)[drawn]
        worst = model.native(self.inner.worst(source, source.native(x), source.native(labels), key))
        return Lesson(concatenate([worst, x]), mixed(labels, 0.5), slice(0, len(x)))
