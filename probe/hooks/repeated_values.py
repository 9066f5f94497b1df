"""Batches that have the same values in other places, as one-hot rows and drawn shapes do: a checksum cannot tell."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..kernels.fingerprints import RANGE

#: Times in a row that a batch must be the same, value by value, until that is believed; forwards of a step that are
#: looked at; values of a sample beyond which its places repeat. Our choice.
_SURE, _MOST_CALLS, _MOST_PLACES = 8, 16, 1 << 20
_MIX: Final = np.uint64(0xBF58476D1CE4E5B9)


class _Seen:
    """A total that has come again: what its places told first, and how often they have told the same since."""

    __slots__ = ("alike", "first", "total")

    def __init__(self, total: int) -> None:
        self.total, self.alike = total, 0
        self.first: int | None = None


class RepeatedValues:
    """What to add to the checksums of batches whose values come again, so that they differ if the places do.

    Only where a forward has the checksum of the same forward a step earlier are the places read: that is where a batch
    is about to be called repeated. One that is repeated has the same checksum as before.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}

    def difference(self, call: int, total: int, inputs: Callable[[], Iterable[NDArray[np.generic]]]) -> int:
        """Return 0 for a batch whose values are new, or lie where they lay when they came again first.

        Args:
            call: The number of the forward in its step.
            total: The checksum of the step so far.
            inputs: Returns the arrays of this forward, `(samples, ...)` each; called where their places are needed.
        """
        if call >= _MOST_CALLS:
            return 0
        seen = self._seen.get(call)
        if seen is None or seen.total != total:
            self._seen[call] = _Seen(total)
            return 0
        if seen.alike >= _SURE:
            return 0
        found = sum(number * checksum_of_places(array) for number, array in enumerate(inputs(), 1)) % RANGE
        seen.first = found if seen.first is None else seen.first
        seen.alike += found == seen.first
        return (found - seen.first) % RANGE


def checksum_of_places(array: NDArray[np.generic]) -> int:
    """Return a number below 2^53 of what lies where in each sample `(samples, ...)`, in whatever order these come."""
    if array.ndim < 2 or array.size == 0:
        return 0
    rows = np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)
    size = next(each for each in (8, 4, 2, 1) if rows.shape[1] % each == 0)
    words = rows.view(f"u{size}")
    places = _places(words.shape[1])
    with np.errstate(over="ignore"):
        told = words.astype(np.uint64, copy=False) @ places
        told = (told ^ (told >> np.uint64(29))) * _MIX
        return int((told ^ (told >> np.uint64(32))).sum(dtype=np.uint64)) % RANGE


@lru_cache(maxsize=4)
def _places(count: int) -> NDArray[np.uint64]:
    """Return an odd factor for each place, always the same ones."""
    drawn = np.random.Generator(np.random.PCG64(0x5EED)).integers(0, 1 << 63, min(count, _MOST_PLACES), dtype=np.uint64)
    return np.resize(drawn * 2 + 1, count)
