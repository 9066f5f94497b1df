"""Randomized smoothing: certified L2 radii for any model, with the confidence of an exact binomial bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...storage import Json, Outcome
from ..array_api import to_numpy
from ..binomial_bounds import lower_confidence
from ..errors import InvalidInput
from ..model import WrappedModel

ABSTAIN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """Predictions of the smoothed classifier for N samples.

    Args:
        classes: `(n,)` its class, -1 where it abstains.
        radii: `(n,)` L2 radii within which the class does not change, each wrong with probability alpha at most; 0
            where it abstains.
    """

    classes: NDArray[np.int64]
    radii: NDArray[np.float64]

    def accuracy(self, y: ArrayLike, radius: float) -> float:
        """Share of samples with their label whose radius is at least `radius`."""
        return float(np.mean((self.classes == np.asarray(y)) & (self.radii >= radius)))


def certified_smoothing_radius(successes: int, trials: int, sigma: float, *, alpha: float = 0.001) -> float:
    """Return the L2 radius for a class that `successes` of `trials` noisy copies got; 0 where no radius is certain.

    Args:
        successes: 0 to `trials`.
        trials: 1 or more.
        sigma: Standard deviation of the noise.
        alpha: Probability that the radius is too large.

    Example:
        >>> round(certified_smoothing_radius(99_000, 100_000, sigma=1.0), 3)
        2.29

    Reference:
        Cohen, Rosenfeld, Kolter 2019, arXiv:1902.02918, theorem 1; the bound is Clopper and Pearson's, one-sided.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise InvalidInput(f"successes expects 0 to trials, trials 1 or more, got {successes} of {trials}")
    if not (np.isfinite(sigma) and sigma > 0 and 0 < alpha < 1):
        raise InvalidInput(f"sigma expects a number above 0 and alpha one between 0 and 1, got {sigma} and {alpha}")
    least = lower_confidence(successes, trials, alpha)
    return sigma * NormalDist().inv_cdf(least) if least > 0.5 else 0.0


def smooth(
    model: WrappedModel,
    x: ArrayLike,
    sigma: float,
    *,
    select: int = 100,
    trials: int = 10_000,
    alpha: float = 0.001,
    batch_size: int = 500,
    seed: int = 0,
) -> Smoothed:
    """Find the class that the model predicts most often under Gaussian noise, and its certified radius.

    Args:
        model: Any wrapped model; noisy inputs may leave its bounds, as the theorem wants.
        x: `(n, ...)` inputs.
        sigma: Standard deviation of the noise.
        select: Noisy copies by which the class is chosen.
        trials: Further copies by which it is certified.
        alpha: Probability for each sample that its radius is too large.
        batch_size: Copies predicted at once.
        seed: Sample k draws from a stream of its own.
    """
    inputs = np.asarray(x)
    if inputs.ndim < 2 or not len(inputs) or select < 1 or batch_size < 1:
        raise InvalidInput(
            f"smooth expects samples (n, ...), select and batch_size of 1 or more, got shape {inputs.shape}, "
            f"select={select}, batch_size={batch_size}"
        )
    certified_smoothing_radius(0, trials, sigma, alpha=alpha)  # checks the arguments
    classes, radii = np.full(len(inputs), ABSTAIN), np.zeros(len(inputs))
    for row, sample in enumerate(inputs):
        generator = np.random.default_rng((seed, row))
        chosen = int(np.argmax(_votes(model, sample, sigma, select, batch_size, generator)))
        votes = _votes(model, sample, sigma, trials, batch_size, generator)
        radii[row] = certified_smoothing_radius(
            int(votes[chosen]) if chosen < len(votes) else 0, trials, sigma, alpha=alpha
        )
        classes[row] = chosen if radii[row] > 0 else ABSTAIN
    return Smoothed(classes, radii)


def _votes(
    model: WrappedModel,
    sample: NDArray[np.floating],
    sigma: float,
    copies: int,
    batch_size: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    found: NDArray[np.int64] = np.zeros(0, np.int64)
    for start in range(0, copies, batch_size):
        count = min(batch_size, copies - start)
        noisy = (sample + generator.normal(0.0, sigma, (count, *sample.shape))).astype(sample.dtype)
        logits = to_numpy(model.logits(model.native(noisy)))
        counted = np.bincount(logits.argmax(axis=1), minlength=logits.shape[1])
        found = counted if not len(found) else found + counted
    return found


def smoothing_outcomes(
    smoothed: Smoothed, y: ArrayLike, epsilons: Sequence[float], *, sigma: float, trials: int, alpha: float
) -> list[Outcome]:
    """Return one outcome for each L2 radius, `certified smoothing`: the accuracy that surely remains."""
    details: dict[str, Json] = {"method": "smoothing", "sigma": sigma, "trials": trials, "alpha": alpha}
    return [
        Outcome(
            "certified smoothing", "l2", float(radius), smoothed.accuracy(y, radius), len(smoothed.classes),
            details={"kind": "certificate", **details},
        )
        for radius in epsilons
    ]  # fmt: skip
