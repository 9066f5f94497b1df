"""Replicas that differ: never broadcast, or not reduced."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number, numbers, ranks, words
from ..indicators.replicas import alone, is_corrupted, is_part, is_unreduced, members, misfits, skipped, wrote
from ..recording import Recording, chain
from ..rule import BACKWARD, rule

_MODEL = chain("one:Dense", "two:Dense", "three:Dense", "four:Dense")
_QUANTITIES = ("parameters", "buffers", "gradients")
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
    """The quantities that were reported, when each was equal last, and ranks that were seen to do something else."""

    reported: set[str] = field(default_factory=set)
    alone: set[int] = field(default_factory=set)
    misfit: set[int] = field(default_factory=set)
    still: set[int] = field(default_factory=set)
    equal_at: dict[str, int] = field(default_factory=dict)


@rule(
    "rank-desync",
    needs=("event/rank_checksums", "event/rank_reduction", "event/rank_still"),
    phase=BACKWARD,
    memory=_RankDesyncState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(
            structure=_MODEL, events=(_checksums("parameters", "a", "a", "b", odd=(2,), sites=tuple(_ALL)),), steps=1
        ),
        Recording(structure=_MODEL, events=(_checksums("gradients", "a", "b", sites=tuple(_ALL)),)),
        Recording(structure=_MODEL, events=(_checksums("buffers", "a", "b", sites=("one.running",)),)),
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
    """Report parameters, reduced gradients or buffers that differ between ranks that hold copies of them.

    Replicas that start equal and apply equal gradients stay equal to the last bit. So the first exchange in which their
    checksums differ is a fact, and nothing is estimated. Which ranks hold copies of what is learned from wrappers and
    placements, and from what was equal or reduced together before; shards, experts and stages are compared with their
    own replicas only. The finding names the rank that differs from the majority; of two ranks it names both, and puts
    the fault on the one that shows it in its own records: something other than a step wrote to its weights, it applies
    its own gradient alone or one that does not follow from the local ones, its weights stand still, or it has made more
    forwards for as many steps. The rule also fires when a reduced gradient is one rank's own: it was not reduced at
    all. Broadcast the parameters before the first step, and make every rank take part in every reduction.
    """
    for event in context.events("rank_reduction"):
        memory.alone.update(alone(event))
        memory.misfit.update(misfits(event))
    still = (number(event, "rank") for event in context.events("rank_still"))
    memory.still.update(int(rank) for rank in still if isfinite(rank))
    found = [event for event in context.events("rank_checksums") if event.data.get("quantity") in _QUANTITIES]
    for event in sorted(found, key=lambda event: event.data.get("is_equal") is True):
        yield from _compared(context, memory, event)
    for event in context.events("rank_reduction"):
        if is_unreduced(event) and not memory.reported & {"gradients", "parameters"}:
            memory.reported.add("gradients")
            yield _unreduced(context, event)


def _compared(context: StepContext, memory: _RankDesyncState, event: Event) -> Iterator[Finding]:
    quantity = str(event.data.get("quantity"))
    if event.data.get("is_equal") is True:
        memory.equal_at[quantity] = event.step
        return
    if quantity in memory.reported or (quantity == "gradients" and "parameters" in memory.reported):
        return
    if quantity == "parameters" and is_corrupted(event, len(context.model.parameters)):
        memory.reported |= {"gradients"}  # which differ where the weights do
        return
    memory.reported.add(quantity)
    yield _differ(context, event, quantity, memory)


def _differ(context: StepContext, event: Event, quantity: str, memory: _RankDesyncState) -> Finding:
    sites, by_rank = words(event, "sites"), words(event, "by_rank")
    blamed, evidence = _blamed(event, quantity, memory)
    at, since = number(event, "at"), memory.equal_at.get(quantity, event.step - 1) + 1
    causes = [
        "the ranks differed before the first step: they were never made equal"
        if at == 0 and quantity == "parameters"
        else "",
        "their optimizers have different settings" if event.data.get("same_settings") is False else "",
        "these ranks have read the same batch: in tensor or sequence parallelism a sum over them is missing"
        if event.data.get("same_batch") is True and quantity == "gradients"
        else "",
    ]
    return context.finding(
        _part(context, sites),
        "gradient/l2_norm" if quantity == "gradients" else "weight/l2_norm",
        {"ranks": len(by_rank), "different_values": len(set(by_rank)), "sites": len(sites), "at": at},
        first_step=since,
        position=0,
        rank=blamed[0] if blamed else None,
        explanation=f"the {quantity} differ between ranks at step {at:.0f}: {evidence}"
        + (f", first at {sites[0]}" if sites else "")
        + "".join(f"; {cause}" for cause in causes if cause),
        advice="broadcast the parameters from one rank before the first step, wrap the model before it is used, and "
        "make every rank take part in every reduction: no_sync, an early continue or an unused branch leaves one out",
    )


def _blamed(event: Event, quantity: str, memory: _RankDesyncState) -> tuple[list[int], str]:
    """Return the ranks that are at fault, by majority and by what they were seen to do, and the words for it."""
    compared = [rank for rank, value in enumerate(_values(event)) if value is not None]
    odd = ranks(event, "odd")
    if len(odd) == 1:
        return odd, f"rank {_listed(odd)} differs"
    is_pair = len(compared) == 2
    several = len({value for value in _values(event) if value is not None})
    values = f"ranks {compared[0]} and {compared[1]} differ from each other" if is_pair else ""
    values = values or (f"ranks {_listed(odd)} differ" if odd else f"{several} different values on the ranks")
    seen = (
        (
            wrote(event) if quantity == "parameters" else [],
            "something that is no optimizer step wrote to the weights of rank {}",
        ),
        (sorted(memory.alone), "rank {} applies its own gradient alone"),
        (sorted(memory.misfit), "the gradient of rank {} does not follow from the local gradients"),
        (sorted(memory.still), "the weights of rank {} stand still in spite of their gradients"),
        (skipped(event), "rank {} has made more forwards for as many steps: it has skipped one"),
    )
    for found, words_for_it in seen:
        here = [rank for rank in found if rank in (odd or compared)]
        if here and len(here) < len(odd or compared):
            return here, f"{values}, and {words_for_it.format(_listed(here))}"
    return odd, f"{values}, and nothing tells which of them is right" if is_pair else values


def _values(event: Event) -> list[Json]:
    values = event.data.get("by_rank")
    return list(values) if isinstance(values, list | tuple) else []


def _listed(several: list[int]) -> str:
    return ", ".join(map(str, several))


def _part(context: StepContext, sites: list[str]) -> str:
    """Return the one module that all sites belong to; the model if there are several."""
    known = context.model.parameters
    gathered = context.model.gather(tuple(known[site] for site in sites if site in known))
    return next(iter(gathered)) if len(gathered) == 1 and len(sites) < len(known) else ROOT_SITE


def _unreduced(context: StepContext, event: Event) -> Finding:
    weights, first = numbers(event, "weights"), members(event)[0]
    return context.finding(
        ROOT_SITE,
        "gradient/l2_norm",
        {"own_weight": weights[0], "largest_other_weight": max(weights[1:]), "residual": number(event, "residual")},
        first_step=event.step,
        position=0,
        explanation=f"rank {first} applies its own gradient only: the other {len(weights) - 1} ranks have no share in "
        "it, so each replica trains alone"
        + ("; they read the same batch: a sum over them is missing" if is_part(event) else ""),
        advice="wrap the model in DistributedDataParallel, or reduce the gradients yourself before "
        "optimizer.step(); look for no_sync() around the last micro-batch",
    )
