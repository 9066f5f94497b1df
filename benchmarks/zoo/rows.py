"""Rows of the zoo's document, as `benchmarks/render.py` reads them."""

from typing import Any

from ..faults.score import Share
from ..rows import row_of

Row = dict[str, Any]


def share_row(case: str, metric: str, found: Share, target: float, *, at_most: bool = False) -> Row:
    """Return a row in percent; without a value and a verdict if there was nothing to count."""
    counts = {"hits": found.hits, "of": found.of}
    if not found.of:
        return row_of(case, metric, None, "%", 100.0 * target, None) | counts
    is_met = found.value <= target if at_most else found.value >= target
    low, high = found.interval
    row = row_of(case, metric, 100.0 * found.value, "%", 100.0 * target, is_met)
    return row | counts | {"interval": [100.0 * low, 100.0 * high]}
