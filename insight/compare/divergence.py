"""Where two recordings part: the first value that differs by more than the noise seen before it.

A difference is measured against the size of the tensor that it belongs to, so that a mean near zero is no noise source:

    l2_norm, std             |a - b| / max(|a|, |b|)
    mean, min, max           |a - b| / max(largest absolute value of both tensors)
    zeros, nans, infinities  |a - b| / size
    any other, scalars       |a - b| / max(|a|, |b|)

Equal bits differ by 0, NaN from NaN too; what is finite on one side only differs by infinity.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Divergence", "NoiseFloor", "distances"]

_COUNTS = frozenset({"zeros", "nans", "pos_infs", "neg_infs"})
_PLACES = frozenset({"mean", "min", "max"})


@dataclass(frozen=True, slots=True)
class Divergence:
    """One value that differs.

    Args:
        site: As the first run names it.
        difference: Relative, as the module describes; infinity where only one side is finite.
        floor: The largest difference that this value had shown before, 0 when all were equal to the bit; in the first
            common step what rounding explains.
    """

    step: int
    micro_step: int
    site: str
    call: int
    metric: str
    first: float
    second: float
    difference: float
    floor: float


def distances(
    first: NDArray[np.float64], second: NDArray[np.float64], statistics: tuple[str, ...]
) -> NDArray[np.float64]:
    """How far the statistics of the same tensors lie apart.

    Args:
        first: `(tensors, statistics)`, as `second`.

    Returns:
        `(tensors, statistics)`, from 0 to infinity.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.abs(first - second)
        scale = np.maximum(np.abs(first), np.abs(second))
        columns = {name: place for place, name in enumerate(statistics)}
        ends = [columns[name] for name in ("min", "max") if name in columns]
        if ends:
            reach = np.nanmax(np.where(np.isfinite(scale[:, ends]), scale[:, ends], 0.0), axis=1)
            for name in _PLACES & columns.keys():
                place = columns[name]
                scale[:, place] = np.maximum(scale[:, place], reach)
        if "size" in columns:
            for name in _COUNTS & columns.keys():
                scale[:, columns[name]] = np.maximum(scale[:, columns["size"]], 1.0)
        result = np.where(scale > 0.0, gap / scale, 0.0)
    is_equal = (first == second) | (np.isnan(first) & np.isnan(second))
    is_torn = np.isfinite(first) != np.isfinite(second)
    both_odd = ~np.isfinite(first) & ~np.isfinite(second) & ~is_equal
    result[is_torn | both_odd] = np.inf
    result[is_equal] = 0.0
    return result


@dataclass(slots=True)
class NoiseFloor:
    """The largest difference of each value so far, and what goes beyond it.

    Args:
        factor: So many times the floor is a divergence. Our choice: rounding noise of a training at most doubles
            from one step to the next for a long time, so ten times the largest so far is no noise.
        least: Below this a difference is noise even where there was none before, unless everything was equal so far.
    """

    factor: float = 10.0
    least: float = 1e-6
    floors: dict[tuple[str, str, int], NDArray[np.float64]] = field(default_factory=dict)
    is_exact: bool = True

    def beyond(self, key: tuple[str, str, int], found: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of these differences of a tensor go beyond its floor."""
        if self.is_exact:
            return found > 0.0
        floor = self.floors.get(key)
        limit = self.least if floor is None else np.maximum(self.factor * floor, self.least)
        return found > limit

    def floor(self, key: tuple[str, str, int], column: int) -> float:
        """The floor of one value."""
        known = self.floors.get(key)
        return 0.0 if known is None else float(known[column])

    def learn(self, key: tuple[str, str, int], found: NDArray[np.float64]) -> None:
        """Nothing; these differences are noise."""
        finite = np.where(np.isfinite(found), found, 0.0)
        known = self.floors.get(key)
        self.floors[key] = finite if known is None else np.maximum(known, finite)
