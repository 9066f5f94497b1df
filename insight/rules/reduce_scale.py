"""A sum over ranks where a mean belongs, or the reverse."""

from collections.abc import Iterator
from dataclasses import dataclass

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number
from ..indicators.replicas import common_scale, dropped, is_part, is_unreduced
from ..recording import Recording, chain
from ..rule import BACKWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
#: Tolerance of the factor: it comes from a fit with a misfit below 5 %, and wrong factors are whole numbers or their
#: reciprocals.
_TOLERANCE = 0.1


def _reduction(*weights: float, **more: Json) -> Event:
    data: dict[str, Json] = {"at": 0, "weights": list(weights), "residual": 1e-6, "ranks": len(weights), "sites": []}
    return Event("rank_reduction", 0, data=data | more)


@dataclass(slots=True)
class _ReduceScaleState:
    """Whether the rule has reported."""

    is_reported: bool = False


@rule(
    "reduce-scale",
    needs=("event/rank_reduction",),
    phase=BACKWARD,
    memory=_ReduceScaleState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_reduction(1.0, 1.0, 1.0),)),
        Recording(structure=_MODEL, events=(_reduction(0.25, 0.25),)),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_reduction(0.5, 0.5),)),
        # a rank has no share: another rule's case
        Recording(structure=_MODEL, events=(_reduction(0.5, 0.5, 0.0),)),
        Recording(structure=_MODEL, events=(_reduction(0.4, 0.3, 0.3),)),
        # a rank that applies its own gradient alone
        Recording(structure=_MODEL, events=(_reduction(1.0, 0.0),)),
        # parts of one batch
        Recording(structure=_MODEL, events=(_reduction(1.0, 1.0, same_batch=True, same_local=False),)),
    ),
)
def check(context: StepContext, memory: _ReduceScaleState) -> Iterator[Finding]:
    """Report a reduced gradient that is a sum where a mean belongs, or the reverse.

    Each rank's loss is a mean over its own batch, so the gradient of the whole batch is the mean of the local ones. A
    sum is too large by the number of ranks; a mean of gradients that were divided already is too small by it. The
    shares are solved from the local gradients that the ranks exchange. Ranks that read one batch and find different
    gradients compute parts of one, as in sequence parallelism, where the sum is right too. Divide by the
    number of ranks exactly once.
    """
    for event in context.events("rank_reduction"):
        scale = common_scale(event)
        if memory.is_reported or scale != scale or abs(scale - 1) < _TOLERANCE:
            continue
        if dropped(event) or is_unreduced(event):
            continue
        count = number(event, "ranks")
        if is_part(event) and abs(scale - count) < _TOLERANCE * count:
            continue
        memory.is_reported = True
        yield context.finding(
            ROOT_SITE,
            "gradient/l2_norm",
            {"scale": scale, "ranks": count, "residual": number(event, "residual")},
            first_step=event.step,
            position=0,
            explanation=f"the applied gradient is {scale:.3g} times the mean over the {count:.0f} ranks"
            + (": it is their sum" if abs(scale - count) < _TOLERANCE * count else ""),
            advice="divide by the number of ranks exactly once: use ReduceOp.AVG, or divide after ReduceOp.SUM, and "
            "do not divide if DistributedDataParallel does; if the sum is meant, lower the rate by that factor",
        )
