"""How long a rule can go without being asked, in records of a burst."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def nothing(records: int) -> None:
    """What a rule learns of records that change nothing in what it remembers."""


class Rest(NamedTuple):
    """For how many records, from the next one on, a rule has nothing to say.

    Args:
        learn: Takes how many of them have passed, once, and brings the memory to where checks one by one would have.
    """

    records: int
    learn: Callable[[int], object] = nothing


def first(found: NDArray[np.bool_]) -> int:
    """How many records come before the first in which something is true, of `(records,)` or `(records, sites)`."""
    places = np.flatnonzero(found if found.ndim == 1 else np.any(found, axis=1))
    return int(places[0]) if len(places) else len(found)
