"""Something is clearly wrong, and no other rule knows the cause."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, OptimizerInfo, display_site
from ..context.step_context import StepContext
from ..indicators.loss_anchor import LossAnchor
from ..indicators.tried_direction import maximises
from ..indicators.unusual_layers import Departure, UnusualLayers
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Streak, Window

_MODEL = chain("one:Dense", "two:Dense")
#: Records in a row with a loss above the first; no spike lasts as long (our choice).
_LOST, _DEAD = 20, 10
#: Spreads of the newest losses by which they are above the first ones. Our choice.
_BEYOND = 2.0
#: Share of the first loss below it from which the progress is back.
_BACK = 0.1
#: Layers that are named.
_NAMED = 3
_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
_FALL = tuple(2.0 * 0.95**step for step in range(30))


@dataclass(slots=True)
class _UnknownState:
    """The first losses, the lowest loss, and for how long the progress is lost."""

    first: Window = field(default_factory=lambda: Window(5))
    newest: Window = field(default_factory=lambda: Window(5))
    lately: Window = field(default_factory=lambda: Window(_LOST))
    best: float = float("inf")
    lost: Streak = field(default_factory=Streak)
    found: Finding | None = None
    dead: Streak = field(default_factory=Streak)
    anchor: LossAnchor = field(default_factory=LossAnchor)
    reported: set[str] = field(default_factory=set)
    layers: tuple[UnusualLayers, ...] = field(
        default_factory=lambda: (UnusualLayers("gradient"), UnusualLayers("activation"))
    )


@rule(
    "unknown",
    needs=("scalar/loss",),
    phase=OPTIMIZER,
    memory=_UnknownState,
    warm_up=_LOST,
    asks="reference",
    fires_on=(
        Recording({"scalar/loss": (*_FALL, *(2.6,) * 22)}, _MODEL, (_CALLED,)),
        Recording({"scalar/loss": (2.3,) * 12, "one.weight gradient/l2_norm": (0.0,) * 12}, _MODEL),
    ),
    silent_on=(
        # every pair keeps its distance: nothing is left to learn
        Recording({"scalar/loss": (0.0,) * 12, "one.weight gradient/l2_norm": (0.0,) * 12}, _MODEL),
        Recording({"scalar/loss": _FALL}, _MODEL),
        # a likelihood that is maximised, and rises
        Recording(
            {"scalar/loss": (*(-loss for loss in _FALL[::-1]), *(-0.1,) * 22, *(-0.05,) * 22)},
            replace(_MODEL, optimizers=(OptimizerInfo("SGD", ({"lr": 0.1, "maximize": True},)),)),
            (_CALLED,),
        ),
        Recording({"scalar/loss": (*_FALL, *(2.6,) * 8, *(0.5,) * 22)}, _MODEL, (_CALLED,)),
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
    gradient is zero while the loss is not. It says that something is wrong, not what; a finding of any other rule
    explains it. The diagnosis lists what was ruled out: the rules that ran and found nothing.

    A loss of unknown meaning, or with several terms, or of a model that learns from its own acts, may rise while the
    training goes well: then it is a notice, as it becomes one when the loss falls again. It is a notice, too, when half
    of all layers have been 12 deviations from their own history for 200 records, which the heat map shows. Compare the
    run with one that went well.
    """
    memory.anchor.learn(context)
    loss = context.scalar("loss")
    if loss is not None and np.isfinite(loss) and not context.has_a_surrogate_loss:
        yield from _lost(context, memory, loss)
    yield from _dead(context, memory)
    for layers in memory.layers:
        departure = layers.learn(context)
        if departure is not None and "unusual" not in memory.reported:
            memory.reported.add("unusual")
            yield _unusual(context, memory, departure)


def _unusual(context: StepContext, memory: _UnknownState, departure: Departure) -> Finding:
    named = ", ".join(map(display_site, departure.sites[:_NAMED]))
    more = len(departure.sites) - _NAMED
    loss = memory.newest.median()
    return context.finding(
        ROOT_SITE,
        f"{departure.subject}/l2_norm",
        {
            "layers": len(departure.sites),
            "layers_of_the_model": departure.layers,
            "deviations": departure.deviations,
            "loss": loss,
        },
        severity="info",
        first_step=departure.since,
        position=0,
        explanation=f"unusual, cause unknown: since step {departure.since} the {departure.subject} of "
        f"{len(departure.sites)} of {departure.layers} layers is {departure.deviations:.0f} deviations from its own "
        f"history ({named}{f' and {more} more' * (more > 0)}), and has stayed there; the loss is {loss:.4g} now",
        advice="look at what changed at this step: the rate, the data, a layer that was unfrozen, a weight in the loss",
        confidence=0.3,
    )


def _lost(context: StepContext, memory: _UnknownState, loss: float) -> Iterator[Finding]:
    if len(memory.first) < 5:
        memory.first.add(loss)
    memory.newest.add(loss)
    first = memory.first.median()
    memory.best = min(memory.best, memory.newest.median())
    if memory.found is not None and memory.newest.median() < first - _BACK * abs(first):
        words = f"the loss was above its first value, {first:.4g}, from step {memory.found.first_step} on, and is "
        yield replace(
            memory.found,
            step=context.step,
            severity="info",
            explanation=f"{words}{memory.newest.median():.4g} by step {context.step}",
            confidence=0.1,
        )
        memory.found = None
    memory.lately.add(loss)
    # beyond what batches differ by: one lucky batch at the start is no progress that could be lost
    is_above = memory.lately.median() - first > _BEYOND * memory.lately.spread()
    is_lost = memory.best < first - 0.1 * abs(first) and loss > first + 0.02 * abs(first)
    if (
        memory.lost.update(is_lost, context.step) < _LOST
        or not is_above
        or "lost" in memory.reported
        or memory.anchor.self_made.is_self_made
        or maximises(context)
    ):
        return
    memory.reported.add("lost")
    is_harm = memory.anchor.is_one_known_loss(context) and not memory.anchor.has_growing_data
    memory.found = context.finding(
        ROOT_SITE,
        "scalar/loss",
        {"loss": loss, "first_loss": first, "best_loss": memory.best, "records": memory.lost.length},
        severity="warning" if is_harm else "info",
        first_step=memory.lost.since,
        position=0,
        explanation=f"the loss was {memory.best:.4g} at its best and has been above its first value, {first:.4g}, "
        f"for {memory.lost.length} records{_far(memory)}",
        advice="go back to a checkpoint from before this step and run it again with every subject recorded",
        confidence=0.5,
    )
    yield memory.found


def _far(memory: _UnknownState) -> str:
    """Return which layers are far from their own history now."""
    judged = [layers for layers in memory.layers if layers.has_history and not layers.is_reported]
    for layers in judged:
        if layers.far:
            named = ", ".join(map(display_site, layers.far[:_NAMED]))
            more = f" and {len(layers.far) - _NAMED} more" if len(layers.far) > _NAMED else ""
            return f"; the {layers.subject} of {named}{more} is far from its own history now"
    subjects = " or ".join(layers.subject for layers in judged)
    return f"; no layer's {subjects} is far from its own history" if judged else ""


def _dead(context: StepContext, memory: _UnknownState) -> Iterator[Finding]:
    table = context.table("gradient")
    if table is None or context.record.skipped:
        return
    norms = table.there("l2_norm")
    is_dead = len(norms) > 0 and not np.count_nonzero(norms) and context.scalar("loss") != 0.0
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
