"""A training that goes uphill: the loss is negated, or the optimizer follows the gradient."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import isfinite, isnan, log, log2, nan

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, Json, OptimizerInfo
from ..context.step_context import StepContext
from ..event_fields import number
from ..indicators.policy_training import KlPenalty
from ..indicators.update_stability import LARGE_UPDATE
from ..recording import Recording, chain
from ..rule import LOSS, rule
from ..running_statistics import Streak, Window, trend

_MODEL = chain("one:Dense", "two:Dense")
_UPHILL = replace(_MODEL, optimizers=(OptimizerInfo("SGD", ({"lr": 0.1, "maximize": True},)),))
#: Losses that cannot be negative, by the names that the probe gives them.
_NOT_NEGATIVE = frozenset(
    {
        "cross_entropy",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
    }
)
_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
_BACKWARDS: dict[str, Json] = {"factor": -1.0, "micro_batches": 1}
_LASTING = 3


def _quotient(step: int, factor: float) -> Event:
    return Event("accumulation", step, data={"factor": factor, "micro_batches": 1})


#: Relative error within which backward starts from the negative of the loss.
_EXACT = 1e-3
#: Mann-Kendall score of ten values that nearly all fall; the most possible is 4.0.
_FALLS = 2.0
#: Mann-Kendall score of twelve values that nearly all rise; the most possible is 4.5.
_WINDOW, _SCORE = 12, 3.8
#: Share of the loss of guessing, and records: a first loss near its negative that falls is a likelihood that is
#: minimised.
_GUESSING, _FALLING = 0.05, 10
#: Fall of the reward in spreads within the first batch, and in noises of its mean, for this many records.
_FALL, _NOISES, _FALLEN = 0.5, 4.0, 8
#: Nats from the reference: a policy that far away has more reward (Gao et al. 2023, arXiv:2210.10760, figure 1), so a
#: loss of a quarter of the spread is enough.
_FAR, _FALL_FAR = 1.0, 0.25
#: Records since the rate last rose; before, the rate may move the loss.
_SETTLED = 12
_LESS = (*(0.5 - 0.04 * step for step in range(10)), *(0.1,) * 14)
_RISING = tuple(2.3 * 1.05**step + 0.01 * (-1) ** step for step in range(16))


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
    """The losses called, the newest values, and the usual values."""

    called: set[str] = field(default_factory=set)
    factor: float = nan
    has_terms: bool = False
    negative: Streak = field(default_factory=Streak)
    positive: Window = field(default_factory=lambda: Window(10))
    losses: Window = field(default_factory=lambda: Window(_WINDOW))
    updates: Window = field(default_factory=lambda: Window(_WINDOW))
    rate: float = float("inf")
    calm: int = 0
    steps: list[int] = field(default_factory=list)
    rewards: _Rewards = field(default_factory=_Rewards)
    first: float = float("nan")
    seen: int = 0
    is_reported: bool = False


@rule(
    "wrong-loss-sign",
    needs=("scalar/loss", "update", "structure"),
    phase=LOSS,
    memory=_WrongLossSignState,
    warm_up=_WINDOW,
    fires_on=(
        Recording({"scalar/loss": (-2.3, -2.4, -2.6, -3.0)}, _MODEL, events=(_CALLED,)),
        # from one step on what was minimised is maximised
        Recording({"scalar/loss": (*(2.0,) * 12, -2.0, -2.2, -2.5)}, _MODEL),
        Recording({"scalar/loss": _RISING, "one.weight update/ratio_to_weight": 0.01}, _MODEL),
        Recording({"scalar/loss": (2.3, 2.4)}, _UPHILL),
        Recording({"scalar/loss": -2.3}, _MODEL, events=(Event("accumulation", 0, data=_BACKWARDS),)),
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
        # what is added to the loss, and not the loss, is negative
        Recording(
            {"scalar/loss": (2.3, 1.9, 0.4, -0.3, -0.9, -1.2)},
            _MODEL,
            events=(_CALLED, _quotient(0, 0.58), _quotient(1, 0.52), _quotient(2, 0.2)),
        ),
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
        Recording(
            {"scalar/loss": _RISING, "one.weight update/ratio_to_weight": 0.01, "scalar/reward/mean": 0.1}, _MODEL
        ),
    ),
)
def check(context: StepContext, memory: _WrongLossSignState) -> Iterator[Finding]:
    """Report a training that goes uphill.

    Three cases are facts: an optimizer that maximises, a backward pass that starts from the negative of the loss
    function's value, and a negative value of losses that cannot be negative, with nothing added to them. A value that
    turns into about its own negative within one step is nearly a fact.

    A loss is ascending if it rises in twelve records with a Mann-Kendall score above 3.8 (of 4.5 possible), by 5 % of
    its first value, while updates stay below 0.3 of the weights and the rate does not rise. A likelihood is being
    minimised if the loss starts at -log(C), the negative of the cost of guessing among the C outputs of the last layer,
    and falls.

    The surrogate losses of policies mean nothing of the kind, so policies are judged by their reward. Under small
    updates it must not stay below the first reward for 8 records by half the spread within a batch (a quarter once the
    reference is 1 nat away) and by four times the noise of its mean. A loss that is a negative multiple of the
    divergence is left to `kl-blowup`.

    Look for a minus before the loss, and for `maximize=True`.
    """
    loss = context.scalar("loss")
    if loss is None or memory.is_reported or not isfinite(loss):
        return
    memory.seen += 1
    memory.called |= {str(event.data.get("loss")) for event in context.events("loss_input")}
    _learn_terms(context, memory)
    memory.first = loss if isnan(memory.first) else memory.first
    found = (
        _maximising(context)
        or _negated(context)
        or _negative(context, memory, loss)
        or _likelihood(context, memory, loss)
        or _flipped(context, memory, loss)
        or _rising(context, memory, loss)
        or _unrewarded(context, memory)
    )
    if found is not None:
        memory.is_reported = True
        yield found


def _maximising(context: StepContext) -> Finding | None:
    groups = [group for optimizer in context.model.structure.optimizers for group in optimizer.groups]
    if not groups or not all(group.get("maximize") is True for group in groups) or context.has_a_surrogate_loss:
        return None
    return _report(
        context, {"groups": len(groups)}, "every group of the optimizer has maximize=True", context.step, 1.0
    )


def _negated(context: StepContext) -> Finding | None:
    """Return a finding if backward started from the negative of the loss, or of its share of the micro-batches."""
    for event in context.events("accumulation"):
        factor, passes = number(event, "factor"), number(event, "micro_batches")
        is_exact = any(abs(factor * times + 1.0) < _EXACT for times in (1.0, passes))
        if not is_exact or context.has_a_surrogate_loss or len(context.model.structure.optimizers) > 1:
            continue
        words = f"backward() starts from {factor:.4g} times the value of the loss function"
        return _report(context, {"factor": factor, "passes": passes}, words, event.step, 0.95)
    return None


def _learn_terms(context: StepContext, memory: _WrongLossSignState) -> None:
    """Learn whether something is added to the loss function's value: their quotient then varies between steps.

    A quotient that was negative from the start has its sign from no term that grew, and powers of two are a scale.
    """
    for event in context.events("accumulation"):
        factor = number(event, "factor")
        if factor > 0 and memory.factor > 0:
            octaves = log2(factor / memory.factor)
            memory.has_terms |= abs(octaves - round(octaves)) > _EXACT
        memory.factor = factor if isnan(memory.factor) else memory.factor


def _negative(context: StepContext, memory: _WrongLossSignState, loss: float) -> Finding | None:
    is_impossible = bool(memory.called) and memory.called <= _NOT_NEGATIVE and loss < 0 and not memory.has_terms
    if memory.negative.update(is_impossible, context.step) < _LASTING or len(context.model.structure.optimizers) > 1:
        return None
    words = f"backward() started from {loss:.4g}, and {', '.join(sorted(memory.called))} cannot be negative"
    return _report(context, {"loss": loss}, words, memory.negative.since, 1.0)


def _likelihood(context: StepContext, memory: _WrongLossSignState, loss: float) -> Finding | None:
    """Return a finding for a first loss of -log(C) that falls, for a last layer of C outputs."""
    if memory.seen != _FALLING or memory.first > 0 or context.has_a_surrogate_loss:
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
    evidence = {"reward": reward, "first_reward": rewards.first, "spread": rewards.spread}
    return _report(context, evidence, words, rewards.fallen.since, 0.7, metric="scalar/reward/mean")


def _flipped(context: StepContext, memory: _WrongLossSignState, loss: float) -> Finding | None:
    usual, before = memory.positive.median(), memory.positive.newest(10)
    if loss > 0:
        memory.positive.add(loss)
        memory.steps.clear()
        return None
    if not memory.steps:
        usual_change = float(np.median(np.abs(np.diff(before)))) if len(before) >= 5 else np.inf
        if not (-1.5 * usual < loss < -0.5 * usual and before[-1] - loss > 5 * usual_change):
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
    rate = context.scalar("learning_rate") or 0.0
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
    words = f"the loss has risen from {values[0]:.4g} to {values[-1]:.4g} in {_WINDOW} records, in nearly every one"
    evidence = {"loss": loss, "rise": rise, "score": trend(values), "largest_update_ratio": max(updates)}
    since = context.step - _WINDOW + 1 + values.index(min(values))
    return _report(context, evidence, words, max(since, 0), 0.8)


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
