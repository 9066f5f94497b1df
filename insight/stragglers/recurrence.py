"""Tells whether something that costs time does so all the time, at regular steps, or in bursts; and since when."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from .step_graph import Floats, Integers

__all__ = ["Recurrence", "recurrence"]

#: A step is concerned if it loses this share of a usual one. Our choice: half of what is told of the mean step.
_CONCERNED: Final = 0.02
#: Persistent: this share of the steps since the first is concerned. Our choice.
_PERSISTENT: Final = 0.7
#: Periodic: at least three distances between concerned steps, which vary by this share at most. Our choice.
_REGULAR: Final = 0.2
_DISTANCES: Final = 3


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How a cost comes back.

    Args:
        kind: `persistent`, `periodic`, `bursty`, `once`, or `never`.
        since: The first step that is concerned; -1 for none.
        period: Steps from one to the next, where periodic; else 0.
        steps: How many are concerned.
        share: Of the steps since the first.
    """

    kind: Literal["persistent", "periodic", "bursty", "once", "never"]
    since: int
    period: float
    steps: int
    share: float


def recurrence(numbers: Integers, lost_s: Floats, step_s: float) -> Recurrence:
    """Return how the loss comes back.

    Args:
        numbers: `(s,)`, of the steps.
        lost_s: `(s,)`, seconds that each loses.
        step_s: A usual step.
    """
    # a persistent loss may fall short in some steps; a burst stands out of the others
    hits = np.flatnonzero(lost_s > max(_CONCERNED * step_s, 0.25 * float(lost_s.max(initial=0.0))))
    if not len(hits):
        return Recurrence("never", -1, 0.0, 0, 0.0)
    share = len(hits) / (len(lost_s) - hits[0])
    since = int(numbers[hits[0]])
    if share >= _PERSISTENT and (len(hits) > 1 or len(lost_s) == 1):
        return Recurrence("persistent", since, 0.0, len(hits), share)
    # a long step may spill over into the next: neighbours are one
    firsts = hits[np.concatenate([[True], np.diff(hits) > 1])]
    if len(firsts) > _DISTANCES:
        gaps = np.diff(numbers[firsts]).astype(np.float64)
        if gaps.std() <= _REGULAR * gaps.mean():
            return Recurrence("periodic", since, float(np.median(gaps)), len(hits), share)
    return Recurrence("once" if len(firsts) == 1 else "bursty", since, 0.0, len(hits), share)
