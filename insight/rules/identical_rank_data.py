"""Ranks that read the same batch."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number, words
from ..indicators.replicas import repeated
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
#: Exchanges in a row in which two ranks have the same batch; a single one may be the padded last batch of an epoch.
_LASTING = 2


def _batches(step: int, *by_rank: str, **more: Json) -> Event:
    data: dict[str, Json] = {"quantity": "batch", "at": step, "by_rank": list(by_rank), "odd": [], "sites": []}
    return Event("rank_checksums", step, data=data | {"is_equal": len(set(by_rank)) == 1} | more)


@dataclass(slots=True)
class _IdenticalRankDataState:
    """How often in a row each pair of ranks had the same batch, and since when."""

    pairs: dict[tuple[int, int], int] = field(default_factory=dict)
    since: int = 0
    is_reported: bool = False


@rule(
    "identical-rank-data",
    needs=("event/rank_checksums",),
    phase=FORWARD,
    memory=_IdenticalRankDataState,
    warm_up=_LASTING,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_batches(0, "a", "a"), _batches(1, "b", "b")), steps=2),
        Recording(structure=_MODEL, events=(_batches(0, "a", "c", "c"), _batches(1, "b", "d", "d")), steps=2),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_batches(0, "a", "b"), _batches(1, "b", "c")), steps=2),
        Recording(structure=_MODEL, events=(_batches(0, "a", "a"), _batches(1, "b", "c")), steps=2),
        # halves of a replica, and halves of a sequence
        Recording(structure=_MODEL, events=(_batches(0, "a", "a", parts=[0, 1]), _batches(1, "b", "b", parts=[0, 1]))),
        Recording(
            structure=_MODEL, events=(_batches(0, "a", "a", same_local=False), _batches(1, "b", "b", same_local=False))
        ),
    ),
)
def check(context: StepContext, memory: _IdenticalRankDataState) -> Iterator[Finding]:
    """Report ranks that train on the same batch.

    The rule fires when two or more ranks were given the same batch, value for value, in two exchanges in a row. They
    compute the same gradient, so the run trains on fewer samples than it seems. The rule compares checksums of the
    model's input. Ranks that share one replica, as in tensor, sequence or pipeline parallelism, read the same batch on
    purpose: they hold other parts of the model, or find other gradients without random numbers, and are left out. Give
    each rank its own share of the data, for example with DistributedSampler.
    """
    for event in context.events("rank_checksums"):
        if event.data.get("quantity") != "batch" or memory.is_reported:
            continue
        groups = [] if event.data.get("same_local") is False else list(repeated(event))
        pairs = {pair for group in groups for pair in combinations(group, 2)}
        memory.since = event.step if not memory.pairs else memory.since
        memory.pairs = {pair: memory.pairs.get(pair, 0) + 1 for pair in pairs}
        if any(count >= _LASTING for count in memory.pairs.values()):
            memory.is_reported = True
            yield _report(context, event, memory, groups)


def _report(context: StepContext, event: Event, memory: _IdenticalRankDataState, groups: list[list[int]]) -> Finding:
    every = len(groups) == 1 and len(groups[0]) == len(words(event, "by_rank"))
    which_ranks = "all ranks" if every else "ranks " + "; ".join(", ".join(map(str, group)) for group in groups)
    return context.finding(
        ROOT_SITE,
        "scalar/batch/checksum",
        {"ranks": max(map(len, groups)), "exchanges": max(memory.pairs.values()), "at": number(event, "at")},
        first_step=memory.since,
        position=0,
        rank=None if every else groups[0][1],
        explanation=f"{which_ranks} have read the same batch, value for value, since step {memory.since}; they "
        "compute the same gradient, and the run trains on less data than it seems",
        advice="give each rank its own share: DistributedSampler with the rank's number and set_epoch(), or a seed "
        "of the data order that depends on the rank",
    )
