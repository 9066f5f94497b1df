"""Whether an explanation points at the thing itself, where a person has marked it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Localisation", "localisation"]


@dataclass(frozen=True, slots=True)
class Localisation:
    """How well a map points at a marked region.

    Args:
        is_hit: Its largest value lies inside.
        energy: Share of its positive values that does; the region's own share of all places is what chance gives.
        rank_share: Share of its largest values, as many as the region has places, that do.
        chance: The region's share of all places.
    """

    is_hit: bool
    energy: float
    rank_share: float
    chance: float


def localisation(importance: NDArray[Any], region: NDArray[np.bool_]) -> Localisation:
    """How well the map points at the region.

    Raises:
        ValueError: Their shapes differ, or the region is empty.

    Reference:
        Zhang et al. 2018, arXiv:1608.00507 (pointing game); Wang et al. 2020, arXiv:1910.01279, section 4.3 (energy);
        Arras et al. 2022, arXiv:2003.07258, eq. 13 (ranks).
    """
    field, marked = np.asarray(importance, np.float64), np.asarray(region, np.bool_)
    if field.shape != marked.shape or not marked.any():
        raise ValueError(f"region expects shape {field.shape} and a place that is marked, got {marked.shape}")
    positive = np.maximum(field, 0.0)
    whole = float(positive.sum())
    largest = np.argsort(-field.ravel(), kind="stable")
    count = int(marked.sum())
    return Localisation(
        bool(marked.ravel()[largest[0]]),
        float(positive[marked].sum()) / whole if whole > 0.0 else float("nan"),
        float(marked.ravel()[largest[:count]].mean()),
        count / marked.size,
    )
