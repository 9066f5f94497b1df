"""Metrics of a model and of its defence as outcomes."""

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from ...storage import Json, Outcome
from ...storage.evaluation_verdict import Symptom
from ..distances import Norm
from .defence_quality import DefenceQuality
from .detector_quality import DetectorQuality
from .query_defence import QueryDefence
from .robustness_estimates import mean_change


def clever_outcome(
    scores: NDArray[np.float64],
    norm: Norm,
    radius: float,
    *,
    batches: int,
    points: int,
    seed: int,
    signs: Sequence[Symptom] = (),
) -> Outcome:
    """Return the outcome of CLEVER for `(n,)` inputs: median, mean and smallest distance; epsilon is the radius.

    Args:
        signs: That gradients are hidden, and the distances with them.
    """
    details: dict[str, Json] = {
        "kind": "metric",
        "mean": float(np.mean(scores)),
        "least": float(np.min(scores)),
        "at_radius": int(np.sum(scores >= radius)),
        **_signed(signs),
        "batches": batches,
        "points": points,
        "seed": seed,
    }
    return Outcome(
        "clever", norm, radius, math.nan, len(scores), median_distance=float(np.median(scores)), details=details
    )


def _signed(signs: Sequence[Symptom]) -> dict[str, Json]:
    return {
        "masking": [sign.name for sign in signs],
        "verdict": [{"name": sign.name, "value": sign.value, "explanation": sign.explanation} for sign in signs],
    }


def empirical_robustness_outcome(
    changes: NDArray[np.float64], norm: Norm, *, attack: str, seed: int, signs: Sequence[Symptom] = ()
) -> Outcome:
    """Return the outcome of empirical robustness; the value is None where no sample counts.

    Args:
        changes: `(n,)` as `smallest_changes` returns them.
        signs: That gradients are hidden, and the nearest examples with them.
    """
    value = mean_change(changes)
    details: dict[str, Json] = {
        "kind": "metric",
        "value": value if math.isfinite(value) else None,
        "without_example": int(np.sum(np.isinf(changes))),
        **_signed(signs),
        "attack": attack,
        "seed": seed,
    }
    return Outcome("empirical robustness", norm, 0.0, math.nan, len(changes), details=details)


def defence_outcome(quality: DefenceQuality, accuracy: float, samples: int) -> Outcome:
    """Return the outcome of a defence's quality; accuracy is that of the defended model on clean inputs."""
    numbers: dict[str, Json] = {
        name: value if math.isfinite(value) else None for name, value in asdict(quality).items()
    }
    return Outcome("defence quality", "", 0.0, accuracy, samples, details={"kind": "metric", **numbers})


def query_outcome(
    found: QueryDefence,
    norm: Norm,
    epsilon: float,
    samples: int,
    *,
    accuracy: float,
    allowed: int,
    seed: int,
    detector: str = "",
) -> Outcome:
    """Return the outcome of a query defence; accuracy is what Square leaves of the defended model."""
    details: dict[str, Json] = {"kind": "metric", **asdict(found), "attack": "square", "allowed": allowed, "seed": seed}
    return Outcome(f"query defence {detector}".strip(), norm, epsilon, accuracy, samples, details=details)


def detector_outcome(
    name: str,
    found: DetectorQuality,
    norm: Norm,
    epsilon: float,
    samples: int,
    *,
    attack: str,
    allowed: float,
    seed: int,
) -> Outcome:
    """Return the outcome of a detector on an attack's examples.

    Args:
        samples: Adversarial inputs.
        allowed: The share of false alarms that its threshold was set for.
    """
    numbers = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(found).items()}
    details: dict[str, Json] = {"kind": "metric", **numbers, "attack": attack, "seed": seed}
    details["allowed_false_positive_rate"] = allowed
    return Outcome(f"detector {name}", norm, epsilon, math.nan, samples, details=details)
