"""Ranks that draw the same dropout masks."""

from collections.abc import Iterator
from dataclasses import dataclass

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number
from ..indicators.replicas import repeated
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule
from ..running_statistics import Streak

_MODEL = chain("one:Dense", "drop:Dropout", "two:Dense")
_LASTING = 2


def _states(step: int, *by_rank: str) -> Event:
    data: dict[str, Json] = {"quantity": "random_state", "at": step, "by_rank": list(by_rank), "odd": [], "sites": []}
    return Event("rank_checksums", step, data=data | {"is_equal": len(set(by_rank)) == 1})


@dataclass(slots=True)
class _RankRngErrorState:
    """For how many exchanges ranks had the same generator state."""

    streak: Streak
    is_reported: bool = False


@rule(
    "rank-rng-error",
    needs=("event/rank_checksums",),
    phase=CONFIGURATION,
    memory=lambda: _RankRngErrorState(Streak()),
    warm_up=_LASTING,
    is_fact=True,
    is_optional=True,
    asks="intent",
    fires_on=(Recording(structure=_MODEL, events=(_states(0, "a", "a"), _states(1, "b", "b")), steps=2),),
    silent_on=(
        Recording(structure=_MODEL, events=(_states(0, "a", "b"), _states(1, "c", "d")), steps=2),
        # nothing draws from it
        Recording(
            structure=chain("one:Dense", "two:Dense"), events=(_states(0, "a", "a"), _states(1, "b", "b")), steps=2
        ),
    ),
)
def check(context: StepContext, memory: _RankRngErrorState) -> Iterator[Finding]:
    """Report ranks that draw the same random numbers in a model with dropout.

    The rule fires when, in two exchanges in a row, ranks begin the forward with the same generator state. Their dropout
    masks are then equal at every step, so the average over ranks does not average over masks. A common seed for the
    initialisation must be replaced by one seed per rank before the first step. Ranks that hold parts of one replica may
    draw the same masks on purpose, and are not compared.
    """
    for event in context.events("rank_checksums"):
        if event.data.get("quantity") != "random_state" or memory.is_reported:
            continue
        groups = list(repeated(event))
        drops = sorted(site for site in context.model.modules if "drop" in context.model.kind(site))
        if memory.streak.update(bool(groups) and bool(drops), event.step) < _LASTING:
            continue
        memory.is_reported = True
        yield context.finding(
            ROOT_SITE,
            "",
            {"ranks": max(map(len, groups)), "modules_that_draw": len(drops), "at": number(event, "at")},
            severity="warning",
            first_step=memory.streak.since,
            position=0,
            explanation=f"ranks {', '.join(map(str, groups[0]))} begin every forward with the same state of the "
            f"random generator, and {', '.join(drops[:3])}{' and other modules' if len(drops) > 3 else ''} draw from "
            "it; their dropout masks are equal",
            advice="seed each rank with its own number after the model is made and broadcast, such as "
            "torch.manual_seed(seed + rank); in tensor parallelism only where the masks shall differ",
        )
