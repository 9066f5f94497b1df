"""Tells whether the layers put out what they usually do."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from ..context.subject_table import Table
from ..running_statistics import Floats

#: Records below which nothing is usual; share of the outputs that must be; deviations from the usual size, of which one
#: is at least the third number: 4 % of it. Our choice.
_FEWEST, _SHARE, _DEVIATIONS, _SMALLEST = 4, 0.95, 6.0, 0.016
#: A median absolute deviation in standard deviations of a normal distribution.
_NORMAL: Final = 1.4826


def is_usual(earlier: Iterable[Floats], table: Table) -> bool:
    """Return whether the norms of 95 % of the outputs are within 25 % of their usual size or 6 deviations.

    Args:
        earlier: Norms of the outputs of earlier records.
        table: The outputs of this one.
    """
    norms = table.column("l2_norm")
    kept = [row for row in earlier if len(row) == len(norms)]
    if len(kept) < _FEWEST:
        return False
    with np.errstate(divide="ignore", invalid="ignore"):
        history, newest = np.log10(np.stack(kept)), np.log10(norms)
        center = np.median(history, axis=0)
        spread = np.maximum(_NORMAL * np.median(np.abs(history - center), axis=0), _SMALLEST)
        deviates = np.abs(newest - center) / spread
    judged = table.present & np.isfinite(deviates) & (table.column("size") > 1)
    return bool(judged.any()) and float((deviates[judged] < _DEVIATIONS).mean()) >= _SHARE
