"""The profile of a run: its steps, operators, memory, collectives and ranks, and what to do about them."""

from dataclasses import dataclass

from ...storage import Run, Store
from .advice import Advice, advise
from .communication import Collective, RankTime, collectives, rank_times
from .memory import MemoryUse, memory_use
from .operators import Operator, Profiled, operator_table, profiled_steps
from .split import StepSplit, step_split

__all__ = ["Profile", "profile"]


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a run's time and memory go.

    Args:
        splits: The typical step, a rank.
        ranks: The ranks side by side, the slowest first; empty with one rank.
        collectives: What they cost, of all ranks.
        operators: Of the lowest rank that has looked at steps from inside; empty where none has.
        profiled: These steps.
        memory: A rank.
        advice: The largest gain first.
        missing: What the run has not recorded, and what would record it: parts of the profile that are empty for that.
    """

    run: str
    splits: tuple[StepSplit, ...]
    ranks: tuple[RankTime, ...]
    collectives: tuple[Collective, ...]
    operators: tuple[Operator, ...]
    profiled: tuple[Profiled, ...]
    memory: tuple[MemoryUse, ...]
    advice: tuple[Advice, ...]
    missing: tuple[str, ...]


def profile(store: Store, run: Run, *, first: int | None = None, last: int | None = None) -> Profile:
    """The profile of all ranks of the run.

    Args:
        first, last: The steps that are looked at, both included; all by default.
    """
    splits = tuple(step_split(store, run.id, rank=rank, first=first, last=last) for rank in run.ranks)
    costs = tuple(cost for rank in run.ranks for cost in collectives(store, run.id, rank=rank, first=first, last=last))
    ranks = rank_times(splits, costs) if len(splits) > 1 else ()
    looked = {rank: profiled_steps(store, run.id, rank=rank, first=first, last=last) for rank in run.ranks}
    inside = next((rank for rank in run.ranks if looked[rank]), None)
    operators = () if inside is None else operator_table(store, run.id, rank=inside, first=first, last=last)
    memory = tuple(
        memory_use(store, run.id, rank=rank, profiled=looked[rank], first=first, last=last) for rank in run.ranks
    )
    return Profile(
        run.id,
        splits,
        ranks,
        costs,
        operators,
        () if inside is None else looked[inside],
        memory,
        advise(splits, ranks, operators),
        tuple(_missing(splits, operators, memory)),
    )


def _missing(
    splits: tuple[StepSplit, ...], operators: tuple[Operator, ...], memory: tuple[MemoryUse, ...]
) -> list[str]:
    told = []
    if not any(split.steps for split in splits):
        told.append("no step was timed: the subject `step_seconds` is off, or the run has no steps")
    if not any(split.phases for split in splits):
        told.append("no split of the step: the subject `time` is off, or the run is shorter than its cadence")
    if not operators:
        told.append("no operators: configure `subjects: {operator: {first: 3}}`")
    if not any(use.steps for use in memory):
        told.append("no memory: the subject `memory` is off")
    return told
