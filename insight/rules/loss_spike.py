"""A sudden rise of the loss."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import isfinite, isnan

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..indicators.loss_anchor import LossAnchor
from ..recording import Recording
from ..rule import LOSS, rule
from ..running_statistics import Window

_WARM_UP = 20
_WINDOW = 32
#: Records in a row that make a rise a notice, and records that make it a warning: most spikes are over within ten
#: (our choice). A loss has come back once three in a row have lost three quarters of the rise.
_LASTING, _STAYS = 3, 12
_BACK, _LEFT = 3, 0.25
_LOOK_AT_CHANGE = "at the first values of the changed modules, and whether the optimizer steps their parameters"
_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
_CALM = tuple(2.0 - 0.03 * step + 0.02 * (-1) ** step for step in range(40))


@dataclass(slots=True)
class _LossSpikeState:
    """The history of the loss; losses of a spike are not added."""

    history: Window = field(default_factory=lambda: Window(_WINDOW))
    first: float = float("nan")
    streak: int = 0
    since: int = 0
    rose_to: float = float("nan")
    usual: float = float("nan")
    last_reported: int = -1000
    found: Finding | None = None
    back: int = 0
    anchor: LossAnchor = field(default_factory=LossAnchor)


@rule(
    "loss-spike",
    needs=("scalar/loss",),
    phase=LOSS,
    memory=_LossSpikeState,
    warm_up=_WARM_UP,
    asks="reference",
    fires_on=(
        Recording({"scalar/loss": (*_CALM, 2.5, 3.0, 2.8, 2.9)}),
        Recording({"scalar/loss": (*_CALM, 2.5, *(3.0,) * 14)}, events=(_CALLED,)),
        Recording(
            {"scalar/loss": (*_CALM, 2.5, 3.0, 2.8, 2.9)},
            events=(Event("modules_changed", 39, data={"sites": ["head"], "count": 1}),),
        ),
    ),
    silent_on=(
        Recording({"scalar/loss": _CALM}),
        Recording({"scalar/loss": (*_CALM, 2.5, 0.9, 0.8, 0.8)}),
        Recording({"scalar/loss": (0.0,) * 40}),
        # a model that acts, on one sample at a time, and learns from batches of what it saw
        Recording(
            {"scalar/loss": (*_CALM, 2.5, 3.0, 2.8, 2.9), " batch/size": 640.0, " batch/eval/size": (None, 10.0) * 22}
        ),
        Recording({"scalar/loss": (*_CALM, 2.5, 3.0, 2.8, 2.9), "scalar/policy/entropy": 1.0}),
        Recording({"scalar/loss": (*(2.3 * 0.8**step for step in range(40)), 0.1, 0.1, 0.1, 0.1)}),
    ),
)
def check(context: StepContext, memory: _LossSpikeState) -> Iterator[Finding]:
    """Report a loss that rises suddenly and stays up.

    The rule notices when, for three records in a row, the loss lies 8 robust deviations above its history and half of
    its progress is lost, and warns when it has stayed there for 12. The history is the newest 32 finite losses; the
    deviation is that of one loss around their trend. Both conditions are needed: the loss of single batches has heavy
    tails, and near zero it varies by large factors in healthy runs. If the loss comes back, the warning becomes a
    notice.

    Single batches are not reported. Losses of policies, and of models that learn from their own acts, are left out,
    since they measure no progress; a loss of unknown meaning, or with several terms, gives a notice only. The finding
    names modules that were added or replaced at most 20 steps before. Look at the batches of these steps, then at the
    gradient norm just before.
    """
    loss = context.scalar("loss")
    if loss is None:
        return
    memory.anchor.learn(context)
    if not isfinite(loss) or context.has_a_surrogate_loss:
        return
    memory.first = loss if isnan(memory.first) else memory.first
    yield from _withdrawn(context, memory, loss)
    usual, spread = memory.history.median(), memory.history.noise()
    progress = max(memory.first - usual, 0.1 * abs(memory.first))
    limit = usual + max(8 * spread, 0.5 * progress)
    if len(memory.history) < _WARM_UP or loss < limit or loss <= usual:
        memory.history.add(loss)
        memory.streak = 0
        return
    if memory.streak == 0:
        memory.since, memory.rose_to, memory.usual = context.step, loss, usual
    memory.streak += 1
    if memory.streak >= _STAYS:
        memory.history.add(loss)  # it has come to stay: this is the level from now on
    if (
        memory.streak == _LASTING
        and context.step - memory.last_reported > 100
        and not memory.anchor.self_made.is_self_made
    ):
        memory.last_reported = context.step
        memory.found, memory.back = _report(context, memory, loss, spread), 0
        yield memory.found
    elif memory.streak == _STAYS and memory.found is not None and memory.found.first_step == memory.since:
        is_known = memory.anchor.is_one_known_loss(context)
        memory.found = replace(_report(context, memory, loss, spread), severity="warning" if is_known else "info")
        yield memory.found


def _withdrawn(context: StepContext, memory: _LossSpikeState, loss: float) -> Iterator[Finding]:
    """Yield the finding once more, as a notice, when the loss has come back."""
    found = memory.found
    if found is None:
        return
    memory.back = memory.back + 1 if loss - memory.usual < _LEFT * (memory.rose_to - memory.usual) else 0
    if memory.back < _BACK:
        return
    memory.found = None
    words = f"the loss rose from {memory.usual:.4g} to {memory.rose_to:.4g} at step {found.first_step}, and had come "
    yield replace(
        found,
        step=context.step,
        severity="info",
        explanation=f"{words}back to {loss:.4g} by step {context.step}",
        confidence=0.1,
    )


def _report(context: StepContext, memory: _LossSpikeState, loss: float, spread: float) -> Finding:
    change = context.changes.before(memory.since)
    changed = "" if change is None else f"; modules changed: {change.since(memory.since)}"
    first = "" if change is None else f"{_LOOK_AT_CHANGE}, then "
    deviations = (loss - memory.usual) / max(spread, 1e-12)
    return context.finding(
        ROOT_SITE,
        "scalar/loss",
        {
            "loss": loss,
            "usual_loss": memory.usual,
            "rose_to": memory.rose_to,
            "deviations": deviations,
            "spread": spread,
        },
        severity="info",
        first_step=memory.since,
        position=0,
        explanation=f"the loss rose from {memory.usual:.4g} to {memory.rose_to:.4g} at step {memory.since} and has "
        f"stayed up for {memory.streak} records; it is {loss:.4g} now, {deviations:.3g} times its usual spread above "
        f"its history{changed}",
        advice=f"if no other finding explains it, look {first}at the batches of these steps, then at the "
        "gradient norm just before; skip those batches, or restart from an earlier checkpoint with a lower rate "
        "or tighter clipping",
        confidence=0.7,
    )
