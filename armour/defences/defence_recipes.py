"""Recipes of robust training: what a model learns at one step, and the worst inputs that a few steps find."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ..array_api import Array, cast, concatenate, is_class, namespace
from ..distances import Norm, distance_named
from ..errors import InvalidInput
from ..model import WrappedModel
from ..problem import Problem
from ..problem.criterion import Criterion, Misclassification
from ..problem.objective import Objective
from ..problem.objective import cross_entropy as odds_against_label
from .trainee import Loss


class Lesson(NamedTuple):
    """One step's inputs and loss.

    Args:
        inputs: Native, one batch; a recipe may concatenate clean and attacked inputs.
        loss: Of the logits of all of them.
        attacked: Which of the inputs are attacked, in the order of the batch; empty where none is.
    """

    inputs: Array
    loss: Loss
    attacked: slice


class Recipe(Protocol):
    """A defence by the choice of inputs and loss."""

    def lesson(self, model: WrappedModel, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """Return the inputs and the loss to learn from, for native inputs `(n, ...)` with native classes `(n,)`.

        Args:
            model: In training; inputs are attacked in evaluation mode.
            key: Random numbers of different keys differ.
        """


def mean_cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """Return the mean over samples of minus the log-probability of the label, and its gradient to the logits.

    Args:
        logits: `(n, classes)`.
        labels: `(n,)` native classes.
    """
    return soft_cross_entropy(logits, cast(is_class(logits, labels), logits), 1.0)


def soft_cross_entropy(logits: Array, targets: Array, temperature: float) -> tuple[float, Array]:
    """Return the mean cross-entropy with `(n, classes)` probabilities of the logits divided by the temperature.

    Reference:
        Hinton, Vinyals and Dean 2015, arXiv:1503.02531, section 2.
    """
    xp = namespace(logits)
    logs = log_softmax(logits / temperature)
    slope = (xp.exp(logs) - targets) / (len(logits) * temperature)
    return float(-xp.sum(targets * logs)) / len(logits), slope


def divergence(clean: Array, moved: Array) -> tuple[float, Array, Array]:
    """Return the mean Kullback-Leibler divergence of the probabilities of `moved` from those of `clean`.

    Returns:
        The value, and its gradients to both `(n, classes)` logits.
    """
    xp = namespace(clean)
    logs, other = log_softmax(clean), log_softmax(moved)
    p, gap = xp.exp(logs), logs - other
    each = xp.sum(p * gap, axis=1, keepdims=True)
    return float(xp.sum(each)) / len(clean), p * (gap - each) / len(clean), (xp.exp(other) - p) / len(clean)


def log_softmax(logits: Array) -> Array:
    """Return `(n, classes)` log-probabilities, safe from overflow."""
    xp = namespace(logits)
    shifted = logits - xp.max(logits, axis=1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Inner:
    """Steps along the gradient within the budget; unlike an attack it continues where the model is already wrong.

    Args:
        epsilon: The budget, above 0.
        norm: Of the budget.
        steps: Gradient steps.
        step_size: Length of a step as a share of epsilon.
        random_start: Whether the steps begin at a random point of the budget, else at the input.

    Reference:
        Madry et al. 2018, arXiv:1706.06083, section 2.
    """

    epsilon: float
    norm: Norm = "linf"
    steps: int = 10
    step_size: float = 0.25
    random_start: bool = True

    def __post_init__(self) -> None:
        distance_named(self.norm)
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and self.step_size > 0 and self.steps >= 1):
            raise InvalidInput(
                "a defence expects epsilon and step_size above 0 and 1 step or more, got "
                f"epsilon={self.epsilon}, step_size={self.step_size}, steps={self.steps}"
            )

    def worst(
        self,
        model: WrappedModel,
        x: Array,
        labels: Array,
        key: tuple[int, ...],
        objective: Objective = odds_against_label,
    ) -> Array:
        """Return native inputs `(n, ...)` near `x` where the objective is large.

        Args:
            labels: `(n,)` native classes.
            key: Random starts of different keys differ.
            objective: What is raised; by default the loss of the label.
        """
        rows = np.arange(len(x))
        budget, distance = np.full(len(x), self.epsilon), distance_named(self.norm)
        with model.evaluating():
            problem = Problem(model, x, Misclassification(labels), distance, epsilon=budget, samples=rows, key=key)
            worst = problem.random_start(0, rows) if self.random_start else x
            for _ in range(self.steps):
                gradient = problem.ascend(worst, rows, objective).gradient
                ahead = worst + self.step_size * self.epsilon * distance.steepest(gradient)
                worst = problem.project(ahead, rows)
        return worst


def fast(epsilon: float, norm: Norm = "linf") -> Inner:
    """Return an inner search of one step from a random point: nearly as good as ten, at a tenth of the price.

    Reference:
        Wong, Rice and Kolter 2020, arXiv:2001.03994, section 4.
    """
    return Inner(epsilon, norm, steps=1, step_size=1.25)


def single_step(epsilon: float, norm: Norm = "linf") -> Inner:
    """Return the fast gradient sign from the input itself; models trained so may learn to bend the gradient instead.

    Reference:
        Goodfellow, Shlens and Szegedy 2015, arXiv:1412.6572, section 6.
    """
    return Inner(epsilon, norm, steps=1, step_size=1.0, random_start=False)


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

    def lesson(self, model: WrappedModel, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """Return the worst inputs, followed by the clean ones where these have a share."""
        worst = self.inner.worst(model, x, labels, key)
        if not self.clean_share:
            return Lesson(worst, lambda logits: mean_cross_entropy(logits, labels), slice(None))
        return Lesson(concatenate([worst, x]), mixed(labels, self.clean_share), slice(0, len(x)))


def mixed(labels: Array, clean_share: float) -> Loss:
    """Return the loss of attacked inputs followed by the clean ones that they were made of."""

    def loss(logits: Array) -> tuple[float, Array]:
        count = len(labels)
        attacked, slope = mean_cross_entropy(logits[:count], labels)
        clean, other = mean_cross_entropy(logits[count:], labels)
        value = (1 - clean_share) * attacked + clean_share * clean
        return value, concatenate([(1 - clean_share) * slope, clean_share * other])

    return loss


@dataclass(frozen=True, slots=True)
class EnsembleAdversarial:
    """Half clean inputs, half inputs attacked through a model drawn for each step.

    Args:
        inner: How inputs are attacked.
        sources: Trained models, wrapped, of either framework, that stay as they are; the one in training is drawn as
            often as each of them.

    Reference:
        Tramèr et al. 2018, arXiv:1705.07204, section 3.3.
    """

    inner: Inner
    sources: tuple[WrappedModel, ...]

    def __post_init__(self) -> None:
        if not self.sources:
            raise InvalidInput("sources expects one wrapped model or more, got none; without them it is Adversarial")

    def lesson(self, model: WrappedModel, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """Return inputs attacked through one of the models, followed by the clean ones."""
        drawn = int(np.random.default_rng(key).integers(1 + len(self.sources)))
        source = (model, *self.sources)[drawn]
        worst = model.native(self.inner.worst(source, source.native(x), source.native(labels), key))
        return Lesson(concatenate([worst, x]), mixed(labels, 0.5), slice(0, len(x)))


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

    def lesson(self, model: WrappedModel, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """Return the inputs whose predictions have changed most, followed by the clean ones."""
        clean = model.logits(x)

        def apart(logits: Array, _: Criterion) -> tuple[Array, Array]:
            value, _, slope = divergence(clean, logits)
            return logits[:, 0] * 0.0 + value, slope

        worst = self.inner.worst(model, x, labels, key, apart)
        return Lesson(concatenate([worst, x]), self._loss(labels), slice(0, len(x)))

    def _loss(self, labels: Array) -> Loss:
        def loss(logits: Array) -> tuple[float, Array]:
            count = len(labels)
            natural, slope = mean_cross_entropy(logits[count:], labels)
            apart, to_clean, to_worst = divergence(logits[count:], logits[:count])
            return natural + self.beta * apart, concatenate([self.beta * to_worst, slope + self.beta * to_clean])

        return loss


@dataclass(frozen=True, slots=True)
class Distillation:
    """Cross-entropy with the teacher's probabilities, the logits of both divided by the temperature.

    It makes gradients vanish rather than the model robust (Carlini and Wagner 2017, arXiv:1608.04644): check the
    masking verdict of `evaluate`.

    Args:
        teacher: Wrapped, of either framework; trained at the same temperature in the paper.
        temperature: By which logits are divided in training; the model is used without.

    Reference:
        Papernot et al. 2016, arXiv:1511.04508, section IV.
    """

    teacher: WrappedModel
    temperature: float = 20.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise InvalidInput(f"distillation expects a temperature above 0, got {self.temperature}")

    def lesson(self, model: WrappedModel, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """Return the inputs as they are, with the teacher's probabilities for labels."""
        logits = model.native(self.teacher.logits(self.teacher.native(x)))
        softened = namespace(x).exp(log_softmax(logits / self.temperature))
        return Lesson(x, lambda logits: soft_cross_entropy(logits, softened, self.temperature), slice(0, 0))
