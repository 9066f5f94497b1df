"""What the labels are that a loss is given: how many classes, how evenly spread."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..quantities.checksums import checksum_of

#: Labels beyond this many classes are not counted any more.
_MOST: Final = 1 << 16


class Targets:
    """Counts the class labels of the calls that are looked at; scalars `target/entropy`, `/classes`, `/counted`.

    `target/checksum` tells whether the labels of two batches are the same.
    """

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)

    def look(self, target: NDArray[Any]) -> Mapping[str, float]:
        """The scalars, after counting labels `(...)` of any integer dtype but negative ones, which losses ignore.

        Reals are no classes: of them there is nothing to tell.
        """
        if target.dtype.kind not in "iu" or not target.size:
            return {}
        flat = np.ascontiguousarray(target).reshape(-1)
        labels = flat[flat >= 0]
        if not labels.size or labels.max() >= _MOST:
            return {}
        counts = np.bincount(labels.astype(np.int64), minlength=self._counts.size)
        counts[: self._counts.size] += self._counts
        self._counts = counts
        shares = counts[counts > 0] / counts.sum()
        return {
            "target/entropy": abs(float((shares * np.log(shares)).sum())),
            "target/classes": float(shares.size),
            "target/counted": float(counts.sum()),
            "target/checksum": float(checksum_of(flat)),
        }
