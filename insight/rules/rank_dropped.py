"""A rank whose gradient is missing from a reduction."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number, numbers, ranks
from ..indicators.replicas import dropped, members
from ..recording import Recording, chain
from ..rule import BACKWARD, rule

_MODEL = chain("one:Dense", "two:Dense")


def _reduction(*weights: float) -> Event:
    data: dict[str, Json] = {"at": 0, "weights": list(weights), "residual": 1e-6, "ranks": len(weights), "sites": []}
    return Event("rank_reduction", 0, data=data)


def _passes(at: int, count: float) -> Event:
    data: dict[str, Json] = {"at": at, "ranks": [1], "forwards": [20.0, 20.0], "passes": [20.0, count]}
    return Event("rank_passes", at, data=data)


#: Exchanges in which forwards must have been left unused.
_EXCHANGES = 2


@dataclass(slots=True)
class _RankDroppedState:
    """The ranks that were reported."""

    reported: set[int] = field(default_factory=set)
    unused: Counter[int] = field(default_factory=Counter)


@rule(
    "rank-dropped",
    needs=("event/rank_reduction", "event/rank_passes"),
    phase=BACKWARD,
    memory=_RankDroppedState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_reduction(0.5, 0.5, 0.0),)),
        Recording(structure=_MODEL, events=(_reduction(0.5, 0.0),)),
        Recording(structure=_MODEL, events=(_reduction(0.0, 0.25, 0.25, 0.25),)),
        Recording(structure=_MODEL, events=(_passes(0, 10.0), _passes(1, 10.0)), steps=2),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_reduction(0.5, 0.5),)),
        Recording(structure=_MODEL, events=(_reduction(1.0, 0.0, 0.0),)),
        Recording(structure=_MODEL, events=(_reduction(0.6, 0.3, 0.01),)),
        Recording(structure=_MODEL, events=(_passes(0, 19.0),)),  # one exchange only
    ),
)
def check(context: StepContext, memory: _RankDroppedState) -> Iterator[Finding]:
    """Report a rank whose gradient is missing from the reduced gradient.

    The rule fires when the reduced gradient holds the local gradients of some ranks in equal shares, and none of
    others. The shares are solved from the local gradients that the ranks exchange, so this is an identity, not an
    estimate. The model never learns from the data of such a rank, and the loss does not show it. Look at what this rank
    does before the reduction, such as `no_sync()`.

    It also fires when, in two exchanges, one rank runs fewer backward passes than forwards while all others, with as
    many forwards, use every one: a micro-batch of a pipeline is lost on its way back.
    """
    for event in context.events("rank_passes"):
        yield from _unused(context, memory, event)
    for event in context.events("rank_reduction"):
        missing = [rank for rank in dropped(event) if rank not in memory.reported]
        memory.reported.update(missing)
        weights = dict(zip(members(event), numbers(event, "weights"), strict=False))
        for rank in missing:
            yield context.finding(
                ROOT_SITE,
                "gradient/l2_norm",
                {
                    "share": weights[rank],
                    "share_of_others": max(weights.values()),
                    "ranks": number(event, "ranks"),
                    "residual": number(event, "residual"),
                },
                first_step=event.step,
                position=0,
                rank=rank,
                explanation=f"rank {rank} has no share in the applied gradient: its weight is {weights[rank]:.2g}, "
                f"that of the others {max(weights.values()):.3g}",
                advice="check what this rank does before the reduction: no_sync(), a gradient that is zeroed or "
                "detached, a process group without it, a caught exception",
            )


def _unused(context: StepContext, memory: _RankDroppedState, event: Event) -> Iterator[Finding]:
    forwards, passes = numbers(event, "forwards"), numbers(event, "passes")
    for rank in ranks(event, "ranks"):
        memory.unused[rank] += 1
        if memory.unused[rank] < _EXCHANGES or rank in memory.reported:
            continue
        memory.reported.add(rank)
        yield context.finding(
            ROOT_SITE,
            "gradient/l2_norm",
            {"forwards": forwards[rank], "backward_passes": passes[rank], "at": number(event, "at")},
            first_step=event.step,
            position=0,
            rank=rank,
            explanation=f"rank {rank} ran {passes[rank]:.0f} backward passes for {forwards[rank]:.0f} forwards up to "
            f"step {number(event, 'at'):.0f}, while every other rank used each of as many: a micro-batch has no share "
            "in its gradient",
            advice="check that the gradient of every micro-batch is received by this rank and given to backward()",
        )
