"""Where the edges of bins stand on an axis: as numbers, or one place a bin where their widths differ by magnitudes."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..words import number

#: Our choice: from this ratio of the widest bin to the narrowest on, the narrow ones would be thinner than a pixel.
_UNEVEN: Final = 64.0
_LABELS: Final = 6


def is_uneven(edges: NDArray[np.float64]) -> bool:
    """Whether finite bins of `(bins + 1,)` edges differ so much in width that a linear axis would hide some of them."""
    widths = np.diff(edges[np.isfinite(edges)])
    widths = widths[widths > 0]
    return widths.size > 1 and bool(widths.max() / widths.min() >= _UNEVEN)


def kept_edges(occupied: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Which of the `(bins + 1,)` edges remain when empty bins beside each other become one; the outermost always do."""
    keep = np.ones(occupied.size + 1, dtype=bool)
    keep[1:-1] = occupied[:-1] | occupied[1:]
    return np.flatnonzero(keep)


def edge_labels(edges: Sequence[float]) -> tuple[tuple[float, str], ...]:
    """Places and words of some edges on an axis on which edge `i` stands at `i`; zero and the ends among them."""
    last = len(edges) - 1
    always = {0, last, *(at for at, edge in enumerate(edges) if edge == 0.0)}
    every = max(1, -(-last // _LABELS))
    some = {at for at in range(0, last, every) if all(abs(at - one) > every / 2 for one in always)}
    return tuple((float(at), number(edges[at], 2)) for at in sorted(some | always))
