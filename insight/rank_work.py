"""Which part of a step each rank works, and which it waits for others: the one answer of rules and of the profile.

The times of collectives that Python calls are recorded. Those inside of a backward pass or a forward, as
DistributedDataParallel makes them, are not; they show in phases that end on all ranks together although they began
apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["RankWork", "rank_work"]

Floats = NDArray[np.float64]

#: Phases in which a rank may wait, unrecorded, in their order; the rank's own ones come before them.
_WAITING: Final = ("forward", "backward", "optimizer")
#: Ranks end a phase together when its ends lie closer than its beginnings by this factor. Our choice.
_TOGETHER: Final = 0.5


@dataclass(frozen=True, slots=True)
class RankWork:
    """Work and waiting of every rank.

    Args:
        own_s: `(ranks,)`, seconds of a step on the rank's own work.
        waits_s: `(ranks,)`, seconds of waiting inside of phases, beside the recorded collectives.
    """

    own_s: Floats
    waits_s: Floats


def rank_work(phases: Mapping[str, Floats], communication: Floats) -> RankWork:
    """Return work and waiting of ranks that step together.

    Whoever began later a phase that ends on all ranks together has had the shorter one, by as much; the rank with the
    shortest has waited least. What was recorded as waiting in collectives is not counted twice.

    Args:
        phases: Seconds `(ranks,)` of `data`, `forward`, `backward`, `optimizer` and others.
        communication: Seconds in recorded collectives.
    """
    begins = phases.get("data", np.zeros_like(communication)).copy()
    waits, told = np.zeros_like(communication), communication.copy()
    for name in _WAITING:
        spent = phases.get(name, np.zeros_like(communication))
        ends = begins + spent
        if np.ptp(ends) <= _TOGETHER * np.ptp(begins):
            longer = spent - spent.min()
            recorded = np.minimum(longer, told)
            waits, told = waits + longer - recorded, told - recorded
        begins = ends
    own = sum(phases.values()) - communication - waits
    return RankWork(np.maximum(own, 0.0), waits)
