"""Replicas that differ: never broadcast, or not reduced."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number, numbers, ranks, words
from ..indicators.replicas import alone, is_corrupted, is_unreduced, wrote
from ..recording import Recording, chain
from ..rule import BACKWARD, rule

_MODEL = chain("one:Dense", "two:Dense", "three:Dense", "four:Dense")
_ALL = ["one.weight", "two.weight", "three.weight", "four.weight"]


def _checksums(quantity: str, *by_rank: str, odd: tuple[int, ...] = (), sites: tuple[str, ...] = ()) -> Event:
    data: dict[str, Json] = {
        "quantity": quantity,
        "at": 0,
        "by_rank": list(by_rank),
        "is_equal": len(set(by_rank)) == 1,
        "odd": list(odd),
        "sites": list(sites),
    }
    return Event("rank_checksums", 0, data=data)


def _reduction(*weights: float) -> Event:
    data: dict[str, Json] = {"at": 0, "weights": list(weights), "residual": 1e-6, "ranks": len(weights), "sites": []}
    return Event("rank_reduction", 0, data=data)


@dataclass(slots=True)
class _RankDesyncState:
    """The quantities that were reported, when each was equal last, and ranks that apply their own gradient alone."""

    reported: set[str] = field(default_factory=set)
    alone: set[int] = field(default_factory=set)
    equal_at: dict[str, int] = field(default_factory=dict)


@rule(
    "rank-desync",
    needs=("event/rank_checksums", "event/rank_reduction"),
    phase=BACKWARD,
    memory=_RankDesyncState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(
            structure=_MODEL, events=(_checksums("parameters", "a", "a", "b", odd=(2,), sites=tuple(_ALL)),), steps=1
        ),
        Recording(structure=_MODEL, events=(_checksums("gradients", "a", "b", sites=tuple(_ALL)),)),
        Recording(structure=_MODEL, events=(_reduction(1.0, 0.0, 0.0),)),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_checksums("parameters", "a", "a", "a"),)),
        Recording(structure=_MODEL, events=(_checksums("local_gradients", "a", "b", "c"),)),
        Recording(structure=_MODEL, events=(_reduction(1 / 3, 1 / 3, 1 / 3),)),
        # one tensor on one rank: wrong bits
        Recording(structure=_MODEL, events=(_checksums("parameters", "a", "a", "b", odd=(2,), sites=("one.weight",)),)),
    ),
)
def check(context: StepContext, memory: _RankDesyncState) -> Iterator[Finding]:
    """Report parameters, or reduced gradients, that differ between ranks.

    Replicas that start equal and apply equal gradients stay equal to the last bit. So the first exchange in which their
    checksums differ is a fact, and nothing is estimated. The finding names the rank that differs from the majority; of
    two ranks it names both, and puts the fault on the one that shows it in its own records: something other than a step
    wrote to its weights, or it applies its own gradient alone. The rule also fires when a reduced
    gradient is rank 0's own: it was not reduced at all. Broadcast the parameters before the first step, and make every
    rank take part in every reduction.
    """
    for event in context.events("rank_reduction"):
        memory.alone.update(alone(event))
    for event in context.events("rank_checksums"):
        quantity = str(event.data.get("quantity"))
        if event.data.get("is_equal") is True:
            memory.equal_at[quantity] = event.step
        differs = quantity in ("parameters", "gradients") and event.data.get("is_equal") is False
        if differs and quantity not in memory.reported and not is_corrupted(event, len(context.model.parameters)):
            memory.reported.add(quantity)
            since = memory.equal_at.get(quantity, event.step - 1) + 1
            yield _differ(context, event, quantity, since, sorted(memory.alone))
    for event in context.events("rank_reduction"):
        if is_unreduced(event) and "gradients" not in memory.reported:
            memory.reported.add("gradients")
            yield _unreduced(context, event)


def _differ(context: StepContext, event: Event, quantity: str, since: int, lonely: list[int]) -> Finding:
    odd, sites, by_rank = ranks(event, "odd"), words(event, "sites"), words(event, "by_rank")
    written = wrote(event) if quantity == "parameters" else []
    at = number(event, "at")
    difference = _difference(odd, written, lonely, by_rank)
    blamed = odd or written or lonely
    first = (
        "the ranks differed before the first step: they were never made equal"
        if at == 0 and quantity == "parameters"
        else ""
    )
    return context.finding(
        _part(context, sites),
        "weight/l2_norm" if quantity == "parameters" else "gradient/l2_norm",
        {"ranks": len(by_rank), "different_values": len(set(by_rank)), "sites": len(sites), "at": at},
        first_step=since,
        position=0,
        rank=blamed[0] if blamed else None,
        explanation=f"the {quantity} differ between ranks at step {at:.0f}: {difference}"
        + (f", first at {sites[0]}" if sites else "")
        + (f"; {first}" if first else ""),
        advice="broadcast the parameters from one rank before the first step, wrap the model before it is used, and "
        "make every rank take part in every reduction: no_sync, an early continue or an unused branch leaves one out",
    )


def _difference(odd: list[int], written: list[int], lonely: list[int], by_rank: list[str]) -> str:
    """Return which ranks differ, by majority, else all of them, and what a rank was seen to do."""
    if odd:
        return f"rank {_listed(odd)} differs"
    is_pair = len(by_rank) == 2
    values = "ranks 0 and 1 differ from each other" if is_pair else f"{len(set(by_rank))} different values on the ranks"
    if written:
        return f"{values}, and something that is no optimizer step wrote to the weights of rank {_listed(written)}"
    if lonely:
        return f"{values}, and rank {_listed(lonely)} applies its own gradient alone"
    return f"{values}, and nothing tells which of them is right" if is_pair else values


def _listed(several: list[int]) -> str:
    return ", ".join(map(str, several))


def _part(context: StepContext, sites: list[str]) -> str:
    """Return the one module that all sites belong to; the model if there are several."""
    known = context.model.parameters
    gathered = context.model.gather(tuple(known[site] for site in sites if site in known))
    return next(iter(gathered)) if len(gathered) == 1 and len(sites) < len(known) else ROOT_SITE


def _unreduced(context: StepContext, event: Event) -> Finding:
    weights = numbers(event, "weights")
    return context.finding(
        ROOT_SITE,
        "gradient/l2_norm",
        {"own_weight": weights[0], "largest_other_weight": max(weights[1:]), "residual": number(event, "residual")},
        first_step=event.step,
        position=0,
        explanation=f"rank 0 applies its own gradient only: the other {len(weights) - 1} ranks have no share in it, "
        "so each replica trains alone",
        advice="wrap the model in DistributedDataParallel, or reduce the gradients yourself before "
        "optimizer.step(); look for no_sync() around the last micro-batch",
    )
