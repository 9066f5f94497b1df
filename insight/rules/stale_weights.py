"""Weights that one rank does not update, or uses after they were updated."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number, words
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule

_MODEL = chain("one:Dense", "two:Dense")


def _still(*sites: str) -> Event:
    data: dict[str, Json] = {"at": 20, "rank": 1, "sites": list(sites), "steps": 10}
    return Event("rank_still", 0, data=data)


def _used(*sites: str) -> Event:
    return Event("weights_stale", 0, data={"at": 20, "sites": list(sites), "steps_behind": 1, "steps": 2})


@dataclass(slots=True)
class _StaleWeightsState:
    """Ranks that were reported, and whether an old version in use was."""

    still: set[int]
    has_used: bool = False


@rule(
    "stale-weights",
    needs=("event/rank_still", "event/weights_stale"),
    phase=OPTIMIZER,
    memory=lambda: _StaleWeightsState(set()),
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_still("two.weight"),)),
        Recording(structure=_MODEL, events=(_used("two.weight", "two.bias"),)),
    ),
    silent_on=(Recording(structure=_MODEL, events=(_still(),)), Recording(structure=_MODEL)),
)
def check(context: StepContext, memory: _StaleWeightsState) -> Iterator[Finding]:
    """Report weights that one rank does not update, or of which it uses an old version.

    The rule fires when the weights of a shard, an expert or a replica stand still to the last bit over four steps or
    more, or from exchange to exchange twice, though their gradient is not zero and the same weights move on other
    ranks. It also fires when the forward of a rank used weights that were those of an earlier step, bit for bit, and
    not the ones that the optimizer then steps: a pipeline stage or a gathered copy that is behind. Both are facts. Look
    at what the optimizer of that rank holds, whether it steps, and when copies of weights are renewed.
    """
    for event in context.events("rank_still"):
        told, sites = number(event, "rank"), words(event, "sites")
        if sites and isfinite(told) and (rank := int(told)) not in memory.still:
            memory.still.add(rank)
            yield context.finding(
                _site(context, sites),
                "weight/l2_norm",
                {"tensors": len(sites), "steps": number(event, "steps"), "at": number(event, "at")},
                position=0,
                rank=rank,
                explanation=f"on rank {rank} {_listed(sites)} did not change in the last "
                f"{number(event, 'steps'):.0f} steps up to step {number(event, 'at'):.0f}, though the gradient is not "
                "zero and other ranks update theirs",
                advice="check that this rank's optimizer holds these parameters and steps at every step",
            )
    for event in context.events("weights_stale"):
        sites, behind = words(event, "sites"), number(event, "steps_behind")
        if sites and not memory.has_used:
            memory.has_used = True
            old = f"as they were {behind:.0f} step before" if behind == behind else "as gathered before an earlier step"
            yield context.finding(
                _site(context, sites),
                "weight/l2_norm",
                {"tensors": len(sites), "steps": number(event, "steps"), "at": number(event, "at")},
                position=0,
                explanation=f"the forward of step {number(event, 'at'):.0f} used {_listed(sites)} {old}, and the "
                "optimizer then steps newer ones",
                advice="renew the copy of the weights that the forward uses after every optimizer step (FSDP: reshard "
                "after the last backward pass), or bound how far it may fall behind and correct the gradient for it",
            )


def _listed(sites: list[str]) -> str:
    return ", ".join(sites[:3]) + (f" and {len(sites) - 3} more" if len(sites) > 3 else "")


def _site(context: StepContext, sites: list[str]) -> str:
    known = context.model.parameters
    return sites[0] if len(sites) == 1 and sites[0] in known else ROOT_SITE
