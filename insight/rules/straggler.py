"""A rank that keeps the others waiting."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number
from ..rank_times import slowest_of
from ..rank_work import excess_words, is_straggling
from ..recording import Recording, chain
from ..rule import BACKWARD, rule
from ..running_statistics import Streak

_MODEL = chain("one:Dense", "two:Dense")
_LASTING, _SPAN = 3, 6


def _times(step: int, forward: tuple[float, ...], communication: tuple[float, ...] = ()) -> Event:
    others: list[Json] = [0.01] * len(forward)
    data: dict[str, Json] = {"at": step, "data": others, "forward": list(forward), "backward": others}
    waits: list[Json] = list(communication) or [0.0] * len(forward)
    return Event("rank_times", step, data=data | {"optimizer": others, "communication": waits})


@dataclass(slots=True)
class _StragglerState:
    """The slowest rank, and for how many exchanges in a row it was the slowest."""

    slowest: int = -1
    streak: Streak = field(default_factory=Streak)
    is_reported: bool = False


@rule(
    "straggler",
    needs=("event/rank_times",),
    phase=BACKWARD,
    memory=_StragglerState,
    warm_up=_LASTING + 1,
    is_optional=True,
    fires_on=(
        Recording(
            structure=_MODEL,
            events=tuple(_times(step, (0.01, 0.01, 0.05)) for step in range(0, 50, 10)),
            steps=50,
        ),
    ),
    silent_on=(
        Recording(
            structure=_MODEL, events=tuple(_times(step, (0.01, 0.011, 0.012)) for step in range(0, 50, 10)), steps=50
        ),
        # another one each time
        Recording(
            structure=_MODEL,
            events=tuple(
                _times(step, tuple(0.05 if rank == (step // 10) % 3 else 0.01 for rank in range(3)))
                for step in range(0, 50, 10)
            ),
            steps=50,
        ),
        # slow in the first exchange only, while it compiles
        Recording(
            structure=_MODEL,
            events=(_times(0, (0.01, 0.5)), *(_times(step, (0.01, 0.01)) for step in range(10, 50, 10))),
            steps=50,
        ),
    ),
)
def check(context: StepContext, memory: _StragglerState) -> Iterator[Finding]:
    """Report a rank that is slower than the others.

    The rule fires when, in three exchanges in a row, one rank takes longer than the median of the others by 30 % of
    their step. It counts a rank's own work: the step without its collectives, and without the waiting in phases that
    end on all ranks together although they began apart, as a backward pass does that reduces on its way. The first
    exchange is left out. Look at this rank's host and its share of the data.
    """
    for event in context.events("rank_times"):
        slowest = slowest_of(event)
        if number(event, "at") <= 0 or memory.is_reported or slowest is None:
            continue
        rank, excess_s, step_s = slowest
        is_slow = bool(is_straggling(np.array(excess_s), np.array(step_s)))
        if rank != memory.slowest:
            memory.slowest, memory.streak = rank, Streak()
        if memory.streak.update(is_slow, event.step) >= _LASTING and event.step - memory.streak.since >= _SPAN:
            memory.is_reported = True
            yield _report(context, memory, rank, excess_s, step_s)


def _report(context: StepContext, memory: _StragglerState, rank: int, excess_s: float, step_s: float) -> Finding:
    return context.finding(
        ROOT_SITE,
        "",
        {"excess_s": excess_s, "step_s": step_s, "share": excess_s / step_s, "exchanges": memory.streak.length},
        severity="warning",
        first_step=memory.streak.since,
        position=0,
        rank=rank,
        explanation=f"rank {rank} {excess_words(excess_s, step_s)}, and they wait for it in every collective",
        advice="check this rank's host for other processes and for a slower or throttled device; check its share of "
        "the data (longer sequences, a slow disk), and work that only it does, such as logging or evaluation",
        confidence=0.8,
    )
