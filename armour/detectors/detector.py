"""What every detector is: a score for each input, larger when it looks more like an attack, and a threshold on it."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Images
from ..errors import InvalidInput


class Detector(Protocol):
    """Scores inputs."""

    def scores(self, x: Images) -> Floats:
        """`(n,)` for inputs `(n, ...)`, larger when more suspicious."""


class Features(Protocol):
    """What a detector looks at instead of the input: a layer's activations, logits, pixels."""

    def __call__(self, x: Images) -> NDArray[Any]:
        """`(n, ...)` features of inputs `(n, ...)`."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A detector with the threshold above which it raises its voice."""

    detector: Detector
    threshold: float

    def flags(self, x: Images) -> NDArray[np.bool_]:
        """`(n,)` whether the input is taken for an attack."""
        return np.asarray(self.detector.scores(x) > self.threshold, np.bool_)


def calibrate(detector: Detector, clean: Images, *, false_positive_rate: float = 0.05) -> Alarm:
    """The alarm that at most that share of the clean inputs `(n, ...)` sets off.

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
    """`(n, d)` float64 features.

    Raises:
        InvalidInput: They are not one finite row an input.
    """
    found = np.asarray(features(x), np.float64)
    if len(found) != len(x) or not np.isfinite(found).all():
        raise InvalidInput(f"features expect {len(x)} rows of finite numbers, got shape {found.shape}")
    return found.reshape(len(found), -1)
