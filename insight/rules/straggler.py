"""A rank that keeps the others waiting."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number, numbers
from ..rank_work import rank_work
from ..recording import Recording, chain
from ..rule import BACKWARD, rule
from ..running_statistics import Floats, Streak

_MODEL = chain("one:Dense", "two:Dense")
#: Share of the others' step, and seconds. Clocks and schedulers cause less (our choice: two processes that share a
#: core differ by 20 % between exchanges); steps of a millisecond are left out.
_SHARE, _LEAST_S = 0.3, 0.002
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
        if number(event, "at") <= 0 or memory.is_reported:
            continue
        rank, excess_s, step_s = _slowest(event)
        is_slow = excess_s > max(_SHARE * step_s, _LEAST_S)
        if rank != memory.slowest:
            memory.slowest, memory.streak = rank, Streak()
        if memory.streak.update(is_slow, event.step) >= _LASTING and event.step - memory.streak.since >= _SPAN:
            memory.is_reported = True
            yield _report(context, memory, rank, excess_s, step_s)


def _slowest(event: Event) -> tuple[int, float, float]:
    """Return the slowest rank, by how many seconds it exceeds the others' median, and the length of a step."""
    parts = {
        name: np.nan_to_num(np.array(numbers(event, name), dtype=np.float64))
        for name in ("data", "forward", "backward", "optimizer", "communication")
    }
    count = len(parts["forward"])
    if count < 2 or any(len(times) not in (0, count) for times in parts.values()):
        return -1, 0.0, 0.0
    zero = np.zeros(count)
    full = {name: times if len(times) else zero for name, times in parts.items()}
    communication = full.pop("communication")
    step = full["data"] + full["forward"] + full["backward"] + full["optimizer"]
    rank, excess_s = _ahead(rank_work(full, communication).own_s)
    return rank, excess_s, float(np.median(step))


def _ahead(times: Floats) -> tuple[int, float]:
    rank = int(np.argmax(times))
    return rank, float(times[rank] - np.median(np.delete(times, rank)))


def _report(context: StepContext, memory: _StragglerState, rank: int, excess_s: float, step_s: float) -> Finding:
    return context.finding(
        ROOT_SITE,
        "",
        {"excess_s": excess_s, "step_s": step_s, "share": excess_s / step_s, "exchanges": memory.streak.length},
        severity="warning",
        first_step=memory.streak.since,
        position=0,
        rank=rank,
        explanation=f"rank {rank} needs {excess_s * 1e3:.3g} ms a step more than the others for its own work "
        f"({excess_s / step_s:.0%} of a step), and they wait for it in every collective",
        advice="check this rank's host for other processes and for a slower or throttled device; check its share of "
        "the data (longer sequences, a slow disk), and work that only it does, such as logging or evaluation",
        confidence=0.8,
    )
