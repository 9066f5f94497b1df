"""What a test for drift found, as an outcome."""

import math
from typing import Final

from ...storage import Json, Outcome
from .two_sample import Drift

_FEATURES: Final = 256  # whose p-values are kept


def drift_outcome(test: str, drift: Drift, *, level: float, reference: int, current: int) -> Outcome:
    """What a test for drift found, with the p-values of at most 256 features.

    Args:
        test: `ks` or `mmd`.
        reference: Samples from when all was well.
        current: Samples of now.
    """
    details: dict[str, Json] = {
        "kind": "drift",
        "statistic": drift.statistic,
        "p_value": drift.p_value,
        "level": level,
        "has_drifted": drift.has_drifted,
        "features": [float(value) for value in drift.features[:_FEATURES]],
        "reference": reference,
        "current": current,
    }
    return Outcome(f"drift {test}", "", 0.0, math.nan, current, details=details)
