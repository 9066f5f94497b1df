"""Several detectors as one: each says how unusual an input is among clean ones, and enough of them must agree."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Images
from ..errors import InvalidInput
from .detector import Detector


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """The share of clean inputs that look less suspicious, as at least `votes` of the detectors agree.

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
        """`(n,)` from 0 to 1."""
        places = [
            np.searchsorted(reference, detector.scores(x), side="left") / len(reference)
            for detector, reference in zip(self.detectors, self.references, strict=True)
        ]
        return np.asarray(np.sort(places, axis=0)[-self.votes], np.float64)


def fit_ensemble(detectors: Sequence[Detector], clean: Images, *, votes: int = 1) -> Ensemble:
    """The ensemble with clean inputs `(n, ...)` as reference; calibrate it on others, for the rate to hold."""
    if not len(clean):
        raise InvalidInput("clean expects one input or more, got none")
    return Ensemble(tuple(detectors), tuple(np.sort(detector.scores(clean)) for detector in detectors), votes)
