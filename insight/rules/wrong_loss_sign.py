"""A training that goes uphill: the loss is negated, or the optimizer follows the gradient."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan, log

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, Json, OptimizerInfo
from ..context.step_context import StepContext
from ..event_fields import number
from ..indicators.bottomless_loss import BottomlessLoss
from ..indicators.executable_checks import refuting_event
from ..indicators.loss_anchor import EXACT, LossAnchor
from ..indicators.lowered_findings import withdrawn
from ..indicators.policy_training import KlPenalty
from ..indicators.tried_direction import maximises, tried_direction
from ..indicators.update_stability import LARGE_UPDATE
from ..loss_levels import HALFWAY
from ..recording import Recording, chain
from ..rule import LOSS, rule
from ..running_statistics import Streak, Window, trend

_MODEL = chain("one:Dense", "two:Dense")
_UPHILL = replace(_MODEL, optimizers=(OptimizerInfo("SGD", ({"lr": 0.1, "maximize": True},)),))
_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
_BACKWARDS: dict[str, Json] = {"factor": -1.0, "micro_batches": 1}
_LASTING = 3
_WORDS = "the derivative of the loss with respect to mse_loss is -1: a step raises it"
_RAISED = refuting_event("loss_is_minimised", _WORDS, slope=-1.0, terms=1)
_DIVERGING = refuting_event(
    "divergence_is_lowered", "the loss holds -0.5 * (exp(s) - s) for a tensor s of shape (8, 4)", weight=-0.5
)
_RAISED_TERM = refuting_event("loss_is_minimised", _WORDS, slope=-0.01, terms=2)
_AGAINST_THE_ADVANTAGE = refuting_event(
    "good_actions_become_likelier", "the gradient lowers the log-probability of 97% of 32 actions", share=0.03
)


def _quotient(step: int, factor: float) -> Event:
    return Event("accumulation", step, data={"factor": factor, "micro_batches": 1})


#: Share of the first loss by which a loss that only climbs may ever have been below it.
_NEVER_BELOW = 0.05
#: Share of its usual value within which a loss becomes its own negative.
_ITSELF = 0.25
#: Mann-Kendall score of ten values that nearly all fall; the most possible is 4.0.
_FALLS = 2.0
#: Mann-Kendall score of twelve values that nearly all rise; the most possible is 4.5.
_WINDOW, _SCORE = 12, 3.8
#: Share of the loss of guessing, and records: a first loss near its negative that falls is a minimised likelihood.
_GUESSING, _FALLING = 0.05, 10
#: Fall of the reward in spreads within the first batch, and in noises of its mean, for this many records.
_FALL, _NOISES, _FALLEN = 0.5, 4.0, 8
#: Nats from the reference: a policy that far away has more reward (Gao et al. 2023, arXiv:2210.10760, figure 1), so a
#: loss of a quarter of the spread is enough.
_FAR, _FALL_FAR = 1.0, 0.25
#: Records since the rate last rose, before which the rate may move the loss; records after which it is known of what.
_SETTLED, _TOLD = 12, 3
_LESS = (*(0.5 - 0.04 * step for step in range(10)), *(0.1,) * 14)
_RISING = tuple(2.3 * 1.05**step + 0.01 * (-1) ** step for step in range(16))
_CLIMBING: dict[str, float | Sequence[float | None]] = {
    "scalar/loss": _RISING,
    "one.weight update/ratio_to_weight": 0.01,
}


@dataclass(slots=True)
class _Rewards:
    """The first reward of a policy, and since when its rewards have been lower."""

    first: float = float("nan")
    spread: float = float("nan")
    has_been_far: bool = False
    kl_penalty: KlPenalty = field(default_factory=KlPenalty)
    newest: Window = field(default_factory=lambda: Window(_WINDOW))
    fallen: Streak = field(default_factory=Streak)


@dataclass(slots=True)
class _WrongLossSignState:
    """What the loss is, its newest and usual values, and the step of the first one below zero."""

    anchor: LossAnchor = field(default_factory=LossAnchor)
    least: float = float("inf")
    negative: Streak = field(default_factory=Streak)
    first_negative: int = -1
    positive: Window = field(default_factory=lambda: Window(10))
    losses: Window = field(default_factory=lambda: Window(_WINDOW))
    updates: Window = field(default_factory=lambda: Window(_WINDOW))
    rate: float = float("inf")
    calm: int = 0
    steps: list[int] = field(default_factory=list)
    rewards: _Rewards = field(default_factory=_Rewards)
    first: float = float("nan")
    bottomless: BottomlessLoss = field(default_factory=BottomlessLoss)
    seen: int = 0
    is_reported: bool = False
    climbed: Finding | None = None


@rule(
    "wrong-loss-sign",
    needs=("scalar/loss", "update", "structure"),
    phase=LOSS,
    memory=_WrongLossSignState,
    warm_up=_WINDOW,
    fires_on=(
        # a negated share of the loss
        Recording({"scalar/loss": (-1.15, -1.2, -1.3, -1.5)}, _MODEL, events=(_CALLED, _quotient(0, -0.3))),
        # a loss without a floor
        Recording({"scalar/loss": tuple(1.0 - 0.01 * step**2 for step in range(90))}, _MODEL),
        # from one step on what was minimised is maximised
        Recording({"scalar/loss": (*(2.0,) * 12, -2.0, -2.2, -2.5)}, _MODEL),
        Recording(_CLIMBING, _MODEL),
        Recording({"scalar/loss": (2.3, 2.4, 2.5)}, _UPHILL, events=(_CALLED,)),
        Recording({"scalar/loss": -2.3}, _MODEL, events=(Event("accumulation", 0, data=_BACKWARDS),)),
        # tried on the gradient itself
        Recording({"scalar/loss": -2.3}, _MODEL, events=(_RAISED,)),
        Recording({"scalar/loss": 0.1}, _MODEL, events=(_AGAINST_THE_ADVANTAGE,)),
        Recording({"scalar/loss": 0.1}, _MODEL, events=(_DIVERGING,)),
        Recording(
            {"scalar/loss": 0.1},
            _MODEL,
            events=(
                Event("training_kind", 0, data={"name": "policy"}),
                refuting_event("entropy_is_raised", "the derivative of the loss with respect to the entropy is 0.2"),
            ),
        ),
        # a likelihood over ten classes that is minimised
        Recording({"scalar/loss": tuple(-2.3 - 0.02 * step for step in range(14))}, chain("one:Dense", shape=(10, 8))),
        # what is rewarded is unlearned
        Recording(
            {
                "scalar/loss": 0.0,
                "scalar/reward/mean": _LESS,
                "scalar/reward/std": 0.2,
                "one.weight update/ratio_to_weight": 0.02,
            },
            _MODEL,
        ),
        # by less than half the spread, but far from the reference
        Recording(
            {
                "scalar/loss": tuple(0.05 * min(step, 5) for step in range(24)),
                "scalar/policy/kl": tuple(0.5 * min(step, 5) for step in range(24)),
                "scalar/reward/mean": (0.13, *(0.07 - 0.005 * (step % 2) for step in range(23))),
                "scalar/reward/std": 0.2,
                "one.weight update/ratio_to_weight": 0.02,
            },
            _MODEL,
        ),
    ),
    silent_on=(
        # one of several terms is raised, as by a term that keeps a distribution wide
        Recording({"scalar/loss": 0.3}, _MODEL, events=(_RAISED_TERM,)),
        # an objective that is meant to be maximised, such as a return
        Recording({"scalar/loss": (2.3, 2.4, 2.5)}, _UPHILL),
        # a term that is negative from the start, beside a loss that cannot be
        Recording(
            {"scalar/loss": (-0.1, -0.2, -0.4, -0.3)},
            _MODEL,
            events=(_CALLED, *(_quotient(step, factor) for step, factor in enumerate((-0.05, -0.11, -0.3, -0.2)))),
        ),
        # a sum of terms, of which one is given more weight by and by
        Recording(
            {"scalar/loss": (9.0, 6.0, 4.0, 2.0, *_RISING), "one.weight update/ratio_to_weight": 0.01},
            _MODEL,
        ),
        # a curriculum
        Recording({**_CLIMBING, " batch/l2_norm": tuple(8.0 + 0.2 * step for step in range(16))}, _MODEL),
        # a likelihood of numbers, that falls far and ever slower
        Recording({"scalar/loss": tuple(1.0 - 8 * step**0.5 for step in range(120))}, _MODEL),
        # noise around zero
        Recording({"scalar/loss": (0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.2, 0.1, -0.2, -0.1, -0.2, -0.1)}, _MODEL),
        # what is added to the loss, and not the loss, is negative
        Recording(
            {"scalar/loss": (2.3, 1.9, 0.4, -0.3, -0.9, -1.2)},
            _MODEL,
            events=(_CALLED, _quotient(0, 0.58), _quotient(1, 0.52), _quotient(2, 0.2)),
        ),
        # the negative of what is to be lowered, raised
        Recording({"scalar/loss": -2.3}, _UPHILL, events=(_RAISED, _DIVERGING)),
        # the loss of a policy, beside that of its values
        Recording({"scalar/loss": -2.3}, _MODEL, events=(_CALLED, Event("training_kind", 0, data={"name": "policy"}))),
        Recording({"scalar/loss": tuple(reversed(_RISING)), "one.weight update/ratio_to_weight": 0.01}, _MODEL),
        # steps too large: another rule's case
        Recording({"scalar/loss": _RISING, "one.weight update/ratio_to_weight": 0.5}, _MODEL),
        # a loss that may well be negative, falling through zero
        Recording({"scalar/loss": tuple(1.0 - 0.1 * step for step in range(30))}, _MODEL),
        # as low as guessing at first, and rising
        Recording({"scalar/loss": tuple(-2.3 + 0.1 * step for step in range(14))}, chain("one:Dense", shape=(10, 8))),
        # what is rewarded is the distance from the reference
        Recording(
            {
                "scalar/loss": tuple(-0.01 * step for step in range(24)),
                "scalar/policy/kl": tuple(0.02 * step for step in range(24)),
                "scalar/reward/mean": _LESS,
                "scalar/reward/std": 0.2,
                "one.weight update/ratio_to_weight": 0.02,
            },
            _MODEL,
        ),
        # a policy that is rewarded as before, and one that moves in leaps: other rules' cases
        Recording({"scalar/loss": 0.0, "scalar/reward/mean": (0.5, 0.4) * 10, "scalar/reward/std": 0.2}, _MODEL),
        Recording(
            {
                "scalar/loss": 0.0,
                "scalar/reward/mean": _LESS,
                "scalar/reward/std": 0.2,
                "one.weight update/ratio_to_weight": 0.5,
            },
            _MODEL,
        ),
        # the surrogate of a policy follows no trend that means anything
        Recording({**_CLIMBING, "scalar/reward/mean": 0.1}, _MODEL),
    ),
)
def check(context: StepContext, memory: _WrongLossSignState) -> Iterator[Finding]:
    """Report a training that goes uphill.

    Certain is what the probe reads from the gradient: a negative derivative of the loss with respect to its only
    loss function, actions with positive advantage that become less likely, and a divergence of normals in the loss,
    exp(s) - s, with a negative factor. Three more cases are certain where the loss is one known function that
    cannot be negative, times a constant: an optimizer that maximises it, a backward pass that starts from its
    negative, or from a negative multiple that stays the same. If the multiple varies, a term was added, and the sum
    may well be negative. A value that turns into its own negative, within a quarter, from one step to the next is
    nearly as certain.

    A loss is ascending if it rises in twelve records with a Mann-Kendall score above 3.8 (of 4.5 possible), by 5 % of
    its first value, while updates stay below 0.3 of the weights and the rate does not rise. A loss that is not known,
    or has several terms, must besides never have been 5 % below its first value: weights of terms, tasks and opponents
    change. Where the scale of the input grows as well, as in a curriculum, nothing is said. A likelihood is being
    minimised if the loss starts at -log(C), the negative of the cost of guessing among the C outputs of the last layer,
    and falls.

    A loss that is ten times as far below zero as its first value was from it, and falls in the second half of the
    training no slower than in the first, has no floor: its negative was meant, or a term is missing. The surrogate
    losses of policies mean nothing of the kind, so policies are judged by their reward. Under small updates it must
    not stay below the first reward for 8 records by half the spread within a batch (a quarter once the reference is
    1 nat away) and by four times the noise of its mean. A loss that is a negative multiple of the divergence is
    left to `kl-blowup`.

    A loss that was ascending and comes to lie below where it rose from withdraws the finding. Else look for a minus
    before the loss, and for `maximize=True`.
    """
    loss = context.scalar("loss")
    memory.anchor.learn(context)
    if loss is None or not isfinite(loss):
        return
    if memory.is_reported:
        yield from _turned(context, memory, loss)
        return
    memory.seen += 1
    memory.first = loss if isnan(memory.first) else memory.first
    memory.least = min(memory.least, loss)
    memory.first_negative = context.step if loss < 0 > memory.first_negative else memory.first_negative
    found = (
        _maximising(context, memory)
        or tried_direction(context)
        or _negated(context)
        or _negative(context, memory, loss)
        or _likelihood(context, memory, loss)
        or _flipped(context, memory, loss)
        or _rising(context, memory, loss)
        or _bottomless(context, memory, loss)
        or _unrewarded(context, memory)
    )
    if found is not None:
        memory.is_reported = True
        yield found


def _maximising(context: StepContext, memory: _WrongLossSignState) -> Finding | None:
    if not maximises(context) or not memory.anchor.is_cost(context):
        return None
    factors = memory.anchor.factors  # of a function of the cost, such as a signal-to-noise ratio, there are more later
    if memory.seen < (_SETTLED if factors else _TOLD):
        return None
    if (loss := context.scalar("loss")) is None or min(loss, *factors, 0) < 0:
        return None  # the negative of a cost, maximised
    called = ", ".join(sorted(memory.anchor.called))
    words = f"every group of the optimizer has maximize=True, and the loss is {called}"
    groups = sum(len(optimizer.groups) for optimizer in context.model.structure.optimizers)
    return _report(context, {"groups": groups}, words, context.step, 0.95)


def _negated(context: StepContext) -> Finding | None:
    """Return a finding if backward started from the negative of the loss, or of its share of the micro-batches."""
    for event in () if maximises(context) else context.events("accumulation"):
        factor, passes = number(event, "factor"), number(event, "micro_batches")
        is_exact = any(abs(factor * times + 1.0) < EXACT for times in (1.0, passes))
        if not is_exact or context.has_a_surrogate_loss or len(context.model.structure.optimizers) > 1:
            continue
        words = f"backward() starts from {factor:.4g} times the value of the loss function"
        return _report(context, {"factor": factor, "passes": passes}, words, event.step, 0.95)
    return None


def _negative(context: StepContext, memory: _WrongLossSignState, loss: float) -> Finding | None:
    factors = memory.anchor.factors
    is_multiple = bool(factors) and max(factors) < 0 and memory.anchor.is_cost(context) and not maximises(context)
    if memory.negative.update(loss < 0, context.step) < _LASTING or not is_multiple:
        return None
    words = f"backward() started from {loss:.4g}, {factors[-1]:.3g} times {', '.join(sorted(memory.anchor.called))}"
    words = f"{words}, which is never negative"
    return _report(context, {"loss": loss, "factor": factors[-1]}, words, memory.first_negative, 0.95)


def _likelihood(context: StepContext, memory: _WrongLossSignState, loss: float) -> Finding | None:
    """Return a finding for a first loss of -log(C) that falls, for a last layer of C outputs."""
    if memory.seen != _FALLING or memory.first > 0 or context.has_a_surrogate_loss or maximises(context):
        return None
    outputs = context.model.outputs
    if outputs < 2:
        return None
    guessing, values = log(outputs), [memory.first, *memory.losses.newest(_FALLING), loss]
    is_guess = abs(memory.first + guessing) < _GUESSING * guessing
    if not is_guess or max(values) > 0 or trend(values) > -_FALLS:
        return None
    words = f"the first loss was {memory.first:.4g}, the negative of the cost of guessing among {outputs} classes"
    return _report(context, {"loss": loss, "first_loss": memory.first}, f"{words}, and falls further", 0, 0.9)


def _unrewarded(context: StepContext, memory: _WrongLossSignState) -> Finding | None:
    """Return a finding for a policy whose reward has stayed below its first values."""
    rewards, reward, spread = memory.rewards, context.scalar("reward/mean"), context.scalar("reward/std")
    rewards.kl_penalty.learn(context)
    if reward is None or spread is None:
        return None
    if np.isnan(rewards.first):
        rewards.first, rewards.spread = reward, spread
        return None
    rewards.newest.add(reward)
    rewards.has_been_far |= (context.scalar("policy/kl") or 0.0) > _FAR
    limit = rewards.first - (_FALL_FAR if rewards.has_been_far else _FALL) * rewards.spread
    updates = memory.updates.newest(_WINDOW)
    is_large = not updates or max(updates) >= LARGE_UPDATE
    if rewards.fallen.update(reward < limit, context.step) < _FALLEN or is_large or rewards.kl_penalty.has_wrong_sign:
        return None
    if rewards.first - rewards.newest.median() < _NOISES * rewards.newest.noise():
        return None
    words = f"the reward was {rewards.first:.4g} at first and has been below {limit:.3g} for {_FALLEN} records"
    return _report(
        context,
        {"reward": reward, "first_reward": rewards.first, "spread": rewards.spread},
        words,
        rewards.fallen.since,
        0.7,
        metric="scalar/reward/mean",
    )


def _flipped(context: StepContext, memory: _WrongLossSignState, loss: float) -> Finding | None:
    usual, before = memory.positive.median(), memory.positive.newest(10)
    if loss > 0:
        memory.positive.add(loss)
        memory.steps.clear()
        return None
    if not memory.steps:
        usual_change = float(np.median(np.abs(np.diff(before)))) if len(before) >= 5 else np.inf
        is_its_negative = -(1 + _ITSELF) * usual < loss < (_ITSELF - 1) * usual
        if not (is_its_negative and usual > 5 * usual_change) or context.has_a_surrogate_loss:
            memory.positive = Window(10)  # it fell through zero by and by, and may
            return None
    memory.steps.append(context.step)
    if len(memory.steps) < _LASTING:
        return None
    words = f"the loss was {usual:.4g} and became {loss:.4g} from one step to the next"
    return _report(context, {"loss": loss, "usual_loss": usual}, words, memory.steps[0], 0.9)


def _rising(context: StepContext, memory: _WrongLossSignState, loss: float) -> Finding | None:
    memory.losses.add(loss)
    memory.updates.add(context.typical_update)
    rate = context.rate or 0.0
    memory.calm = 0 if rate > 1.01 * memory.rate else memory.calm + 1
    memory.rate = rate
    values = memory.losses.newest(_WINDOW)
    if memory.calm < _SETTLED or len(values) < _WINDOW or max(values[:3]) >= min(values[-3:]):
        return None
    rise = values[-2] - values[1]
    updates = memory.updates.newest(_WINDOW)
    is_clear = rise >= max(4 * memory.losses.noise(), 0.05 * abs(memory.first)) and trend(values) >= _SCORE
    is_small = bool(updates) and max(updates) < LARGE_UPDATE
    if not (is_clear and is_small) or context.has_a_surrogate_loss or len(context.model.structure.optimizers) > 1:
        return None
    if memory.anchor.has_growing_data or maximises(context):
        return None
    only_climbs = memory.first > 0 and memory.least > (1 - _NEVER_BELOW) * memory.first
    if memory.anchor.self_made.is_self_made or not (only_climbs or memory.anchor.is_one_known_loss(context)):
        return None
    words = f"the loss has risen from {values[0]:.4g} to {values[-1]:.4g} in {_WINDOW} records, in nearly every one"
    evidence = {
        "loss": loss,
        "loss_before": values[0],
        "rise": rise,
        "score": trend(values),
        "largest_update_ratio": max(updates),
    }
    since = context.step - _WINDOW + 1 + values.index(min(values))
    memory.climbed = _report(context, evidence, words, max(since, 0), 0.8)
    return memory.climbed


def _turned(context: StepContext, memory: _WrongLossSignState, loss: float) -> Iterator[Finding]:
    """Take back that the training goes uphill if the loss comes to lie below where it rose from."""
    found = memory.climbed
    memory.losses.add(loss)
    if found is not None and memory.losses.median() < found.evidence["loss_before"]:
        memory.climbed = None
        words = f"{found.explanation}; by step {context.step} it is {memory.losses.median():.4g}"
        yield withdrawn(found, context, words)


def _bottomless(context: StepContext, memory: _WrongLossSignState, loss: float) -> Finding | None:
    """Return a finding for a loss that falls below zero without end, and no slower than at first."""
    if memory.seen < _SETTLED or context.has_a_surrogate_loss or len(context.model.structure.optimizers) > 1:
        return None
    level = memory.losses.median()
    if not memory.bottomless.learn(context.step, level, memory.first):
        return None
    half = memory.bottomless.half
    words = f"the loss falls without end: {memory.first:.4g} at first, {half:.4g} halfway, {level:.4g} now"
    return _report(context, {"loss": loss, "first_loss": memory.first, HALFWAY: half}, words, 0, 0.7)


def _report(
    context: StepContext,
    evidence: dict[str, float],
    words: str,
    since: int,
    confidence: float,
    *,
    metric: str = "scalar/loss",
) -> Finding:
    return context.finding(
        ROOT_SITE,
        metric,
        evidence,
        first_step=since,
        position=0,
        explanation=f"the training goes uphill: {words}",
        advice="look for a minus before the loss, a loss that is an accuracy or a likelihood, a negated gradient, "
        "and maximize=True in the optimizer",
        confidence=confidence,
    )
