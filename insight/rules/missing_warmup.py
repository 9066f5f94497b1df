"""An adaptive optimizer that starts at its full rate, before its second moment means anything."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..indicators.loss_anchor import LossAnchor
from ..indicators.update_stability import LARGE_UPDATE, UpdateStability, is_cold_start
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule

_MODEL = chain("one:Dense", "two:Dense", optimizer="Adam")
_EARLY, _JUDGED_AT = 20, 40
_FALL = tuple(3.0 * 0.96**step for step in range(40))


@dataclass(slots=True)
class _MissingWarmupState:
    """The stability of the updates so far, and the worst early loss."""

    stability: UpdateStability = field(default_factory=UpdateStability)
    harmed: int = 0
    worst: float = float("nan")
    is_done: bool = False
    anchor: LossAnchor = field(default_factory=LossAnchor)


@rule(
    "missing-warmup",
    needs=("scalar/loss", "update", "scalar/learning_rate", "structure"),
    phase=OPTIMIZER,
    memory=_MissingWarmupState,
    warm_up=_JUDGED_AT,
    fires_on=(
        Recording(
            {
                "scalar/loss": (2.3, 9.0, 8.0, 5.0, *_FALL),
                "scalar/learning_rate": 0.03,
                "one.weight update/ratio_to_weight": (0.8, 0.5, 0.3, *(0.05,) * 41),
            },
            _MODEL,
        ),
        # what the loss does not show
        Recording(
            {
                "scalar/loss": (2.3, 2.2, 2.1, 2.0, *_FALL),
                "scalar/learning_rate": 0.03,
                "attn attention/relative_entropy": (0.9, *(0.01,) * 43),
                "one.weight update/ratio_to_weight": (3.0, 0.5, 0.3, *(0.05,) * 41),
            },
            _MODEL,
        ),
    ),
    silent_on=(
        # attention that is sharp, but not by the first steps
        Recording(
            {
                "scalar/loss": (2.3, 2.2, 2.1, *_FALL),
                "scalar/learning_rate": 0.001,
                "attn attention/relative_entropy": (0.9, 0.5, *(0.01,) * 42),
                "one.weight update/ratio_to_weight": 0.02,
            },
            _MODEL,
        ),
        Recording(
            {
                "scalar/loss": (2.3, 2.2, 2.1, *_FALL),
                "scalar/learning_rate": 0.001,
                "one.weight update/ratio_to_weight": 0.02,
            },
            _MODEL,
        ),
        Recording(
            {
                "scalar/loss": (2.3, 9.0, 8.0, 5.0, *_FALL),
                "scalar/learning_rate": tuple(0.001 * min(step + 1, 30) for step in range(44)),
                "one.weight update/ratio_to_weight": (0.8, 0.5, 0.3, *(0.05,) * 41),
            },
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _MissingWarmupState) -> Iterator[Finding]:
    """Report an adaptive optimizer that starts at its full rate and throws the loss.

    In its first steps such an optimizer moves every weight by the whole rate, whatever the gradient, because its second
    moment has seen nothing yet (Ma and Yarats 2021, arXiv:1910.04209). The rule fires when updates at the start exceed
    0.3 of the weights, the loss was thrown above its first value in the first 20 records (or attention looks at one
    token since), and the loss had recovered after 40. Many small networks bear such a start and are not reported. A
    loss that does not recover means a rate that is too high. Raise the rate linearly over the first steps.
    """
    stability = memory.stability
    if memory.is_done:
        return
    stability.update(context)
    memory.anchor.learn(context)
    if stability.records <= _EARLY and stability.is_harmed:
        memory.harmed += 1
        memory.worst = float(np.fmax(memory.worst, stability.loss))
    if stability.records < _JUDGED_AT:
        return
    memory.is_done = True
    if (
        (memory.harmed >= 3 or stability.is_damaged())
        and is_cold_start(context, stability)
        and stability.has_recovered()
        and not stability.has_no_matrix
    ):
        yield context.finding(
            ROOT_SITE,
            "update/ratio_to_weight",
            {
                "largest_update_ratio": stability.peak,
                "limit": LARGE_UPDATE,
                "first_loss": stability.first,
                "worst_early_loss": memory.worst,
                "learning_rate": stability.first_rate,
            },
            severity="warning" if memory.anchor.is_one_known_loss(context) else "info",
            first_step=stability.large_from,
            position=0,
            explanation=f"the optimizer started at its full rate of {stability.first_rate:.3g}; its first updates "
            f"reached {stability.peak:.2g} times the weights' norm"
            + (
                f" and threw the loss from {stability.first:.4g} to {memory.worst:.4g} before it recovered"
                if memory.harmed >= 3
                else ", and its attention has looked at one token only since then"
            ),
            advice="raise the rate linearly from 0 over the first 2 / (1 - beta2) steps (2000 for beta2 = 0.999), "
            "or over the first 1 to 5 % of a short run",
            confidence=0.8,
        )
