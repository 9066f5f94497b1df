"""Work and waiting of every rank, step by step: from the roll-up, from what ranks told each other, or from records."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..storage import ROOT_SITE, Event, Run, RunNotFound, StepRecord, Store
from ..storage.ranks.rank_stack import RankStack, RankStacker
from ..storage.ranks.rollup_reader import MOST_STEPS, read_rollup, rollup_metrics
from .event_fields import number, numbers
from .rank_work import RankWork, rank_work

Floats = NDArray[np.float64]
_PHASES: Final = ("data", "forward", "backward", "optimizer", "evaluation", "monitor")
#: Exchanges of times that are read, and records of all ranks together where there are none. Our choice: half a second.
_EXCHANGES: Final = 1000
_RECORDS: Final = 2048
#: What of a roll-up tells who works longest.
_NEEDED: Final = ("max_rank", "q50", "count", "non_finite")
#: The scalars that are computed from those of all ranks.
WORK: Final = "work_seconds"
WAIT: Final = "wait_seconds"


@dataclass(frozen=True, slots=True, eq=False)
class WorkHistory:
    """How long the ranks work in a step, over the steps; each array `(n,)`.

    Args:
        steps: int64, ascending.
        who: int64, the rank that works longest.
        longest_s: How long it does, in seconds.
        usual_s: The median over the other ranks; over all, where the roll-up tells.
        step_s: The length of a step.
        ranks: How many ranks there are.
    """

    steps: NDArray[np.int64]
    who: NDArray[np.int64]
    longest_s: Floats
    usual_s: Floats
    step_s: Floats
    ranks: int

    @property
    def excess_s(self) -> Floats:
        """Seconds that the longest work exceeds the usual by."""
        return self.longest_s - self.usual_s


def with_work(stack: RankStack) -> RankStack:
    """Return a step with the work and the waiting of each rank as further scalars, where its times were recorded."""
    found = _work_of(stack)
    if found is None:
        return stack
    work, has = found
    scalars = {**stack.scalars, WORK: work.own_s, WAIT: work.waits_s}
    flags = dict(stack.has_scalar) if has.all() else {**stack.has_scalar, WORK: has, WAIT: has}
    return replace(stack, scalars=scalars, has_scalar=flags)


def _work_of(stack: RankStack) -> tuple[RankWork, NDArray[np.bool_]] | None:
    """Return work and all waiting of the ranks, and which of them recorded their times."""
    everywhere = np.ones(len(stack.ranks), dtype=np.bool_)
    name = "time/backward_seconds"
    if name in stack.scalars:
        phases = {phase: stack.scalars.get(f"time/{phase}_seconds") for phase in _PHASES}
        known = {phase: np.nan_to_num(seconds) for phase, seconds in phases.items() if seconds is not None}
        communication = np.nan_to_num(stack.scalars.get("time/communication_seconds", np.zeros(len(stack.ranks))))
        work = rank_work(known, communication)
        return RankWork(work.own_s, work.waits_s + communication), stack.has_scalar.get(name, everywhere)
    waits = _recorded_waits(stack)
    if "step_seconds" not in stack.scalars or waits is None:
        return None
    own = np.maximum(stack.scalars["step_seconds"] - waits, 0.0)
    return RankWork(own, waits), stack.has_scalar.get("step_seconds", everywhere)


def _recorded_waits(stack: RankStack) -> Floats | None:
    """Return the seconds `(ranks,)` that each rank waited in recorded collectives; None without any."""
    total = None
    for layout, stacked in stack.blocks.items():
        if layout.subject == "communication" and "wait_seconds" in layout.statistics:
            waits = np.nan_to_num(stacked.values[:, layout.statistics.index("wait_seconds")].astype(np.float64))
            here: Floats = (waits if stacked.present is None else np.where(stacked.present, waits, 0.0)).sum(axis=0)
            total = here if total is None else total + here
    return total


def work_history(store: Store, run: Run) -> WorkHistory | None:
    """Return how long the ranks of a run work; None where that was not recorded, or for one rank."""
    if f"scalar/{WORK}" in rollup_metrics(store, run.id):
        return _of_rollup(store, run)
    if len(run.ranks) < 2:
        return None
    events = store.events(run.id, rank=run.first_rank, kind="rank_times", limit=_EXCHANGES)
    exchanged = [exchanged_times(event) for event in events if number(event, "at") > 0]
    steps = [stack for stack in exchanged if stack is not None] or [*map(with_work, newest_stacks(store, run))]
    return _joined([stack for stack in steps if WORK in stack.scalars], len(run.ranks))


def _of_rollup(store: Store, run: Run) -> WorkHistory:
    work = read_rollup(store, run.id, ROOT_SITE, f"scalar/{WORK}", limit=MOST_STEPS, parts=_NEEDED)
    known = np.isfinite(work.high_rank)
    step_s = np.full(len(work.steps), np.nan)
    whole = read_rollup(store, run.id, ROOT_SITE, "scalar/step_seconds", limit=MOST_STEPS, parts=_NEEDED)
    if len(whole.steps):
        step_s = whole.median[np.minimum(np.searchsorted(whole.steps, work.steps), len(whole.steps) - 1)]
    return WorkHistory(
        work.steps[known],
        work.high_rank[known].astype(np.int64),
        work.high[known],
        work.median[known],
        np.where(np.isfinite(step_s), step_s, work.median)[known],
        int(np.nan_to_num(work.count + work.non_finite).max(initial=0.0)),
    )


def slowest_of(event: Event) -> tuple[int, float, float] | None:
    """Return who works longest by an exchange of times (event `rank_times`): the rank, by how many seconds it exceeds
    the others' median, and the length of a step; None where the event does not tell."""
    stack = exchanged_times(event)
    if stack is None:
        return None
    _, rank, longest, usual, step_s = _row(stack)
    return rank, longest - usual, step_s


def exchanged_times(event: Event) -> RankStack | None:
    """Return the step of an exchange of times; None of one that does not tell the times of all ranks."""
    given = {name: np.array(numbers(event, name), dtype=np.float64) for name in (*_PHASES, "communication")}
    count = len(given["backward"])
    if count < 2 or any(len(times) not in (0, count) for times in given.values()):
        return None
    scalars = {f"time/{name}_seconds": times for name, times in given.items() if len(times)}
    phases = [np.nan_to_num(given[name]) for name in _PHASES if len(given[name])]
    scalars["step_seconds"] = np.add.reduce(phases)
    return with_work(RankStack(event.step, 0.0, np.arange(count), scalars=scalars))


def newest_stacks(
    store: Store, run: Run, *, step: int | None = None, needs_all: bool = True, most: int = _RECORDS
) -> list[RankStack]:
    """Return the newest steps that all ranks have recorded, oldest first, or the one step.

    Of many ranks fewer steps are read, so that the records stay within 2,048.

    Args:
        needs_all: Whether a step is left out that one of the ranks has not recorded.
        most: Steps that are read at most.
    """
    by_step: dict[tuple[int, int], dict[int, StepRecord]] = {}
    limit = min(max(_RECORDS // max(len(run.ranks), 1), 1), most)
    for rank in run.ranks:
        try:
            records = store.replay(run.id, rank=rank, first=step, last=step, limit=limit)
            for record in records:
                by_step.setdefault((record.step, record.micro_step), {})[rank] = record
        except RunNotFound:  # a rank that has gone meanwhile
            continue
    stacker = RankStacker()
    return [
        stacker.stack(of_step)
        for _, of_step in sorted(by_step.items())
        if len(of_step) == len(run.ranks) or not needs_all
    ]


def _joined(stacks: list[RankStack], ranks: int) -> WorkHistory | None:
    """Return the history of these steps; None without any."""
    if not stacks:
        return None
    rows = [_row(stack) for stack in stacks]
    steps, who, longest, usual, step_s = (np.array(column) for column in zip(*rows, strict=True))
    return WorkHistory(steps, who, longest, usual, step_s, ranks)


def _row(stack: RankStack) -> tuple[int, int, float, float, float]:
    """Return step, slowest rank, its work, the median of the others' and the length of the step."""
    work = stack.scalars[WORK]
    at = int(np.argmax(work))
    others = np.delete(work, at)
    lengths: Mapping[str, Floats] = {"step_seconds": work + stack.scalars[WAIT], **stack.scalars}
    usual = float(np.median(others)) if len(others) else float("nan")
    return stack.step, int(stack.ranks[at]), float(work[at]), usual, float(np.median(lengths["step_seconds"]))
