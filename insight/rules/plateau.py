"""A loss that stays where it began although the weights move."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..indicators.loss_anchor import LossAnchor
from ..indicators.lowered_findings import withdrawn
from ..indicators.update_stability import Path
from ..recording import Recording, chain
from ..rule import LOSS, rule
from ..running_statistics import Window, trend

_MODEL = chain("one:Dense", "two:Dense")
#: Records, and sum of updates over weights, after which each of our healthy trainings had left its first loss by 5 %.
_RECORDS, _PATH, _LEFT = 60, 1.0, 0.05
#: Share of the cost of guessing below which something was learned.
_GUESSING = 0.9
_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
_NOISE = tuple(2.3 + 0.02 * (-1) ** step for step in range(70))


@dataclass(slots=True)
class _PlateauState:
    """The first losses, the newest losses, and how far the weights have moved."""

    first: list[float] = field(default_factory=list)
    recent: Window = field(default_factory=lambda: Window(24))
    path: Path = field(default_factory=Path)
    anchor: LossAnchor = field(default_factory=LossAnchor)
    is_done: bool = False
    found: Finding | None = None


@rule(
    "plateau",
    needs=("scalar/loss", "update"),
    phase=LOSS,
    memory=_PlateauState,
    warm_up=_RECORDS,
    asks="reference",
    fires_on=(Recording({"scalar/loss": _NOISE, "one.weight update/ratio_to_weight": 0.03}, _MODEL, (_CALLED,)),),
    silent_on=(
        # nothing is known of its floor: the noise that a diffusion model is to predict costs 1 from the first step on
        Recording({"scalar/loss": _NOISE, "one.weight update/ratio_to_weight": 0.03}, _MODEL),
        # far better than guessing: a model that is trained on
        Recording(
            {
                "scalar/loss": tuple(0.3 + 0.003 * (-1) ** step for step in range(70)),
                "one.weight update/ratio_to_weight": 0.03,
            },
            _MODEL,
            (_CALLED,),
        ),
        Recording(
            {"scalar/loss": tuple(2.3 * 0.98**at for at in range(70)), "one.weight update/ratio_to_weight": 0.03},
            _MODEL,
        ),
        Recording({"scalar/loss": _NOISE, "one.weight update/ratio_to_weight": 0.001}, _MODEL),
        # a step that no weights bear, and a network that it has killed
        Recording(
            {"scalar/loss": _NOISE, "one.weight update/ratio_to_weight": (*(0.01,) * 9, 2.0, *(0.0,) * 60)}, _MODEL
        ),
        # converged from the start: a model that is trained on
        Recording(
            {"scalar/loss": tuple(0.01 + 0.005 * (-1) ** at for at in range(70)), "one.weight update/l2_norm": 0.1},
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _PlateauState) -> Iterator[Finding]:
    """Report a loss that has not left its first value although the weights moved far.

    The rule judges once, after 60 records and updates that sum to the weights' own norm, and fires when the loss is
    within 5 % of where it began and above nine tenths of the cost of guessing among the classes. After an update that
    is too large both counts start again. Other losses are left out: where a loss may already be at its floor, standing
    still says nothing. The finding is withdrawn if the loss falls later. See whether the model can learn one single
    batch.
    """
    loss = context.scalar("loss")
    if memory.is_done:
        yield from _withdrawn(context, memory, loss)
        return
    memory.anchor.learn(context)
    if loss is None or not isfinite(loss):
        return
    memory.recent.add(loss)
    memory.path.learn(context)
    if len(memory.first) < 5:
        memory.first.append(loss)
    if memory.path.records < _RECORDS or memory.path.length < _PATH:
        return
    memory.is_done = True
    newest = memory.recent.newest(24)
    start, level = float(np.median(memory.first)), memory.recent.median()
    stands = abs(level - start) < _LEFT * abs(start) and memory.recent.noise() < _LEFT * abs(start)
    if not stands or abs(trend(newest)) > 2 or not memory.anchor.is_one_known_loss(context):
        return
    if not level > _GUESSING * memory.anchor.guessing:
        return
    memory.found = context.finding(
        ROOT_SITE,
        "scalar/loss",
        {
            "loss": level,
            "first_loss": start,
            "guessing": memory.anchor.guessing,
            "records": memory.path.records,
            "path": memory.path.length,
        },
        severity="warning",
        first_step=memory.path.since,
        position=0,
        explanation=f"the loss began at {start:.4g} and is {level:.4g} after {memory.path.records} records, although "
        f"the updates sum to {memory.path.length:.2g} times the weights' norm; guessing costs "
        f"{memory.anchor.guessing:.4g}",
        advice="see whether the model can learn one single batch; if it cannot, check the loss, the labels and the "
        "path of the gradient; if it can, check the data or the rate",
        confidence=0.5,
    )
    yield memory.found


def _withdrawn(context: StepContext, memory: _PlateauState, loss: float | None) -> Iterator[Finding]:
    """Yield the finding once more, as a notice, when the loss has left its first value after all."""
    if memory.found is None or loss is None or not isfinite(loss):
        return
    memory.recent.add(loss)
    start, level = memory.found.evidence["first_loss"], memory.recent.median()
    if level < start - 2 * _LEFT * abs(start):
        words = f"the loss stood near its first value, {start:.4g}, for long, and is {level:.4g} by step {context.step}"
        yield withdrawn(memory.found, context, words)
        memory.found = None
