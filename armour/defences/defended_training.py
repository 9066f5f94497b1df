"""Steps of an optimizer that make a model robust, and the accuracies that tell when it begins to overfit."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...probe import aside
from ..array_api import Array, flat, from_numpy, namespace, to_numpy
from ..contract.attack import Attack
from ..distances import Norm, distance_named
from ..errors import InvalidInput
from ..model import WrappedModel, network_of
from .defence_recipes import Lesson, Recipe, mean_cross_entropy
from .trainee import Trainee, TrainingOptimizer, trainee


@contextmanager
def worst_weights(trainee: Trainee, lesson: Lesson, gamma: float) -> Iterator[None]:
    """Move the weights within the block so that the lesson's loss is larger, and restore them afterwards.

    Each weight matrix moves along its own gradient, by gamma times its own length; vectors, such as biases and the
    parameters of normalisation, stay, as in the authors' own program. One step finds the direction.

    Args:
        gamma: Relative size of the move; 0 for no move.

    Reference:
        Wu, Xia and Wang 2020, arXiv:2004.05884, section 4.1.
    """
    if not gamma:
        yield
        return
    original = trainee.weights()
    with aside():
        trainee.learn(lesson.inputs, lesson.loss)
    moved = [_move(weight, gradient, gamma) for weight, gradient in zip(original, trainee.gradients(), strict=True)]
    trainee.set_weights(moved)
    try:
        yield
    finally:
        trainee.set_weights(original)


def _move(weight: Array, gradient: Array | None, gamma: float) -> Array:
    if gradient is None or weight.ndim < 2:
        return weight
    xp = namespace(weight)
    own, steep = (xp.sqrt(xp.sum(flat(values) ** 2)) for values in (weight, gradient))
    return weight + gamma * own / (steep + 1e-12) * gradient


@dataclass(frozen=True, slots=True)
class DefendedStep:
    """The loss and accuracy of one step.

    Args:
        loss: Of the recipe, before the step.
        robust_accuracy: Share of the attacked inputs that the model, in training mode, got right before the step; NaN
            where the recipe attacks none.
    """

    loss: float
    robust_accuracy: float

    @property
    def scalars(self) -> dict[str, float]:
        """The scalars for `Monitor.log`; with `robust/validation_accuracy` the diagnosis finds robust overfitting."""
        if np.isnan(self.robust_accuracy):
            return {"loss": self.loss}
        return {"loss": self.loss, "robust/train_accuracy": self.robust_accuracy}


class DefendedTraining:
    """Training of an engine `Cell` or a torch `Module` by a recipe; modes, devices and monitors are the caller's.

    Args:
        model: In training mode, unwrapped; inputs are attacked in evaluation mode.
        optimizer: Holds its trainable parameters.
        recipe: `Adversarial`, `Trades`, `EnsembleAdversarial`, `Distillation`.
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
        optimizer: TrainingOptimizer,
        recipe: Recipe,
        *,
        weight_perturbation: float = 0.0,
        bounds: tuple[float, float] = (0.0, 1.0),
        seed: int = 0,
    ) -> None:
        if not 0 <= weight_perturbation < 1:
            raise InvalidInput(f"weight_perturbation expects 0 or more and below 1, got {weight_perturbation}")
        self.model = WrappedModel(network_of(model), bounds, name=type(model).__name__)
        self.steps = 0
        self._trainee = trainee(model, optimizer)
        self._recipe, self._gamma, self._seed = recipe, weight_perturbation, seed

    def step(self, x: Array, y: ArrayLike) -> DefendedStep:
        """Train one step on a batch `(n, ...)` with integer classes `(n,)`."""
        inputs, labels = checked_batch(self.model, x, y)
        lesson = self._recipe.lesson(self.model, inputs, labels, (self._seed, self.steps))
        with worst_weights(self._trainee, lesson, self._gamma):
            loss, logits = self._trainee.learn(lesson.inputs, lesson.loss)
        self._trainee.step()
        self.steps += 1
        return DefendedStep(loss, share_right(logits[lesson.attacked], labels))


def robust_accuracy(model: WrappedModel, attack: Attack, x: Array, y: ArrayLike, epsilon: float) -> float:
    """Return the accuracy that the attack leaves; log it for held-out data as `robust/validation_accuracy`."""
    return float(attack(model, x, y, epsilons=[epsilon]).robust_accuracy[0])


def checked_batch(model: WrappedModel, x: Array, y: ArrayLike) -> tuple[Array, Array]:
    """Return native inputs and native classes of a batch.

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
    """Return the share of `(n, classes)` logits that are largest at the label; NaN where there are none."""
    if not len(logits):
        return float("nan")
    return float(np.mean(to_numpy(namespace(logits).argmax(logits, axis=1) == labels)))


class FreeTraining:
    """Training that replays each batch: every pass moves the weights down the loss and the perturbation up.

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
        optimizer: TrainingOptimizer,
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
        self.model = WrappedModel(network_of(model), bounds, name=type(model).__name__)
        self._trainee = trainee(model, optimizer)
        self._epsilon, self._distance, self._replays = epsilon, distance_named(norm), replays
        self._change: Array | None = None

    def step(self, x: Array, y: ArrayLike) -> DefendedStep:
        """Replay a batch `(n, ...)` with integer classes `(n,)`; return loss and accuracy of the last replay."""
        inputs, labels = checked_batch(self.model, x, y)
        region = self._distance.region(inputs, np.full(len(inputs), self._epsilon), self.model.bounds)
        change = self._carry_over(inputs)
        for _ in range(self._replays):
            moved = region.project(inputs + change)
            loss, logits, gradient = self._trainee.learn_through(moved, lambda z: mean_cross_entropy(z, labels))
            self._trainee.step()
            change = region.project(moved + self._epsilon * self._distance.steepest(gradient)) - inputs
        self._change = change
        return DefendedStep(loss, share_right(logits, labels))

    def _carry_over(self, inputs: Array) -> Array:
        """Return the perturbation that the last batch ended with; zero at first, or where the shape differs."""
        if self._change is None or self._change.shape != inputs.shape:
            return namespace(inputs).zeros_like(inputs)
        return self._change
