"""Updates so small that the weights do not move, although the gradients are healthy."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..indicators.lowered_findings import withdrawn
from ..indicators.slow_path import GUESSES, JUDGED, LONG_PATH, RECORDS, SlowPath
from ..indicators.steady_rate import SteadyRate
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import count_before_first

_MODEL = chain("one:Dense", "two:Dense")
_FITTED = "in 200 steps on one batch a copy of the optimizer moved the loss from 2.3 to 2.29; Adam brought it to 0.1"
#: Update over weight; at this pace a matrix changes by its own size in a million steps.
_STANDSTILL = 1e-6
_LASTING = 12
#: Distance from the first loss, as a share and in noises between batches, within which the loss has not moved.
_SAME, _NOISES = 0.02, 4.0
#: Little movement under a loss of unknown floor: path, and share of the first loss within which it stands (our choice).
_SHORT_PATH, _UNMOVED = 0.01, 0.05
#: Share by which a loss has left the one of which was said that it hardly moves. Our choice.
_LEFT = 0.1
_STANDING_KINDS = frozenset({"policy", "value", "preference", "adversarial", "meta"})


@dataclass(slots=True)
class _LearningRateTooLowState:
    """For how long the weights have not moved, with the losses and rates of that time."""

    streak: int = 0
    since: int = 0
    rate: SteadyRate = field(default_factory=lambda: SteadyRate(_LASTING))
    path: SlowPath = field(default_factory=SlowPath)
    is_reported: bool = False
    found: Finding | None = None


def _skip_window(lookahead: Lookahead, memory: _LearningRateTooLowState) -> SkipWindow | None:
    """Skip records while the weights move."""
    updates = lookahead.typical_updates()
    if memory.is_reported or updates is None:
        return lookahead.whole if memory.is_reported and memory.found is None else None
    ratios, losses, rates = np.array(updates), lookahead.scalars("loss"), lookahead.scalars("learning_rate")

    def learn(records: int) -> None:
        for loss, rate in zip(losses[:records], rates[:records], strict=True):
            _learn(memory, loss, rate)
        memory.path.learn_guess(next(reversed(lookahead.known(name, records)), None) for name in GUESSES)
        for ratio in ratios[:records].tolist():  # one by one, so that sums round as in single checks
            memory.path.learn_update(ratio)
        if not np.isnan(ratios[:records]).all():
            memory.streak = 0

    until_judged = np.arange(len(ratios)) + memory.path.records + 1
    is_judged = (until_judged >= RECORDS) & (until_judged % JUDGED == 0) & (memory.path.length < LONG_PATH)
    return SkipWindow(count_before_first(is_judged | ((ratios > 0) & (ratios < _STANDSTILL))), learn)


@rule(
    "learning-rate-too-low",
    needs=("update", "scalar/loss", "gradient"),
    triggers=("update", "scalar/loss", "gradient", "event/check"),
    phase=OPTIMIZER,
    skip_window=_skip_window,
    memory=_LearningRateTooLowState,
    warm_up=_LASTING,
    fires_on=(
        Recording(structure=_MODEL, events=(refuting_event("optimizer_lowers_the_loss", _FITTED, first=2.3),)),
        Recording(
            {
                "scalar/loss": (2.3,) * 25,
                "scalar/learning_rate": 1e-9,
                "one.weight update/ratio_to_weight": 1e-9,
                "one.weight gradient/l2_norm": 0.5,
            },
            _MODEL,
        ),
        # moves, but would take thousands of steps to leave the loss of guessing
        Recording(
            {
                "scalar/loss": tuple(2.3 - 0.0001 * step for step in range(160)),
                "scalar/target/entropy": 2.3,
                "scalar/learning_rate": 1e-6,
                "one.weight update/ratio_to_weight": 1e-4,
                "one.weight gradient/l2_norm": 0.5,
            },
            _MODEL,
        ),
    ),
    silent_on=(
        Recording(
            structure=_MODEL, events=(refuting_event("optimizer_lowers_the_loss", _FITTED, outcome="open", first=2.3),)
        ),
        # slow, and learning
        Recording(
            {
                "scalar/loss": tuple(2.3 - 0.004 * step for step in range(160)),
                "scalar/target/entropy": 2.3,
                "scalar/learning_rate": 1e-6,
                "one.weight update/ratio_to_weight": 1e-4,
                "one.weight gradient/l2_norm": 0.5,
            },
            _MODEL,
        ),
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
        # dead: what is left is the momentum of earlier steps
        Recording(
            {
                "scalar/loss": (2.3,) * 25,
                "scalar/learning_rate": 0.002,
                "one.weight update/ratio_to_weight": 1e-10,
                "one.weight gradient/l2_norm": 0.0,
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
    It also fires when, after 150 records at a steady rate, the updates sum to less than 5 % of the weights and the loss
    is within 10 % of that of guessing; after 300 steps, to less than 30 %, and it is within 3 %; or to less than 1 %,
    and the loss is within 5 % of its first value. Updates of exactly zero are a missing step. In a
    rehearsal it fires when a copy of the optimizer lowers the loss of one batch by less than 2 % in 200 steps, and Adam
    lowers it by more than a quarter. Where the loss falls by a tenth later, a slow beginning is withdrawn. Raise the
    rate towards updates of 0.001 of the weights.
    """
    if memory.is_reported:
        yield from _learns_after_all(context, memory)
        return
    for event in refuted(context, "optimizer_lowers_the_loss"):
        memory.is_reported = True
        yield refutation(
            context,
            event,
            consequence="at this rate the model hardly learns",
            advice="raise the learning rate, by a factor of 10 at a time; check its unit, and that nothing shrinks the "
            "gradient",
            metric="update/ratio_to_weight",
            severity="warning",
            confidence=0.95,
        )
        return
    _learn(memory, context.scalar("loss"), context.rate)
    memory.path.learn_guess(map(context.scalar, GUESSES))
    ratio = context.typical_update
    yield from _whole_path(context, memory, ratio)
    if np.isnan(ratio) or memory.is_reported:
        return
    if not 0 < ratio < _STANDSTILL or context.record.skipped or not _flows(context):
        memory.streak = 0
        return
    memory.since = context.step if memory.streak == 0 else memory.since
    memory.streak += 1
    if memory.streak >= _LASTING and _is_unmoved(memory) and memory.rate.is_steady:
        memory.is_reported = True
        rate = memory.rate.rates.median()
        yield context.finding(
            ROOT_SITE,
            "update/ratio_to_weight",
            {
                "update_ratio": ratio,
                "limit": _STANDSTILL,
                "learning_rate": rate,
                "records": memory.streak,
                "first_loss": memory.path.first_loss,
                "loss": memory.path.losses.median(),
            },
            severity="warning",
            first_step=memory.since,
            position=0,
            explanation=f"for {memory.streak} records each step has changed the typical weight matrix by only "
            f"{ratio:.1e} times its norm, at a learning rate of {rate:.3g}; the loss stays at "
            f"{memory.path.losses.median():.4g}",
            advice=f"raise the learning rate by about {1e-3 / ratio:.0e} times, towards updates of 0.001 of the "
            "weights; check its unit and its schedule, and that no clipping or loss divisor shrinks the gradient",
            confidence=0.8,
        )


def _flows(context: StepContext) -> bool:
    """Return whether some parameter has a gradient other than zero: no rate moves what gets none."""
    table = context.table("gradient")
    return table is None or bool(np.any(table.column("l2_norm")[table.present] != 0.0))


def _whole_path(context: StepContext, memory: _LearningRateTooLowState, ratio: float) -> Iterator[Finding]:
    """Yield a finding if the weights have hardly moved in the whole run, and the loss has not left that of guessing."""
    path = memory.path
    path.learn_update(ratio)
    if np.isnan(ratio) or not path.is_due():
        return
    loss = path.losses.median()
    if not (path.is_near_guessing(context) or _is_standing(context, memory, loss)):
        return
    if not memory.rate.is_steady or context.has_a_surrogate_loss:
        return
    guessing = f", where guessing gives {path.guess:.4g}" if path.guess > 0 else ""
    memory.is_reported = True
    memory.found = context.finding(
        ROOT_SITE,
        "update/ratio_to_weight",
        {"path": path.length, "records": path.records, "loss": loss, "first_loss": path.first_loss},
        severity="warning",
        first_step=0,
        position=0,
        explanation=f"in {path.records} records the updates of the typical weight matrix sum to {path.length:.2g} "
        f"times its norm, and the loss went from {path.first_loss:.4g} to {loss:.4g}{guessing}; at this pace the "
        "model hardly learns",
        advice="raise the learning rate, towards updates of 0.001 of the weights in a step; check its unit, its "
        "schedule, and that no clipping or loss divisor shrinks the gradient",
        confidence=0.7,
    )
    yield memory.found


def _learns_after_all(context: StepContext, memory: _LearningRateTooLowState) -> Iterator[Finding]:
    """Withdraw what was said of a slow beginning once the loss has left it."""
    if memory.found is None:
        return
    _learn(memory, context.scalar("loss"), context.rate)
    told, loss = memory.found.evidence["loss"], memory.path.losses.median()
    if loss < told - _LEFT * abs(told):
        words = (
            f"the loss was {told:.4g} after the first {memory.found.evidence['records']:.0f} records, and is {loss:.4g}"
        )
        yield withdrawn(memory.found, context, f"{words} by step {context.step}: the beginning was slow")
        memory.found = None


def _is_standing(context: StepContext, memory: _LearningRateTooLowState, loss: float) -> bool:
    """Return whether a loss that is not anchored has kept its first value, and the weights theirs, in a plain training.

    Tuning what was trained before moves little on purpose, and the losses of agents and of players stand anyway.
    """
    kind = context.kind
    is_plain = kind.name not in _STANDING_KINDS and not kind.is_fine_tuning
    path = memory.path
    slack = max(_UNMOVED * abs(path.first_loss), _NOISES * path.losses.noise())
    return is_plain and path.length < _SHORT_PATH and abs(loss - path.first_loss) < slack


def _learn(memory: _LearningRateTooLowState, loss: float | None, rate: float | None) -> None:
    memory.path.learn_loss(loss)
    memory.rate.learn(rate)


def _is_unmoved(memory: _LearningRateTooLowState) -> bool:
    path = memory.path
    slack = max(_SAME * abs(path.first_loss), _NOISES * path.losses.noise())
    return abs(path.losses.median() - path.first_loss) < slack
