"""Steps of an optimizer that make a model robust, and the accuracies that tell when it begins to overfit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, from_numpy, namespace, to_numpy
from ..contract.attack import Attack
from ..errors import InvalidInput
from ..model import Model, network_of
from .recipe import Recipe
from .trainee import Optimizer
from .trainees import trainee
from .weight_perturbation import worst_weights


@dataclass(frozen=True, slots=True)
class DefendedStep:
    """What one step did.

    Args:
        loss: Of the recipe, before the step.
        robust_accuracy: Share of the attacked inputs that the model, in training mode, got right before the step; NaN
            where the recipe attacks none.
    """

    loss: float
    robust_accuracy: float

    @property
    def scalars(self) -> dict[str, float]:
        """For `Monitor.log`; beside `robust/validation_accuracy` they let the diagnosis find robust overfitting."""
        if np.isnan(self.robust_accuracy):
            return {"loss": self.loss}
        return {"loss": self.loss, "robust/train_accuracy": self.robust_accuracy}


class DefendedTraining:
    """Trains an engine `Cell` or a torch `Module` by a recipe; modes, devices and monitors are the caller's.

    Args:
        model: In training mode, unwrapped; inputs are attacked in evaluation mode.
        optimizer: Holds its trainable parameters.
        recipe: `Adversarial`, `Trades`, `Ensemble`, `Distillation`.
        weight_perturbation: The gamma of adversarial weight perturbation, 0 for none; the paper takes 0.005.
        bounds: Smallest and largest value of an input element.
        seed: Of random starts.

    Example:
        >>> training = DefendedTraining(net, Adam(net.trainable_params()), Trades(Inner(0.1)))  # doctest: +SKIP
        >>> for x, y in batches:  # doctest: +SKIP
        ...     monitor.log(training.step(x, y).scalars)
    """

    def __init__(
        self,
        model: object,
        optimizer: Optimizer,
        recipe: Recipe,
        *,
        weight_perturbation: float = 0.0,
        bounds: tuple[float, float] = (0.0, 1.0),
        seed: int = 0,
    ) -> None:
        if not 0 <= weight_perturbation < 1:
            raise InvalidInput(f"weight_perturbation expects 0 or more and below 1, got {weight_perturbation}")
        self.model = Model(network_of(model), bounds, name=type(model).__name__)
        self.steps = 0
        self._trainee = trainee(model, optimizer)
        self._recipe, self._gamma, self._seed = recipe, weight_perturbation, seed

    def step(self, x: Array, y: ArrayLike) -> DefendedStep:
        """One step on a batch `(n, ...)` with integer classes `(n,)`."""
        inputs, labels = checked_batch(self.model, x, y)
        lesson = self._recipe.lesson(self.model, inputs, labels, (self._seed, self.steps))
        with worst_weights(self._trainee, lesson, self._gamma):
            loss, logits = self._trainee.learn(lesson.inputs, lesson.loss)
        self._trainee.step()
        self.steps += 1
        return DefendedStep(loss, share_right(logits[lesson.attacked], labels))


def robust_accuracy(model: Model, attack: Attack, x: Array, y: ArrayLike, epsilon: float) -> float:
    """The accuracy that the attack leaves; on held-out data it is what `robust/validation_accuracy` stands for."""
    return float(attack(model, x, y, epsilons=[epsilon]).robust_accuracy[0])


def checked_batch(model: Model, x: Array, y: ArrayLike) -> tuple[Array, Array]:
    """Native inputs and native classes of a batch.

    Raises:
        InvalidInput: There is no sample, as many labels as samples are missing, or an input is outside the box.
    """
    inputs, labels = model.native(x), np.asarray(to_numpy(y) if hasattr(y, "cpu") else y)
    if not len(inputs) or labels.shape != (len(inputs),) or labels.dtype.kind not in "iu":
        raise InvalidInput(
            f"y expects one integer class for each of 1 input or more, got {labels.dtype} of shape {labels.shape} for "
            f"{len(inputs)} inputs"
        )
    low, high = model.bounds
    smallest, largest = float(inputs.min()), float(inputs.max())
    if not low <= smallest <= largest <= high:  # also where one is NaN
        raise InvalidInput(f"x expects values within [{low:g}, {high:g}], got [{smallest:g}, {largest:g}]")
    return inputs, from_numpy(labels.astype(np.int64), inputs)


def share_right(logits: Array, labels: Array) -> float:
    """The share of `(n, classes)` logits that are largest at the label; NaN where there are none."""
    if not len(logits):
        return float("nan")
    return float(np.mean(to_numpy(namespace(logits).argmax(logits, axis=1) == labels)))
