"""Adversarial training for free: one pass back serves the weights and the perturbation alike."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, namespace
from ..distances import Norm, distance_named
from ..errors import InvalidInput
from ..model import Model, network_of
from .losses import cross_entropy
from .trainee import Optimizer
from .trainees import trainee
from .training import DefendedStep, checked_batch, share_right


class FreeTraining:
    """Replays each batch; every pass moves the weights down and the perturbation, which is carried on, up the loss.

    A batch costs `replays` passes forward and back and as many steps of the optimizer: with m replays train for 1/m as
    many epochs.

    Args:
        model: Engine `Cell` or torch `Module` in training mode, unwrapped.
        optimizer: Holds its trainable parameters.
        epsilon: The budget.
        norm: Of the budget.
        replays: Of each batch.
        bounds: Smallest and largest value of an input element.

    Reference:
        Shafahi et al. 2019, arXiv:1904.12843, algorithm 1.
    """

    def __init__(
        self,
        model: object,
        optimizer: Optimizer,
        epsilon: float,
        *,
        norm: Norm = "linf",
        replays: int = 8,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        if not (math.isfinite(epsilon) and epsilon > 0 and replays >= 1):
            raise InvalidInput(
                f"free training expects epsilon above 0 and 1 replay or more, got {epsilon} and {replays}"
            )
        self.model = Model(network_of(model), bounds, name=type(model).__name__)
        self._trainee = trainee(model, optimizer)
        self._epsilon, self._distance, self._replays = epsilon, distance_named(norm), replays
        self._change: Array | None = None

    def step(self, x: Array, y: ArrayLike) -> DefendedStep:
        """All replays of a batch `(n, ...)` with integer classes `(n,)`; what is returned is of the last."""
        inputs, labels = checked_batch(self.model, x, y)
        region = self._distance.region(inputs, np.full(len(inputs), self._epsilon), self.model.bounds)
        change = self._carried(inputs)
        for _ in range(self._replays):
            moved = region.project(inputs + change)
            loss, logits, gradient = self._trainee.learn_through(moved, lambda z: cross_entropy(z, labels))
            self._trainee.step()
            change = region.project(moved + self._epsilon * self._distance.steepest(gradient)) - inputs
        self._change = change
        return DefendedStep(loss, share_right(logits, labels))

    def _carried(self, inputs: Array) -> Array:
        """The perturbation that the last batch ended with; none at first, or where the batch has another shape."""
        if self._change is None or self._change.shape != inputs.shape:
            return namespace(inputs).zeros_like(inputs)
        return self._change
