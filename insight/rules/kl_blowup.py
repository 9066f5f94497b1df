"""A policy that runs away from its reference."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..indicators.policy_training import KlPenalty
from ..recording import Recording
from ..rule import OPTIMIZER, rule
from ..running_statistics import Streak, Window

_CALM = tuple(0.002 * step for step in range(30))
#: In nats. Policies are kept within 0.01 to 0.1 a token of their reference, and end their training within 1 (Schulman
#: et al. 2017, arXiv:1707.06347, section 4; Ouyang et al. 2022, arXiv:2203.02155, figure 36); 1 alone is no alarm.
_FAR, _TIMES, _FURTHER = 1.0, 8.0, 10.0
_LASTING, _WINDOW = 3, 20
#: Values of the policy near its reference from which the usual divergence is known.
_KNOWN = 3


@dataclass(slots=True)
class _KlBlowupState:
    """The history of the divergence, the penalty in the loss, and the policy's first entropy."""

    history: Window = field(default_factory=lambda: Window(_WINDOW))
    streak: Streak = field(default_factory=Streak)
    kl_penalty: KlPenalty = field(default_factory=KlPenalty)
    entropy: float = float("nan")
    is_reported: bool = False


@rule(
    "kl-blowup",
    needs=("scalar/policy/kl",),
    phase=OPTIMIZER,
    memory=_KlBlowupState,
    warm_up=_LASTING + 5,
    is_optional=True,
    fires_on=(
        Recording({"scalar/policy/kl": (*_CALM, 0.5, 1.5, 4.0, 9.0), "scalar/policy/entropy": 0.4}),
        Recording({"scalar/policy/kl": tuple(0.001 * 1.6**step for step in range(30))}),
        # from the start, because the distance is rewarded
        Recording({"scalar/policy/kl": (0.0, 0.12, 0.29, 1.2, 2.2, 1.9, 2.3, 3.4, 3.2, 3.4)}),
        # before it is far: the loss is a negative multiple of the distance
        Recording({"scalar/policy/kl": _CALM[:8], "scalar/loss": tuple(-0.5 * value for value in _CALM[:8])}),
    ),
    silent_on=(
        Recording({"scalar/policy/kl": _CALM}),
        # the distance costs something; and a loss that only happens to fall as it grows
        Recording({"scalar/policy/kl": _CALM, "scalar/loss": tuple(0.05 * value for value in _CALM)}),
        Recording({"scalar/policy/kl": _CALM, "scalar/loss": tuple(-0.01 * step**0.5 for step in range(30))}),
        Recording({"scalar/policy/kl": (*_CALM, 2.0, 0.05, 0.05)}),
        # sums over long answers, rising slowly
        Recording({"scalar/policy/kl": tuple(0.3 * step for step in range(40))}),
    ),
)
def check(context: StepContext, memory: _KlBlowupState) -> Iterator[Finding]:
    """Report a policy that runs away from its reference.

    The rule fires when, for three records, the divergence from the reference is above 1 nat and above 8 times its
    median over the 20 values before, or once above 10 times that limit. Values beyond the limit do not enter the
    median. At such a distance the penalty no longer holds the policy, and it optimises something that the reward was
    not made for (Gao et al. 2023, arXiv:2210.10760).

    The rule also fires when the loss has been one negative multiple of the divergence, to three digits, for 4 records
    in which the divergence doubled: the penalty has the wrong sign. Raise the coefficient, lower the rate, and check
    its sign.
    """
    divergence = context.scalar("policy/kl")
    entropy = context.scalar("policy/entropy")
    memory.entropy = entropy if entropy is not None and np.isnan(memory.entropy) else memory.entropy
    if divergence is None or memory.is_reported or not np.isfinite(divergence):
        return
    memory.kl_penalty.learn(context)
    if memory.kl_penalty.has_wrong_sign:
        memory.is_reported = True
        yield _paid(context, memory.kl_penalty, divergence)
        return
    usual = memory.history.median()
    is_far = len(memory.history) >= _KNOWN and divergence > max(_FAR, _TIMES * usual)
    if not is_far:
        memory.history.add(divergence)
    length = memory.streak.update(is_far, context.step)
    if length < _LASTING and not (is_far and divergence > _FURTHER * max(_FAR, _TIMES * usual)):
        return
    memory.is_reported = True
    evidence = {"kl": divergence, "usual_kl": usual, "limit": max(_FAR, _TIMES * usual)}
    if entropy is not None:
        evidence |= {"entropy": entropy, "first_entropy": memory.entropy}
    yield context.finding(
        ROOT_SITE,
        "scalar/policy/kl",
        evidence,
        first_step=memory.streak.since,
        position=0,
        explanation=f"the policy's divergence from its reference was {usual:.3g}; since step {memory.streak.since} "
        f"it has been above {max(_FAR, _TIMES * usual):.3g} nats, and is {divergence:.3g} now",
        advice="raise the coefficient of the divergence, lower the rate, clip the ratios, or stop the inner epochs "
        "at a target divergence; check that the reference is the model that the policy started as",
        confidence=0.9,
    )


def _paid(context: StepContext, kl_penalty: KlPenalty, divergence: float) -> Finding:
    return context.finding(
        ROOT_SITE,
        "scalar/loss",
        {"factor": kl_penalty.factor, "records": kl_penalty.records, "kl": divergence, "lowest_kl": kl_penalty.low},
        first_step=kl_penalty.since,
        position=0,
        explanation=f"for {kl_penalty.records} records the loss has been {kl_penalty.factor:.4g} times the "
        f"divergence from the reference, which went from {kl_penalty.low:.3g} to {kl_penalty.high:.3g} nats; the "
        "penalty has the wrong sign and rewards the distance",
        advice="check the sign of the coefficient of the divergence, and the sign with which it enters the loss or "
        "the reward; start again from the reference",
        confidence=0.95,
    )
