"""Something is clearly wrong, and no other rule knows the cause."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..indicators.policy_training import SelfMadeData
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Streak, Window

_MODEL = chain("one:Dense", "two:Dense")
#: Records in a row with a loss above the first; no spike lasts as long (our choice).
_LOST, _DEAD = 20, 10
_FALL = tuple(2.0 * 0.95**step for step in range(30))


@dataclass(slots=True)
class _UnknownState:
    """The first losses, the lowest loss, and for how long the progress is lost."""

    first: Window = field(default_factory=lambda: Window(5))
    newest: Window = field(default_factory=lambda: Window(5))
    best: float = float("inf")
    lost: Streak = field(default_factory=Streak)
    dead: Streak = field(default_factory=Streak)
    self_made: SelfMadeData = field(default_factory=SelfMadeData)
    reported: set[str] = field(default_factory=set)


@rule(
    "unknown",
    needs=("scalar/loss",),
    phase=OPTIMIZER,
    memory=_UnknownState,
    warm_up=_LOST,
    asks="reference",
    fires_on=(
        Recording({"scalar/loss": (*_FALL, *(2.6,) * 22)}, _MODEL),
        Recording({"scalar/loss": (2.3,) * 12, "one.weight gradient/l2_norm": (0.0,) * 12}, _MODEL),
    ),
    silent_on=(
        Recording({"scalar/loss": _FALL}, _MODEL),
        Recording({"scalar/loss": (*_FALL, *(2.6,) * 8, *(0.5,) * 22)}, _MODEL),
        Recording({"scalar/loss": tuple(2.3 + 0.1 * (-1) ** step for step in range(60))}, _MODEL),
        Recording({"scalar/loss": (*_FALL, *(2.6,) * 22), "scalar/reward/mean": 0.5}, _MODEL),
        Recording(
            {"scalar/loss": (*_FALL, *(2.6,) * 22), " batch/size": 640.0, " batch/eval/size": (None, 10.0) * 26}, _MODEL
        ),
    ),
)
def check(context: StepContext, memory: _UnknownState) -> Iterator[Finding]:
    """Report a run that is clearly broken although no other rule knows why.

    The rule fires when the loss had fallen by a tenth and has been above its first value for 20 records, or when every
    gradient is zero. It says that something is wrong, not what; a finding of any other rule explains it. The diagnosis
    lists what was ruled out: the rules that ran and found nothing. Models that learn from their own acts are left out,
    since their loss has no first value to fall back to. Compare the run with one that went well.
    """
    memory.self_made.learn(context)
    loss = context.scalar("loss")
    if loss is not None and np.isfinite(loss) and not context.has_a_surrogate_loss:
        yield from _lost(context, memory, loss)
    yield from _dead(context, memory)


def _lost(context: StepContext, memory: _UnknownState, loss: float) -> Iterator[Finding]:
    if len(memory.first) < 5:
        memory.first.add(loss)
    memory.newest.add(loss)
    first = memory.first.median()
    memory.best = min(memory.best, memory.newest.median())
    is_lost = memory.best < first - 0.1 * abs(first) and loss > first + 0.02 * abs(first)
    if memory.lost.update(is_lost, context.step) < _LOST or "lost" in memory.reported or memory.self_made.is_self_made:
        return
    memory.reported.add("lost")
    yield context.finding(
        ROOT_SITE,
        "scalar/loss",
        {"loss": loss, "first_loss": first, "best_loss": memory.best, "records": memory.lost.length},
        severity="warning",
        first_step=memory.lost.since,
        position=0,
        explanation=f"the loss was {memory.best:.4g} at its best and has been above its first value, {first:.4g}, "
        f"for {memory.lost.length} records; all progress is lost",
        advice="go back to a checkpoint from before this step and run it again with every subject recorded; compare "
        "it with a run that went well (mindscope compare)",
        confidence=0.5,
    )


def _dead(context: StepContext, memory: _UnknownState) -> Iterator[Finding]:
    table = context.table("gradient")
    if table is None or context.record.skipped:
        return
    norms = table.there("l2_norm")
    is_dead = len(norms) > 0 and not np.count_nonzero(norms)
    if memory.dead.update(is_dead, context.step) < _DEAD or "dead" in memory.reported:
        return
    memory.reported.add("dead")
    yield context.finding(
        ROOT_SITE,
        "gradient/l2_norm",
        {"l2_norm": 0.0, "parameters": len(norms), "records": memory.dead.length},
        severity="warning",
        first_step=memory.dead.since,
        position=0,
        explanation=f"the gradients of all {len(norms)} parameters have been exactly zero for {memory.dead.length} "
        "records; the loss depends on none of them any more",
        advice="look for a loss that is clamped or constant, an output that is rounded or chosen by argmax, a mask "
        "that leaves nothing, and dead or saturated activations",
        confidence=0.5,
    )
