"""What every detector is, its threshold, and several detectors as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..array_api import Floats, Images
from ..errors import InvalidInput


class Detector(Protocol):
    """A score for each input."""

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` scores of inputs `(n, ...)`, larger when more suspicious."""


class Features(Protocol):
    """A function to the values that a detector compares: a layer's activations, logits, pixels."""

    def __call__(self, x: Images) -> NDArray[np.generic]:
        """Return `(n, ...)` features of inputs `(n, ...)`."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A detector with the threshold above which it raises an alarm."""

    detector: Detector
    threshold: float

    def flags(self, x: Images) -> NDArray[np.bool_]:
        """Return `(n,)` bool, True for inputs taken for an attack."""
        return np.asarray(self.detector.scores(x) > self.threshold, np.bool_)


def calibrate(detector: Detector, clean: Images, *, false_positive_rate: float = 0.05) -> Alarm:
    """Set the threshold so that at most that share of the clean inputs `(n, ...)` raises the alarm.

    Raises:
        InvalidInput: There is no clean input, a score of one is not a number, or the rate is not a share.
    """
    if not 0 <= false_positive_rate < 1:
        raise InvalidInput(f"false_positive_rate expects a share from 0 to below 1, got {false_positive_rate}")
    scores = np.sort(detector.scores(clean)) if len(clean) else np.zeros(0)
    if not len(scores) or np.isnan(scores).any():
        raise InvalidInput(f"clean expects one input or more with a score each, got {len(scores)} scores, or NaN")
    allowed = int(np.floor(false_positive_rate * len(scores) + 1e-9))
    return Alarm(detector, float(scores[len(scores) - 1 - allowed]))


def flat_features(features: Features, x: Images) -> Floats:
    """Return `(n, d)` float64 features.

    Raises:
        InvalidInput: They are not one finite row an input.
    """
    found = np.asarray(features(x), np.float64)
    if len(found) != len(x) or not np.isfinite(found).all():
        raise InvalidInput(f"features expect {len(x)} rows of finite numbers, got shape {found.shape}")
    return found.reshape(len(found), -1)


@dataclass(frozen=True, slots=True, eq=False)
class DetectorEnsemble:
    """The share of clean inputs with lower scores, on which at least `votes` of the detectors agree.

    Scores of different detectors have no common unit; their places among those of clean inputs have. With one vote the
    most alarmed detector decides, with as many as there are detectors the least alarmed.

    Args:
        detectors: One or more.
        references: For each of them its scores of clean inputs, ascending.
        votes: From 1 to the number of detectors.

    Reference:
        Meng, Chen 2017, arXiv:1705.09064, section 4.4 (several detectors, any of which may object).
    """

    detectors: tuple[Detector, ...]
    references: tuple[Floats, ...]
    votes: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.votes <= len(self.detectors) == len(self.references):
            raise InvalidInput(
                f"an ensemble expects 1 to {len(self.detectors)} votes and references of every detector, got "
                f"{self.votes} votes and {len(self.references)} references"
            )

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` scores from 0 to 1."""
        ranks = [
            np.searchsorted(reference, detector.scores(x), side="left") / len(reference)
            for detector, reference in zip(self.detectors, self.references, strict=True)
        ]
        return np.asarray(np.sort(ranks, axis=0)[-self.votes], np.float64)


def fit_ensemble(detectors: Sequence[Detector], clean: Images, *, votes: int = 1) -> DetectorEnsemble:
    """Fit the ensemble to clean inputs `(n, ...)` as reference; calibrate it on others, for the rate to hold."""
    if not len(clean):
        raise InvalidInput("clean expects one input or more, got none")
    return DetectorEnsemble(tuple(detectors), tuple(np.sort(detector.scores(clean)) for detector in detectors), votes)
