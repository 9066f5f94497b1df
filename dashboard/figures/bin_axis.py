"""Where the edges of bins stand on an axis: as numbers, or one place a bin where their widths differ by magnitudes."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..words import number

#: Our choice: from this ratio of the widest bin to the narrowest on, the narrow ones would be thinner than a pixel.
_UNEVEN: Final = 64.0
_LABELS: Final = 9


def is_uneven(edges: NDArray[np.float64]) -> bool:
    """Whether finite bins of `(bins + 1,)` edges differ so much in width that a linear axis would hide some of them."""
    widths = np.diff(edges[np.isfinite(edges)])
    widths = widths[widths > 0]
    return widths.size > 1 and bool(widths.max() / widths.min() >= _UNEVEN)


def edge_labels(edges: Sequence[float]) -> tuple[tuple[float, str], ...]:
    """Places and words of some of the edges on an axis on which edge `i` stands at `i`; zero is always among them."""
    chosen = set(range(0, len(edges), max(1, -(-len(edges) // _LABELS))))
    zeros = {at for at, edge in enumerate(edges) if edge == 0.0}
    beside = {at for zero in zeros for at in (zero - 1, zero + 1)}
    return tuple((float(at), number(edges[at], 2)) for at in sorted((chosen - beside) | zeros))
