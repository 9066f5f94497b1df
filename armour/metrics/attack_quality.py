"""What an attack's examples are like: how often they fool, how surely, and how little they differ from the input."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, to_numpy
from ..contract.result import AttackResult
from ..distances import DISTANCES, Norm
from ..model import Model
from ..model.confidence import probabilities
from .structural_similarity import structural_similarity


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
        """The numbers under the paper's names, for the details of an outcome; what there is none of is left out."""
        every = {
            "MR": self.misclassification_rate,
            "ACAC": self.adversarial_confidence,
            "ACTC": self.true_confidence,
            "ALDp": self.distortion[norm],
            "ASS": self.structural_similarity,
            "NTE": self.noise_tolerance,
        }
        return {name: value for name, value in every.items() if not math.isnan(value)}


def attack_quality(model: Model, x: Array, y: ArrayLike, result: AttackResult) -> tuple[AttackQuality, ...]:
    """The quality of an attack's examples at each of its budgets.

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
    model: Model,
    x: NDArray[Any],
    y: NDArray[np.int64],
    examples: NDArray[Any],
    success: NDArray[np.bool_],
    already: NDArray[np.bool_],
) -> AttackQuality:
    """The quality of one budget's examples.

    Args:
        model: That was attacked.
        x: `(n, ...)` inputs with true classes `y` `(n,)`.
        examples: `(n, ...)` what the attack made of them.
        success: `(n,)` where it succeeded.
        already: `(n,)` inputs that were wrong from the start and not attacked.
    """
    rate = float(success.sum() / (~already).sum()) if not already.all() else float("nan")
    if not success.any():
        nothing = float("nan")
        return AttackQuality(rate, nothing, nothing, dict.fromkeys(DISTANCES, nothing), nothing, nothing)
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


def _distortion(norm: str, x: NDArray[Any], examples: NDArray[Any]) -> float:
    """The mean over inputs that are not zero everywhere."""
    distance = DISTANCES[norm]
    lengths = distance.measure(np.zeros_like(x), x)
    is_long = lengths > 0
    return float(np.mean(distance.measure(x, examples)[is_long] / lengths[is_long])) if is_long.any() else float("nan")
