"""Which part of a step each rank works, and which it waits for others: the one answer of rules and of the profile.

The times of collectives that Python calls are recorded. Those inside of a backward pass or a forward, as
DistributedDataParallel makes them, are not; they show in phases that end on all ranks together although they began
apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["RankWork", "excess_words", "is_straggling", "rank_work"]

Floats = NDArray[np.float64]

#: Phases in which a rank may wait, unrecorded, in their order; the rank's own ones come before them.
_WAITING: Final = ("forward", "backward", "optimizer")
#: Share of the others' step, and seconds. Clocks and schedulers cause less (our choice: two processes that share a
#: core differ by 20 % between exchanges); steps of a millisecond are left out.
_SHARE: Final = 0.3
_LEAST_S: Final = 0.002
#: Ranks end a phase together when its ends lie closer than its beginnings by this factor. Our choice.
_TOGETHER: Final = 0.5


@dataclass(frozen=True, slots=True)
class RankWork:
    """Work and waiting of every rank.

    Args:
        own_s: `(ranks,)`, seconds of a step on the rank's own work.
        waits_s: `(ranks,)`, seconds of waiting inside of phases, beside the recorded collectives.
        phase_waits: The same by phase.
    """

    own_s: Floats
    waits_s: Floats
    phase_waits: Mapping[str, Floats] = field(default_factory=dict)


def rank_work(phases: Mapping[str, Floats], communication: Floats) -> RankWork:
    """Return work and waiting of ranks that step together.

    Whoever began later a phase that ends on all ranks together has had the shorter one, by as much; the rank with the
    shortest has waited least. What was recorded as waiting in collectives is not counted twice; as much of it as the
    other phases cannot hold was waited before the forward.

    Args:
        phases: Seconds `(ranks,)` of `data`, `forward`, `backward`, `optimizer` and others, which come before these.
        communication: Seconds in recorded collectives.
    """
    before = sum((times for name, times in phases.items() if name not in _WAITING), np.zeros_like(communication))
    behind = sum((times for name, times in phases.items() if name in _WAITING), np.zeros_like(communication))
    early = np.minimum(np.maximum(communication - behind, 0.0), before)
    begins, told = before - early, communication - early
    waits = np.zeros_like(communication)
    by_phase: dict[str, Floats] = {}
    for name in _WAITING:
        spent = phases.get(name, np.zeros_like(communication))
        ends = begins + spent
        if np.ptp(ends) <= _TOGETHER * np.ptp(begins):
            longer = spent - spent.min()
            recorded = np.minimum(longer, told)
            by_phase[name] = longer - recorded
            waits, told = waits + longer - recorded, told - recorded
        begins = ends
    own = sum(phases.values()) - communication - waits
    return RankWork(np.maximum(own, 0.0), waits, by_phase)


def is_straggling(excess_s: Floats, step_s: Floats) -> NDArray[np.bool_]:
    """Return whether work that exceeds the others' by so many seconds holds them up, in steps of that length."""
    return excess_s > np.maximum(_SHARE * step_s, _LEAST_S)


def excess_words(excess_s: float, step_s: float) -> str:
    """Say by how much a rank works longer than the others, as every place that names one does."""
    share = f" ({excess_s / step_s:.0%} of a step)" if step_s > 0.0 else ""
    return f"needs {excess_s * 1e3:.3g} ms a step more than the others for its own work{share}"
