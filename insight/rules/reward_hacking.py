"""A reward that rises while the policy gets worse."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..recording import Recording
from ..rule import LOSS, rule
from ..running_statistics import Window, trend

_WINDOW = 24
#: Mann-Kendall score; 2.6 is one in two hundred by chance, and both trends must reach it in opposite directions.
_SCORE = 2.6
#: Spreads of one value by which a jump must exceed all progress before.
_JUMP, _LASTING = 8.0, 5
_RISE = tuple(0.1 + 0.02 * step + 0.005 * (-1) ** step for step in range(40))


@dataclass(slots=True)
class _RewardHackingState:
    """The newest rewards and held-out rewards."""

    rewards: Window = field(default_factory=lambda: Window(_WINDOW))
    held_out: Window = field(default_factory=lambda: Window(_WINDOW))
    before: Window = field(default_factory=lambda: Window(_WINDOW))
    jumped: int = 0
    jumped_at: int = 0
    since: int = 0
    reported: set[str] = field(default_factory=set)


@rule(
    "reward-hacking",
    needs=("scalar/reward/mean",),
    phase=LOSS,
    memory=_RewardHackingState,
    warm_up=12,
    is_optional=True,
    asks="reference",
    fires_on=(
        Recording({"scalar/reward/mean": _RISE, "scalar/reward/held_out": tuple(0.5 - 0.01 * at for at in range(40))}),
        Recording({"scalar/reward/mean": (*_RISE[:20], *(3.0 + 0.01 * at for at in range(10)))}),
    ),
    silent_on=(
        Recording({"scalar/reward/mean": _RISE, "scalar/reward/held_out": _RISE}),
        Recording({"scalar/reward/mean": _RISE}),
        Recording({"scalar/reward/mean": (*_RISE[:20], 3.0, 0.5, 0.5, 0.5, 0.5, 0.5)}),
        Recording({"scalar/reward/mean": (0.0, 1.0, 0.3, 0.6, 0.1) * 8}),
    ),
)
def check(context: StepContext, memory: _RewardHackingState) -> Iterator[Finding]:
    """Report a reward that rises while the held-out reward falls, or that jumps at once.

    With a held-out reward, or a person's judgement, opposite trends over the newest 24 values, both beyond chance, are
    the definition of over-optimisation (Gao et al. 2023, arXiv:2210.10760, figure 1). Without one, the rule gives a
    notice: the reward gains more within two records than in the whole training before, by 8 spreads, and keeps it.
    Exploits are found at once, and so is the first success on a rare reward. Only the answers themselves can tell: read
    those with the highest rewards.
    """
    reward, held_out = context.scalar("reward/mean"), context.scalar("reward/held_out")
    if reward is None or not np.isfinite(reward):
        return
    memory.rewards.add(reward)
    if held_out is not None:
        memory.held_out.add(held_out)
        yield from _diverges(context, memory, reward, held_out)
    yield from _jumps(context, memory, reward)


def _diverges(context: StepContext, memory: _RewardHackingState, reward: float, held_out: float) -> Iterator[Finding]:
    if "held_out" in memory.reported or len(memory.held_out) < 8:
        return
    scores = trend(memory.rewards.newest(_WINDOW)), trend(memory.held_out.newest(_WINDOW))
    fall = memory.held_out.newest(_WINDOW)[0] - held_out
    if scores[0] < _SCORE or scores[1] > -_SCORE or fall < 0.05 * abs(memory.held_out.newest(_WINDOW)[0]):
        return
    memory.reported.add("held_out")
    yield context.finding(
        ROOT_SITE,
        "scalar/reward/held_out",
        {"reward": reward, "held_out": held_out, "reward_trend": scores[0], "held_out_trend": scores[1]},
        first_step=max(context.step - len(memory.rewards) + 1, 0),
        position=0,
        explanation=f"the reward rises to {reward:.3g} while the held-out reward falls to {held_out:.3g}; the policy "
        "exploits what the reward counts, not what it is meant for",
        advice="read the answers with the highest rewards; stop at the best held-out reward, raise the divergence "
        "penalty, and close the gap in the reward function",
        confidence=0.9,
    )


def _jumps(context: StepContext, memory: _RewardHackingState, reward: float) -> Iterator[Finding]:
    history = memory.before
    if "jump" in memory.reported:
        return
    if len(history) < 12:
        history.add(reward)
        return
    values = history.newest(_WINDOW)
    gained = max(values) - min(values)
    high = reward > max(values) + max(gained, _JUMP * history.noise())
    memory.jumped_at = context.step if high and memory.jumped == 0 else memory.jumped_at
    memory.jumped = memory.jumped + 1 if high else 0
    if not high:
        history.add(reward)
    if memory.jumped < _LASTING:
        return
    memory.reported.add("jump")
    yield context.finding(
        ROOT_SITE,
        "scalar/reward/mean",
        {"reward": reward, "highest_before": max(values), "gained_before": gained, "records": memory.jumped},
        severity="info",
        first_step=memory.jumped_at,
        position=0,
        explanation=f"the reward was at most {max(values):.3g} and has been near {reward:.3g} since step "
        f"{memory.jumped_at}; it gained more at once than in all of the {len(values)} records before",
        advice="read the answers with the highest rewards, and log reward/held_out, a reward that the policy is not "
        "trained on",
        confidence=0.6,
    )
