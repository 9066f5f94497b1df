"""CLEVER: how far the nearest adversarial example is at least, guessed from the largest gradients around an input."""

import math
import warnings
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, drawn, namespace, to_numpy
from ..arrays.rows import is_class
from ..distances import Norm, distance_named
from ..distances.hyperplane import dual_length
from ..errors import InvalidInput
from ..model import Model

_EQUAL: Final = 1e-6  # relative spread of maxima below which they are one number: our choice, float32's rounding


def clever(
    model: Model,
    x: Array,
    *,
    radius: float,
    norm: Norm = "l2",
    batches: int = 50,
    points: int = 100,
    seed: int = 0,
) -> NDArray[np.float64]:
    """`(n,)` estimated distances to the nearest input of another class, at most `radius`.

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
        InvalidInput: An argument cannot be what was meant.

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
                [_largest(model, inputs[number], int(own), radius, norm, points, generator) for _ in range(batches)]
            )
            leads = np.delete(logits[number, own] - logits[number], own)
            scores.append(min(_distance(lead, ends) for lead, ends in zip(leads, maxima.T, strict=True)))
    return np.minimum(scores, radius)


def _largest(
    model: Model, x: Array, own: int, radius: float, norm: Norm, points: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """`(classes - 1,)` the largest dual length of the gradient of the lead over each other class at random points."""
    around = x + drawn(radius * distance_named(norm).sample(generator, (points, *x.shape)), x)
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
    """The lead over the end of the reverse Weibull distribution of the maxima; infinite where all are 0."""
    largest = float(maxima.max())
    if largest == 0:
        return math.inf
    scaled = maxima / largest
    end = 1.0
    if np.ptp(scaled) > _EQUAL:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # of the likelihood at the edge of its domain
            _, fitted, _ = _statistics().weibull_max.fit(scaled, 1.0, loc=1.0, scale=np.ptp(scaled))
        # A likelihood without a maximum sends the end away: our choice is to believe up to twice what was seen.
        end = fitted if 1.0 <= fitted <= 2.0 else 1.0
    return lead / (end * largest)


def _statistics() -> Any:
    """scipy.stats, a dependency of the extras alone."""
    try:
        return import_module("scipy.stats")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "CLEVER expects SciPy, which is not installed; pip install mindscope[privacy]"
        ) from error
