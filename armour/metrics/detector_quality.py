"""The quality of a detector: how well it separates attacked inputs from clean ones."""

from dataclasses import dataclass

from ..array_api import Images
from ..binomial_bounds import proportion_interval
from ..detectors import Alarm
from ..errors import InvalidInput
from ..roc_curve import area, area_interval, roc_curve


@dataclass(frozen=True, slots=True)
class DetectorQuality:
    """The performance of an alarm on clean and on adversarial inputs.

    Args:
        detection_rate: Share of the adversarial inputs that set it off.
        false_positive_rate: Share of the clean inputs that do.
        auc: How often an adversarial input scores higher than a clean one, ties as half; 0.5 is guessing.
        detection_interval, false_positive_interval: 95 % intervals of the two rates, by Clopper and Pearson.
        auc_interval: 95 % interval of the area, by DeLong.
        clean: How many clean inputs there are.
    """

    detection_rate: float
    false_positive_rate: float
    auc: float
    detection_interval: tuple[float, float]
    false_positive_interval: tuple[float, float]
    auc_interval: tuple[float, float]
    clean: int


def detector_quality(alarm: Alarm, clean: Images, adversarial: Images) -> DetectorQuality:
    """Measure the three numbers of an alarm, with their intervals.

    Args:
        clean: `(n, ...)` inputs on which it was neither fitted nor calibrated.
        adversarial: `(m, ...)` inputs that fool the model.

    Raises:
        InvalidInput: There are no inputs of one kind.
        ModuleNotFoundError: Without SciPy.
    """
    if not len(clean) or not len(adversarial):
        raise InvalidInput(
            f"detector_quality expects clean and adversarial inputs, got {len(clean)} and {len(adversarial)}; "
            "attacks of a larger epsilon fool the model more often"
        )
    usual, found = alarm.detector.scores(clean), alarm.detector.scores(adversarial)
    caught, accused = int((found > alarm.threshold).sum()), int((usual > alarm.threshold).sum())
    curve = roc_curve(found, usual)
    return DetectorQuality(
        detection_rate=caught / len(found),
        false_positive_rate=accused / len(usual),
        auc=area(*curve),
        detection_interval=proportion_interval(caught, len(found)),
        false_positive_interval=proportion_interval(accused, len(usual)),
        auc_interval=area_interval(*curve, len(found), len(usual)),
        clean=len(usual),
    )
