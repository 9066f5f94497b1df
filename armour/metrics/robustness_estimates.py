"""Estimates of the distance to the nearest adversarial example: CLEVER, and the smallest change found."""

import math
import warnings
from importlib import import_module
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..array_api import Array, is_class, like_array, namespace, to_numpy
from ..attacks import DeepFool
from ..contract.attack import Attack
from ..distances import Norm, distance_named
from ..distances.boundary_steps import dual_length
from ..errors import InvalidInput
from ..model import WrappedModel

_EQUAL: Final = 1e-6  # relative spread of maxima below which they are one number: our choice, float32's rounding


def clever(
    model: WrappedModel,
    x: Array,
    *,
    radius: float,
    norm: Norm = "l2",
    batches: int = 50,
    points: int = 100,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Estimate `(n,)` distances to the nearest input of another class, at most `radius`.

    Around each input gradients of its class's lead over every other are taken at random points of the ball; the largest
    length of each batch follows a reverse Weibull distribution, whose end is the local Lipschitz constant. An estimate,
    not a certificate: gradients that are hidden are hidden from it, too.

    Args:
        x: `(n, ...)` inputs within the model's bounds.
        radius: Of the ball; the paper takes 5 in L2 for inputs of 0 to 1.
        batches: Maxima that the distribution is fitted to; the paper takes 500.
        points: Of each batch; the paper takes 1024.
        seed: Of the points.

    Raises:
        InvalidInput: An argument is not valid.

    Reference:
        Weng et al. 2018, arXiv:1801.10578, algorithms 1 and 2.
    """
    inputs = model.native(x)
    if not (math.isfinite(radius) and radius > 0) or batches < 2 or points < 1 or not len(inputs) or norm == "l0":
        raise InvalidInput(
            "clever expects one input or more, radius above 0, 2 batches and 1 point or more in l1, l2 or linf, got "
            f"{len(inputs)} inputs, radius={radius}, batches={batches}, points={points}, norm={norm!r}"
        )
    with model.evaluating():
        logits = to_numpy(model.logits(inputs)).astype(np.float64)
        scores = []
        for number, own in enumerate(logits.argmax(axis=1)):
            generator = np.random.default_rng((seed, number))
            maxima = np.stack(
                [
                    _largest(model, inputs[number], int(own), generator, radius=radius, norm=norm, points=points)
                    for _ in range(batches)
                ]
            )
            leads = np.delete(logits[number, own] - logits[number], own)
            scores.append(min(_distance(lead, ends) for lead, ends in zip(leads, maxima.T, strict=True)))
    return np.minimum(scores, radius)


def _largest(
    model: WrappedModel,
    x: Array,
    own: int,
    generator: np.random.Generator,
    *,
    radius: float,
    norm: Norm,
    points: int,
) -> NDArray[np.float64]:
    """Return `(classes - 1,)` largest dual lengths, at random points, of the gradient of the lead over each class."""
    around = x + like_array(radius * distance_named(norm).sample(generator, (points, *x.shape)), x)
    around = namespace(x).clip(around, *model.bounds)

    def leads(logits: Array) -> list[Array]:
        xp = namespace(logits)
        classes = [xp.astype(is_class(logits, _same(c, logits)), logits.dtype) for c in range(logits.shape[1])]
        return [classes[own] - other for c, other in enumerate(classes) if c != own]

    _, gradients = model.pullbacks(around, leads)
    return np.array([to_numpy(dual_length(norm, gradient)).max() for gradient in gradients], np.float64)


def _same(number: int, logits: Array) -> Array:
    xp = namespace(logits)
    return xp.astype(xp.zeros_like(logits[:, 0]), xp.int64) + number


def _distance(lead: float, maxima: NDArray[np.float64]) -> float:
    """Return the lead over the end of the reverse Weibull distribution of the maxima; infinite where all are 0."""
    largest = float(maxima.max())
    if largest == 0:
        return math.inf
    scaled = maxima / largest
    end = 1.0
    if np.ptp(scaled) > _EQUAL:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # of the likelihood at the edge of its domain
            _, fitted, _ = _statistics().weibull_max.fit(scaled, 1.0, loc=1.0, scale=np.ptp(scaled))
        # A likelihood without a maximum fits an end far away: our choice is to accept up to twice the largest value.
        end = fitted if 1.0 <= fitted <= 2.0 else 1.0
    return lead / (end * largest)


def _statistics() -> ModuleType:
    """Import scipy.stats, which only the extras install."""
    try:
        return import_module("scipy.stats")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "CLEVER expects SciPy, which is not installed; pip install mindscope[privacy]"
        ) from error


def smallest_changes(
    model: WrappedModel, x: Array, y: ArrayLike, *, attack: Attack | None = None, seed: int = 0
) -> NDArray[np.float64]:
    """Return `(n,)` smallest changes found, as shares of each input's own length.

    A sample that is wrong from the start has 0, one without an example infinity, and one whose input is zero everywhere
    NaN. Changes that are hidden from the search are hidden here, too: `model_signs` looks for that.

    Args:
        x: `(n, ...)` inputs.
        y: `(n,)` their classes.
        attack: The search, which also sets the norm; DeepFool in L2, as in the paper, by default.

    Reference:
        Moosavi-Dezfooli, Fawzi and Frossard 2016, arXiv:1511.04599, equation 15.
    """
    search = attack or DeepFool(norm="l2")
    found = search(model, x, y, epsilons=None, seed=seed).minimum_norms
    inputs = model.native(x)
    lengths = distance_named(search.norm).measure(0.0 * inputs, inputs)
    shares = np.divide(found, lengths, out=np.full(len(found), np.nan), where=lengths > 0)
    return np.asarray(shares, np.float64)


def empirical_robustness(
    model: WrappedModel, x: Array, y: ArrayLike, *, attack: Attack | None = None, seed: int = 0
) -> float:
    """Return the mean over samples of the smallest change found, as a share of the input's own length.

    Samples that are wrong from the start count as 0; samples without an example, or whose input is zero
    everywhere, are left out. NaN where none is left. Arguments and reference are those of `smallest_changes`.
    """
    return mean_change(smallest_changes(model, x, y, attack=attack, seed=seed))


def mean_change(changes: NDArray[np.float64]) -> float:
    """Return the mean of the finite `(n,)` changes, NaN where none is."""
    counts = np.isfinite(changes)
    return float(np.mean(changes[counts])) if counts.any() else float("nan")
