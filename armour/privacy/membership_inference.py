"""Membership inference: was this sample in the training set? By a threshold, by a classifier of shadows, by LiRA."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Floats
from ..errors import InvalidInput
from ..model import Model
from ..model.confidence import cross_entropy, model_logits, true_class_margin
from .leakage import Leakage, measure_leakage
from .logistic import fit_logistic


class Trainer(Protocol):
    """Trains a model as the attacked one was trained, on other data."""

    def __call__(self, x: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> Model:
        """The trained model, wrapped."""


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
    model: Model, members: tuple[ArrayLike, ArrayLike], others: tuple[ArrayLike, ArrayLike]
) -> Leakage:
    """Leakage when a sample counts as a member if its cross entropy is low.

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


def shadow_attack(model: Model, x: ArrayLike, y: ArrayLike, is_member: ArrayLike, shadows: Shadows) -> Leakage:
    """Leakage to a classifier that learned from shadow models how a member's outputs look.

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
    return _judged(scores, is_member)


def lira_attack(
    model: Model,
    x: ArrayLike,
    y: ArrayLike,
    is_member: ArrayLike,
    shadows: Shadows,
    *,
    mode: Literal["online", "offline"] = "online",
) -> Leakage:
    """Leakage to the likelihood ratio attack; arguments as of `shadow_attack`, `mode` as of `lira_scores`."""
    labels = np.asarray(y)
    observed = true_class_margin(model_logits(model, np.asarray(x)), labels)
    margins = np.stack([true_class_margin(logits, labels) for logits in shadows.logits])
    return _judged(lira_scores(observed, margins, shadows.is_member, mode=mode), is_member)


def lira_scores(
    observed: Floats,
    shadow_margins: Floats,
    is_member: NDArray[np.bool_],
    *,
    mode: Literal["online", "offline"] = "online",
) -> Floats:
    """`(n,)` log-likelihood ratios of being a member against not, from normal fits for each sample.

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


def _judged(scores: Floats, is_member: ArrayLike) -> Leakage:
    truth = np.asarray(is_member)
    if truth.dtype != np.bool_ or truth.shape != scores.shape:
        raise InvalidInput(f"is_member expects {len(scores)} booleans, got {truth.dtype} of shape {truth.shape}")
    return measure_leakage(scores[truth], scores[~truth])
