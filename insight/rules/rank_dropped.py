"""A rank whose gradient is missing from a reduction."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number, numbers
from ..indicators.replicas import dropped
from ..recording import Recording, chain
from ..rule import BACKWARD, rule

_MODEL = chain("one:Dense", "two:Dense")


def _reduction(*weights: float) -> Event:
    data: dict[str, Json] = {"at": 0, "weights": list(weights), "residual": 1e-6, "ranks": len(weights), "sites": []}
    return Event("rank_reduction", 0, data=data)


@dataclass(slots=True)
class _RankDroppedState:
    """The ranks that were reported."""

    reported: set[int] = field(default_factory=set)


@rule(
    "rank-dropped",
    needs=("event/rank_reduction",),
    phase=BACKWARD,
    memory=_RankDroppedState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_reduction(0.5, 0.5, 0.0),)),
        Recording(structure=_MODEL, events=(_reduction(0.5, 0.0),)),
        Recording(structure=_MODEL, events=(_reduction(0.0, 0.25, 0.25, 0.25),)),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_reduction(0.5, 0.5),)),
        Recording(structure=_MODEL, events=(_reduction(1.0, 0.0, 0.0),)),
        Recording(structure=_MODEL, events=(_reduction(0.6, 0.3, 0.01),)),
    ),
)
def check(context: StepContext, memory: _RankDroppedState) -> Iterator[Finding]:
    """Report a rank whose gradient is missing from the reduced gradient.

    The rule fires when the reduced gradient holds the local gradients of some ranks in equal shares, and none of
    others. The shares are solved from the local gradients that the ranks exchange, so this is an identity, not an
    estimate. The model never learns from the data of such a rank, and the loss does not show it. Look at what this rank
    does before the reduction, such as `no_sync()`.
    """
    for event in context.events("rank_reduction"):
        missing = [rank for rank in dropped(event) if rank not in memory.reported]
        memory.reported.update(missing)
        weights = numbers(event, "weights")
        for rank in missing:
            yield context.finding(
                ROOT_SITE,
                "gradient/l2_norm",
                {
                    "share": weights[rank],
                    "share_of_others": max(weights),
                    "ranks": number(event, "ranks"),
                    "residual": number(event, "residual"),
                },
                first_step=event.step,
                position=0,
                rank=rank,
                explanation=f"rank {rank} has no share in the applied gradient: its weight is {weights[rank]:.2g}, "
                f"that of the others {max(weights):.3g}",
                advice="check what this rank does before the reduction: no_sync(), a gradient that is zeroed or "
                "detached, a process group without it, a caught exception",
            )
