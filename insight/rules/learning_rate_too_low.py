"""Updates so small that the weights do not move, although the gradients are healthy."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Window, count_before_first

_MODEL = chain("one:Dense", "two:Dense")
#: Update over weight; at this pace a matrix changes by its own size in a million steps.
_STANDSTILL = 1e-6
_LASTING = 12
#: Distance from the first loss, as a share and in noises between batches, within which the loss has not moved.
_SAME, _NOISES = 0.02, 4.0


@dataclass(slots=True)
class _LearningRateTooLowState:
    """For how long the weights have not moved, with the losses and rates of that time."""

    streak: int = 0
    since: int = 0
    first_loss: float = float("nan")
    losses: Window = field(default_factory=lambda: Window(_LASTING))
    rates: Window = field(default_factory=lambda: Window(_LASTING))
    highest_rate: float = 0.0
    is_reported: bool = False


def _skip_window(lookahead: Lookahead, memory: _LearningRateTooLowState) -> SkipWindow | None:
    """Skip records while the weights move."""
    updates = lookahead.typical_updates()
    if memory.is_reported or updates is None:
        return lookahead.whole if memory.is_reported else None
    ratios, losses, rates = np.array(updates), lookahead.scalars("loss"), lookahead.scalars("learning_rate")

    def learn(records: int) -> None:
        for loss, rate in zip(losses[:records], rates[:records], strict=True):
            _learn(memory, loss, rate)
        if not np.isnan(ratios[:records]).all():
            memory.streak = 0

    return SkipWindow(count_before_first((ratios > 0) & (ratios < _STANDSTILL)), learn)


@rule(
    "learning-rate-too-low",
    needs=("update", "scalar/loss", "gradient"),
    phase=OPTIMIZER,
    skip_window=_skip_window,
    memory=_LearningRateTooLowState,
    warm_up=_LASTING,
    fires_on=(
        Recording(
            {
                "scalar/loss": (2.3,) * 25,
                "scalar/learning_rate": 1e-9,
                "one.weight update/ratio_to_weight": 1e-9,
                "one.weight gradient/l2_norm": 0.5,
            },
            _MODEL,
        ),
    ),
    silent_on=(
        # warming up
        Recording(
            {
                "scalar/loss": (2.3,) * 25,
                "scalar/learning_rate": tuple(1e-10 * (step + 1) for step in range(25)),
                "one.weight update/ratio_to_weight": 1e-7,
                "one.weight gradient/l2_norm": 0.5,
            },
            _MODEL,
        ),
        # converged
        Recording(
            {
                "scalar/loss": (2.3, *(0.001,) * 25),
                "scalar/learning_rate": 0.1,
                "one.weight update/ratio_to_weight": (0.01, *(1e-8,) * 25),
                "one.weight gradient/l2_norm": 1e-7,
            },
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _LearningRateTooLowState) -> Iterator[Finding]:
    """Report a learning rate too small to move the weights.

    The rule fires when, for 12 records, updates are below one millionth of the weights in the typical matrix, gradients
    flow, and the loss does not move. It stays silent while the rate rises (warm-up), after the rate has decayed to a
    tenth of its highest (the end of a schedule), and when the loss has moved by 2 % and by four times its noise.
    Updates of exactly zero are a missing step. Raise the rate towards updates of 0.001 of the weights.
    """
    if memory.is_reported:
        return
    _learn(memory, context.scalar("loss"), context.scalar("learning_rate"))
    ratio = context.typical_update
    if np.isnan(ratio):
        return
    if not 0 < ratio < _STANDSTILL or context.record.skipped:
        memory.streak = 0
        return
    memory.since = context.step if memory.streak == 0 else memory.since
    memory.streak += 1
    if memory.streak >= _LASTING and _is_unmoved(memory) and _is_steady(memory):
        memory.is_reported = True
        rate = memory.rates.median()
        yield context.finding(
            ROOT_SITE,
            "update/ratio_to_weight",
            {
                "update_ratio": ratio,
                "limit": _STANDSTILL,
                "learning_rate": rate,
                "records": memory.streak,
                "first_loss": memory.first_loss,
                "loss": memory.losses.median(),
            },
            severity="warning",
            first_step=memory.since,
            position=0,
            explanation=f"for {memory.streak} records each step has changed the typical weight matrix by only "
            f"{ratio:.1e} times its norm, at a learning rate of {rate:.3g}; the loss stays at "
            f"{memory.losses.median():.4g}",
            advice=f"raise the learning rate by about {1e-3 / ratio:.0e} times, towards updates of 0.001 of the "
            "weights; check its unit and its schedule, and that no clipping or loss divisor shrinks the gradient",
            confidence=0.8,
        )


def _learn(memory: _LearningRateTooLowState, loss: float | None, rate: float | None) -> None:
    if loss is not None:
        memory.losses.add(loss)
        if np.isnan(memory.first_loss):
            memory.first_loss = loss
    if rate is not None:
        memory.rates.add(rate)
        memory.highest_rate = max(memory.highest_rate, rate)


def _is_unmoved(memory: _LearningRateTooLowState) -> bool:
    slack = max(_SAME * abs(memory.first_loss), _NOISES * memory.losses.noise())
    return abs(memory.losses.median() - memory.first_loss) < slack


def _is_steady(memory: _LearningRateTooLowState) -> bool:
    rates = memory.rates.newest(_LASTING)
    return not rates or (rates[-1] <= 1.0001 * rates[0] and rates[-1] >= 0.1 * memory.highest_rate > 0)
