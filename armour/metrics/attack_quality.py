"""The quality of an attack's examples: how often and how surely they fool, how little they differ from the input."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from ..array_api import Array, Images, as_images, to_numpy
from ..contract.attack_result import AttackResult
from ..distances import DISTANCES, Norm
from ..errors import InvalidInput
from ..model import WrappedModel
from ..model.classifier import probabilities

_DEVIATION: Final = 1.5  # of the window's weights in pixels, and its reach: the paper's section III-C
_REACH: Final = 5
_K1: Final = 0.01
_K2: Final = 0.03
_BELL: Final = np.exp(-(np.arange(-_REACH, _REACH + 1) ** 2) / (2 * _DEVIATION**2))
_WEIGHTS: Final = _BELL / _BELL.sum()
_BATCH: Final = 64  # images whose windows are in memory at once: our choice


def structural_similarity(x: Images, other: Images, bounds: tuple[float, float] = (0.0, 1.0)) -> NDArray[np.float64]:
    """Return `(n,)` mean structural similarities, 1 where images are equal and down to -1.

    Means, variances and covariances are weighed by a Gaussian window of 11 x 11 pixels. Windows that would leave the
    image are left out; in images smaller than the window, pixels are mirrored at the edge.

    Args:
        x: `(n, ...)`; the last two axes are the image; a flat input is one row of pixels.
        other: The same shape.
        bounds: Smallest and largest value of a pixel.

    Raises:
        InvalidInput: The shapes differ.

    Reference:
        Wang et al. 2004, "Image quality assessment: from error visibility to structural similarity", equation 13.
    """
    if x.shape != other.shape:
        raise InvalidInput(f"images expect one shape, got {x.shape} and {other.shape}")
    parts = [slice(start, start + _BATCH) for start in range(0, len(x), _BATCH)]
    means = [_similarity(x[part], other[part], bounds[1] - bounds[0]) for part in parts]
    return np.concatenate(means) if means else np.zeros(0)


def _similarity(x: Images, other: Images, width: float) -> NDArray[np.float64]:
    a, b = (as_images(values.astype(np.float64)) for values in (x, other))
    mean_a, mean_b = _weighted_mean(a), _weighted_mean(b)
    variance_a, variance_b = _weighted_mean(a * a) - mean_a**2, _weighted_mean(b * b) - mean_b**2
    covariance = _weighted_mean(a * b) - mean_a * mean_b
    c1, c2 = ((k * width) ** 2 for k in (_K1, _K2))
    luminance = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    structure = (2 * covariance + c2) / (variance_a + variance_b + c2)
    inner = _inner(luminance * structure)
    return np.asarray(inner.reshape(len(x), -1).mean(axis=1), np.float64)


def _weighted_mean(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average pixels by the window, one axis after the other; without SciPy, an extra that evaluations do not need."""
    for axis in (2, 3):
        margin = [(_REACH, _REACH) if at == axis else (0, 0) for at in range(4)]
        windows = sliding_window_view(np.pad(images, margin, mode="symmetric"), len(_WEIGHTS), axis=axis)
        images = np.asarray(windows @ _WEIGHTS, np.float64)
    return images


def _inner(images: NDArray[np.float64]) -> NDArray[np.float64]:
    if min(images.shape[-2:]) <= 2 * _REACH:
        return images
    return images[..., _REACH:-_REACH, _REACH:-_REACH]


@dataclass(frozen=True, slots=True)
class AttackQuality:
    """Means over the examples that succeed; NaN where none does.

    Args:
        misclassification_rate: MR: share of the samples that were right from the start for which the attack succeeds.
        adversarial_confidence: ACAC: probability of the class that an example is taken for, 0 to 1.
        true_confidence: ACTC: probability of its true class.
        distortion: ALDp by norm: length of the change over the length of the input.
        structural_similarity: ASS, up to 1.
        noise_tolerance: NTE: by how much the example's class leads the next one, 0 to 1.

    Reference:
        Ling et al. 2019, "DEEPSEC: a uniform platform for security analysis of deep learning model", section III-A.
    """

    misclassification_rate: float
    adversarial_confidence: float
    true_confidence: float
    distortion: dict[str, float]
    structural_similarity: float
    noise_tolerance: float

    def abbreviated(self, norm: Norm) -> dict[str, float]:
        """Return the numbers by the paper's names, for an outcome's details; NaN is left out."""
        every = {
            "MR": self.misclassification_rate,
            "ACAC": self.adversarial_confidence,
            "ACTC": self.true_confidence,
            "ALDp": self.distortion[norm],
            "ASS": self.structural_similarity,
            "NTE": self.noise_tolerance,
        }
        return {name: value for name, value in every.items() if not math.isnan(value)}


def attack_quality(model: WrappedModel, x: Array, y: ArrayLike, result: AttackResult) -> tuple[AttackQuality, ...]:
    """Measure the quality of an attack's examples at each of its budgets.

    Args:
        model: That was attacked.
        x: `(n, ...)` inputs that were attacked.
        y: `(n,)` their true classes.
        result: What the attack made of them.
    """
    clean, labels = to_numpy(x), np.asarray(to_numpy(y) if hasattr(y, "cpu") else y)
    return tuple(
        examples_quality(model, clean, labels, to_numpy(examples), success, result.already)
        for examples, success in zip(result.adversarials, result.success, strict=True)
    )


def examples_quality(
    model: WrappedModel,
    x: Images,
    y: NDArray[np.int64],
    examples: Images,
    success: NDArray[np.bool_],
    already: NDArray[np.bool_],
) -> AttackQuality:
    """Measure the quality of one budget's examples.

    Args:
        model: That was attacked.
        x: `(n, ...)` inputs with true classes `y` `(n,)`.
        examples: `(n, ...)` what the attack made of them.
        success: `(n,)` where it succeeded.
        already: `(n,)` inputs that were wrong from the start and not attacked.
    """
    rate = float(success.sum() / (~already).sum()) if not already.all() else float("nan")
    if not success.any():
        return AttackQuality(rate, math.nan, math.nan, dict.fromkeys(DISTANCES, math.nan), math.nan, math.nan)
    x, y, examples = x[success], y[success], examples[success]
    shares = probabilities(model, examples)
    ordered = np.sort(shares, axis=1)
    return AttackQuality(
        misclassification_rate=rate,
        adversarial_confidence=float(ordered[:, -1].mean()),
        true_confidence=float(shares[np.arange(len(y)), y].mean()),
        distortion={norm: _distortion(norm, x, examples) for norm in DISTANCES},
        structural_similarity=float(structural_similarity(x, examples, model.bounds).mean()),
        noise_tolerance=float((ordered[:, -1] - ordered[:, -2]).mean()),
    )


def _distortion(norm: str, x: Images, examples: Images) -> float:
    """Average the relative distance over inputs that are not zero everywhere."""
    distance = DISTANCES[norm]
    lengths = distance.measure(np.zeros_like(x), x)
    is_long = lengths > 0
    return float(np.mean(distance.measure(x, examples)[is_long] / lengths[is_long])) if is_long.any() else float("nan")
