"""The quality of a detector: how well it separates attacked inputs from clean ones."""

from dataclasses import dataclass

import numpy as np

from ..array_api import Images
from ..detectors import Alarm
from ..errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Detection:
    """The performance of an alarm on clean and on adversarial inputs.

    Args:
        detection_rate: Share of the adversarial inputs that set it off.
        false_positive_rate: Share of the clean inputs that do.
        auc: How often an adversarial input scores higher than a clean one, ties as half; 0.5 is guessing.
    """

    detection_rate: float
    false_positive_rate: float
    auc: float


def detection(alarm: Alarm, clean: Images, adversarial: Images) -> Detection:
    """Measure the three numbers of an alarm.

    Args:
        clean: `(n, ...)` inputs on which it was neither fitted nor calibrated.
        adversarial: `(m, ...)` inputs that fool the model.

    Raises:
        InvalidInput: There are no inputs of one kind.
    """
    if not len(clean) or not len(adversarial):
        raise InvalidInput(
            f"detection expects clean and adversarial inputs, got {len(clean)} and {len(adversarial)}; "
            "attacks of a larger epsilon fool the model more often"
        )
    usual, found = np.sort(alarm.detector.scores(clean)), alarm.detector.scores(adversarial)
    below = (np.searchsorted(usual, found, side="left") + np.searchsorted(usual, found, side="right")) / 2
    return Detection(
        detection_rate=float((found > alarm.threshold).mean()),
        false_positive_rate=float((usual > alarm.threshold).mean()),
        auc=float(below.mean() / len(usual)),
    )
