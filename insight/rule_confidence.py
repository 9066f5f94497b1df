"""Calibrates the confidence of findings by how often their rule was right in the benchmark of faults."""

from typing import Final

from .calibration import NAMED

#: Runs that the rule's stated confidence counts for: without measured runs it decides, with twenty it hardly matters
#: (our choice).
_WORTH: Final = 2
#: Digits of a share of at most a few hundred runs.
_DIGITS: Final = 3


def calibrated(rule: str, stated: float) -> float:
    """Return the share of runs in which the rule was right; its stated confidence counts as two more runs.

    The mean of a beta distribution whose prior is what the rule states, as Laplace's rule of succession is for a prior
    that knows nothing.
    """
    right, named = NAMED.get(rule, (0, 0))
    return 1.0 if stated >= 1 else round((right + _WORTH * stated) / (named + _WORTH), _DIGITS)
