"""A loss that is not finite after a finite forward pass."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..indicators.non_finite_sources import TRACED, Origin
from ..recording import Recording
from ..rule import LOSS, rule

_ADVICE = (
    "look for log(0), the mean of an empty mask or batch, softmax and log taken separately (use the fused "
    "cross-entropy on logits), or a target outside the loss function's domain"
)


@dataclass(slots=True)
class _NonFiniteLossState:
    """The traced origin, and whether the rule is done: it has reported, or an activation was bad."""

    is_done: bool = False
    last_finite: float = float("nan")
    origin: Origin = field(default_factory=Origin)


def _skip_window(lookahead: Lookahead, memory: _NonFiniteLossState) -> SkipWindow | None:
    if memory.is_done:
        return lookahead.whole
    if memory.origin.event is not None:
        return None

    def learn(records: int) -> None:
        known = lookahead.known("loss", records)
        memory.last_finite = known[-1] if known else memory.last_finite

    return SkipWindow(lookahead.until_not_finite("loss"), learn)


@rule(
    "non-finite-loss",
    needs=("scalar/loss",),
    triggers=("scalar/loss", TRACED),
    phase=LOSS,
    skip_window=_skip_window,
    memory=_NonFiniteLossState,
    essential=True,
    is_fact=True,
    fires_on=(
        Recording({"scalar/loss": (2.3, 2.1, float("inf")), "head activation/nans": 0}),
        Recording({"scalar/loss": (2.3, float("nan"))}),
    ),
    silent_on=(
        Recording({"scalar/loss": (2.3, 2.1, 1e30), "head activation/nans": 0}),
        Recording({"scalar/loss": (2.3, float("nan")), "head activation/nans": (0, 64)}),
    ),
)
def check(context: StepContext, memory: _NonFiniteLossState) -> Iterator[Finding]:
    """Report a loss that is NaN or infinite while all activations are finite.

    If the output of a module is already bad, that module is the finding and the loss only shows it. If the step
    recorded no activation, the loss is all there is, and the finding has half the confidence. Look at the loss
    function: logarithms, divisions, empty batches, targets out of range.
    """
    if memory.is_done:
        return
    memory.origin.learn(context)
    loss = context.scalar("loss")
    if loss is None:
        return
    if np.isfinite(loss):
        memory.last_finite = loss
        return
    memory.is_done = True
    table = context.table("activation")
    if table is not None and table.holds_non_finite:
        return
    explanation, confidence = (
        ("every recorded activation of the step is finite, so the loss function makes it", 1.0)
        if table is not None
        else ("this step recorded no activations, so a module before it may be the source", 0.5)
    )
    yield context.finding(
        ROOT_SITE,
        "scalar/loss",
        {"loss": loss, "last_finite_loss": memory.last_finite},
        explanation=f"the loss became {loss} at step {context.step}; its last finite value was "
        f"{memory.last_finite:.6g}; {explanation}{memory.origin.to_text(context)}",
        advice=memory.origin.advice(context, _ADVICE),
        confidence=confidence,
    )
