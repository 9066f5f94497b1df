"""Membership inference: was this sample in the training set? By a threshold, by a classifier of shadows, by LiRA."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..array_api import Floats
from ..binomial_bounds import proportion_interval
from ..errors import InvalidInput
from ..model import WrappedModel
from ..model.classifier import cross_entropy, model_logits, true_class_margin
from ..roc_curve import area, area_interval, roc_curve

#: False positive rates at which the field reports membership attacks (Carlini et al. 2022, arXiv:2112.03570).
USUAL_RATES: Final = (0.001, 0.01)


@dataclass(frozen=True, slots=True, eq=False)
class Leakage:
    """The ROC curve of a membership attack, with the uncertainty of its numbers.

    Args:
        false_positive_rates: `(points,)` from 0 to 1, ascending.
        true_positive_rates: `(points,)` at these, ascending; 0 and 1 at the ends.
        members: How many samples of the training set were judged.
        others: How many that the model never saw.
    """

    false_positive_rates: Floats
    true_positive_rates: Floats
    members: int
    others: int

    @property
    def auc(self) -> float:
        """Area under the curve: 0.5 for a guess, 1 for certainty."""
        return area(self.false_positive_rates, self.true_positive_rates)

    def auc_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval of the area, by DeLong."""
        return area_interval(self.false_positive_rates, self.true_positive_rates, self.members, self.others, confidence)

    @property
    def advantage(self) -> float:
        """The largest difference of true and false positive rate."""
        return float(np.max(self.true_positive_rates - self.false_positive_rates))

    def advantage_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return an interval that holds the largest difference with at least that confidence.

        It is wide, as it holds for all thresholds at once: the best one was chosen after the fact.

        Reference:
            Massart 1990, doi:10.1214/aop/1176990746, for each of the two sides with half of the error.
        """
        reach = sum(math.sqrt(math.log(4 / (1 - confidence)) / (2 * count)) for count in (self.members, self.others))
        return max(0.0, self.advantage - reach), min(1.0, self.advantage + reach)

    @property
    def smallest_rate(self) -> float:
        """The smallest false positive rate that so many others can resolve: one of them."""
        return 1 / self.others

    def reported_rates(self) -> tuple[float, ...]:
        """Return the usual false positive rates that the others can resolve, else the smallest one that they can."""
        usual = tuple(rate for rate in USUAL_RATES if rate >= self.smallest_rate * (1 - _ROUNDING))
        return usual or (self.smallest_rate,)

    def tpr_at(self, false_positive_rate: float) -> float:
        """Share of members recognised when at most that share of others is accused; 0.001 and 0.01 are usual.

        Raises:
            InvalidInput: The rate is not between 0 and 1, or so small that it is less than one of the others.
        """
        if not 0 <= false_positive_rate <= 1:
            raise InvalidInput(f"false_positive_rate expects a share from 0 to 1, got {false_positive_rate}")
        if false_positive_rate < self.smallest_rate * (1 - _ROUNDING):
            raise InvalidInput(
                f"a false positive rate of {false_positive_rate:g} is less than one of {self.others} others; the "
                f"smallest that they resolve is {self.smallest_rate:.3g}, take that or more samples"
            )
        allowed = self.false_positive_rates <= false_positive_rate * (1 + _ROUNDING)
        return float(self.true_positive_rates[allowed][-1])

    def tpr_interval(self, false_positive_rate: float, confidence: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval of `tpr_at`, at the threshold that the others set.

        Reference:
            Clopper and Pearson 1934, doi:10.1093/biomet/26.4.404.
        """
        found = round(self.tpr_at(false_positive_rate) * self.members)
        return proportion_interval(found, self.members, confidence)

    def __str__(self) -> str:
        """Return the numbers with their 95 % intervals."""
        parts = [f"AUC {self.auc:.3f}{_between(self.auc_interval())}"]
        parts += [
            f"TPR {self.tpr_at(rate):.2%}{_between(self.tpr_interval(rate), '.2%')} at {100 * rate:.3g} % FPR"
            for rate in self.reported_rates()
        ]
        return ", ".join([*parts, f"advantage {self.advantage:.3f}{_between(self.advantage_interval())}"])


_ROUNDING: Final = 1e-12


def _between(ends: tuple[float, float], form: str = ".3f") -> str:
    return f" [{ends[0]:{form}}, {ends[1]:{form}}]"


def measure_leakage(members: ArrayLike, others: ArrayLike) -> Leakage:
    """Return the ROC curve of scores that are meant to be larger for members.

    Args:
        members: `(m,)` scores of samples that the model was trained on.
        others: `(n,)` scores of samples that it never saw. Equal scores are decided together.

    Raises:
        InvalidInput: One of them is empty or has NaN.
    """
    inside, outside = (np.asarray(values, np.float64).reshape(-1) for values in (members, others))
    for name, scores in (("members", inside), ("others", outside)):
        if not len(scores) or np.isnan(scores).any():
            raise InvalidInput(f"{name} expects one score or more and no NaN, got {len(scores)} scores")
    return Leakage(*roc_curve(inside, outside), len(inside), len(outside))


_RIDGE = 1e-3  # by the number of samples: keeps separable data finite; our choice


def fit_logistic(x: Floats, is_positive: NDArray[np.bool_], *, steps: int = 50) -> Callable[[Floats], Floats]:
    """Fit a function of features `(n, d)` to log-odds `(n,)` by maximum likelihood with a small ridge.

    Args:
        x: `(samples, d)` finite features.
        is_positive: `(samples,)`, both classes present.
        steps: Newton steps at most; it stops when a step no longer moves the weights.

    Raises:
        InvalidInput: Only one class is present.
    """
    if is_positive.all() or not is_positive.any():
        raise InvalidInput("is_positive expects both classes, got one; train shadows on halves of the population")
    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)

    def standardise(values: Floats) -> Floats:
        return np.concatenate([(values - mean) / scale, np.ones((len(values), 1))], axis=1)

    design = standardise(x)
    ridge = _RIDGE * np.eye(design.shape[1])
    weights = np.zeros(design.shape[1])
    for _ in range(steps):
        probabilities = 1 / (1 + np.exp(-np.clip(design @ weights, -500, 500)))
        slope = design.T @ (is_positive - probabilities) / len(x) - ridge @ weights
        curvature = (design * (probabilities * (1 - probabilities))[:, None]).T @ design / len(x) + ridge
        move = np.linalg.solve(curvature, slope)
        weights = weights + move * min(1.0, 5.0 / max(float(np.abs(move).max()), 1e-12))
        if np.abs(move).max() < 1e-9:
            break
    return lambda values: standardise(values) @ weights


class Trainer(Protocol):
    """A function that trains a model like the attacked one on other data."""

    def __call__(self, x: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> WrappedModel:
        """Train a model and return it, wrapped."""


@dataclass(frozen=True, slots=True, eq=False)
class Shadows:
    """Models like the attacked one, each trained on a random half of a population.

    Args:
        logits: `(models, n, classes)` of every sample of the population.
        is_member: `(models, n)` whether the model was trained on the sample.
    """

    logits: Floats
    is_member: NDArray[np.bool_]


def threshold_attack(
    model: WrappedModel, members: tuple[ArrayLike, ArrayLike], others: tuple[ArrayLike, ArrayLike]
) -> Leakage:
    """Measure the leakage when a sample counts as a member if its cross-entropy is low.

    Args:
        model: The attacked one, wrapped.
        members: Inputs `(m, ...)` and classes `(m,)` that it was trained on.
        others: Inputs and classes that it never saw.

    Reference:
        Yeom et al. 2018, arXiv:1709.01604, section 3.
    """
    scores = [-cross_entropy(model_logits(model, np.asarray(x)), y) for x, y in (members, others)]
    return measure_leakage(*scores)


def train_shadows(train: Trainer, x: ArrayLike, y: ArrayLike, *, models: int = 16, seed: int = 0) -> Shadows:
    """Shadow models, balanced: every sample is in the training set of half of them.

    Args:
        train: How the attacked model was trained.
        x: `(n, ...)` population, two samples or more; the attacked samples among them.
        y: `(n,)` classes.
        models: An even number.
        seed: Of the halves; model k is trained with seed + k.
    """
    inputs, labels = np.asarray(x), np.asarray(y)
    if models < 2 or models % 2:
        raise InvalidInput(f"models expects an even number of 2 or more, got {models}")
    if len(inputs) < 2 or len(inputs) != len(labels):
        raise InvalidInput(f"x and y expect 2 samples or more and as many classes, got {len(inputs)} and {len(labels)}")
    # Each column is a random order of the models; the first half of it trains on the sample.
    orders = np.random.default_rng(seed).random((models, len(inputs))).argsort(axis=0)
    is_member = orders < models // 2
    logits = [
        model_logits(train(inputs[rows], labels[rows], seed + number), inputs) for number, rows in enumerate(is_member)
    ]
    return Shadows(np.stack(logits), is_member)


def shadow_attack(model: WrappedModel, x: ArrayLike, y: ArrayLike, is_member: ArrayLike, shadows: Shadows) -> Leakage:
    """Measure the leakage to a classifier that learned from shadow models what a member's outputs look like.

    Args:
        model: The attacked one, wrapped.
        x: The population that the shadows were trained on, `(n, ...)`.
        y: `(n,)` classes.
        is_member: `(n,)` whether the attacked model was trained on the sample: the truth that is judged by.
        shadows: From `train_shadows`.

    Reference:
        Shokri et al. 2017, arXiv:1610.05820; one logistic classifier over the sorted log-probabilities, the loss and
        the margin takes the place of the paper's classifiers for each class.
    """
    labels = np.asarray(y)
    features = np.concatenate([_features(logits, labels) for logits in shadows.logits])
    classifier = fit_logistic(features, shadows.is_member.reshape(-1))
    scores = classifier(_features(model_logits(model, np.asarray(x)), labels))
    return _leakage_of(scores, is_member)


def lira_attack(
    model: WrappedModel,
    x: ArrayLike,
    y: ArrayLike,
    is_member: ArrayLike,
    shadows: Shadows,
    *,
    mode: Literal["online", "offline"] = "online",
) -> Leakage:
    """Measure the leakage to the likelihood ratio attack; arguments as `shadow_attack`, `mode` as `lira_scores`."""
    labels = np.asarray(y)
    observed = true_class_margin(model_logits(model, np.asarray(x)), labels)
    margins = np.stack([true_class_margin(logits, labels) for logits in shadows.logits])
    return _leakage_of(lira_scores(observed, margins, shadows.is_member, mode=mode), is_member)


def lira_scores(
    observed: Floats,
    shadow_margins: Floats,
    is_member: NDArray[np.bool_],
    *,
    mode: Literal["online", "offline"] = "online",
) -> Floats:
    """Return `(n,)` log-likelihood ratios of membership, from normal fits for each sample.

    Args:
        observed: `(n,)` margins that the attacked model gives the samples.
        shadow_margins: `(models, n)` those that shadow models give them.
        is_member: `(models, n)` whether the shadow model was trained on the sample.
        mode: `online` compares both normals; `offline` uses the models that never saw the sample alone and scores how
            improbably large the margin is under them. Below 64 models on a side all samples share one variance.

    Raises:
        InvalidInput: Shapes differ, or a sample lacks models on a side that the mode needs (2 when variances are its
            own, 1 otherwise).

    Reference:
        Carlini et al. 2022, arXiv:2112.03570, algorithm 1 and section V.
    """
    if mode not in ("online", "offline"):
        raise InvalidInput(f"mode expects 'online' or 'offline', got {mode!r}")
    if shadow_margins.shape != is_member.shape or shadow_margins.shape[1:] != observed.shape:
        raise InvalidInput(
            f"shadow_margins and is_member expect (models, {len(observed)}), got {shadow_margins.shape} and "
            f"{is_member.shape}"
        )
    mean_out, std_out = _normals(shadow_margins, ~is_member)
    z_out: Floats = (observed - mean_out) / std_out
    if mode == "offline":
        return z_out
    mean_in, std_in = _normals(shadow_margins, is_member)
    z_in = (observed - mean_in) / std_in
    ratios: Floats = 0.5 * (z_out**2 - z_in**2) + np.log(std_out) - np.log(std_in)
    return ratios


_OWN_VARIANCE = 64  # models on a side from which a sample's own variance is used, as in section VI-D of the paper


def _normals(margins: Floats, chosen: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    counts = chosen.sum(axis=0)
    if counts.min() < 1:
        raise InvalidInput("every sample expects one shadow model or more on each side; train more shadows")
    finite = np.clip(margins, -1e6, 1e6)  # a model that is certain has no margin to fit a normal to
    means = np.where(chosen, finite, 0.0).sum(axis=0) / counts
    squares = np.where(chosen, (finite - means) ** 2, 0.0).sum(axis=0)
    if counts.min() >= _OWN_VARIANCE:
        deviations = np.sqrt(squares / (counts - 1))
    else:
        freedom = int(np.sum(counts - 1))
        deviations = np.full(len(means), math.sqrt(squares.sum() / freedom) if freedom else 1.0)
    return means, np.maximum(deviations, 1e-12)


def _features(logits: Floats, labels: NDArray[np.int64]) -> Floats:
    log_probabilities = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    top = -np.sort(-log_probabilities, axis=1)[:, :3]
    own = np.stack([cross_entropy(logits, labels), true_class_margin(logits, labels)], axis=1)
    features: Floats = np.clip(np.concatenate([top, own], axis=1), -50, 50)
    return features


def _leakage_of(scores: Floats, is_member: ArrayLike) -> Leakage:
    truth = np.asarray(is_member)
    if truth.dtype != np.bool_ or truth.shape != scores.shape:
        raise InvalidInput(f"is_member expects {len(scores)} booleans, got {truth.dtype} of shape {truth.shape}")
    return measure_leakage(scores[truth], scores[~truth])
