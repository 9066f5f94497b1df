"""Groups whose answers all have the same reward, so that the policy learns nothing from them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...storage import ROOT_SITE, Finding
from ...storage.percent import percent
from ..context.step_context import StepContext
from ..recording import Recording
from ..rule import LOSS, rule
from ..running_statistics import Streak

#: Share of groups without a difference. Near the end of a training easy questions reach half (Yu et al. 2025,
#: arXiv:2503.14476, section 3.2), and at its start sparse rewards reach nearly all for a while; so only a lasting
#: share is reported.
_NEARLY_ALL = 0.95
_LASTING = 12


@dataclass(slots=True)
class _ZeroAdvantageState:
    """For how long nearly all groups have had equal rewards."""

    streak: Streak = field(default_factory=Streak)
    is_reported: bool = False


@rule(
    "zero-advantage",
    needs=("scalar/advantage/zero_share",),
    phase=LOSS,
    memory=_ZeroAdvantageState,
    warm_up=_LASTING,
    is_fact=True,
    is_optional=True,
    fires_on=(Recording({"scalar/advantage/zero_share": (0.2, 0.4, *(1.0,) * 12)}),),
    silent_on=(
        Recording({"scalar/advantage/zero_share": (0.2, 0.4, 0.6, 0.6, 0.5, 0.7, 0.6)}),
        Recording({"scalar/advantage/zero_share": (*(1.0,) * 8, 0.5) * 3}),
    ),
)
def check(context: StepContext, memory: _ZeroAdvantageState) -> Iterator[Finding]:
    """Report groups whose rewards are all equal.

    The rule fires when, for twelve records, 95 % of the groups or more have equal rewards. Advantages relative to the
    group (Shao et al. 2024, arXiv:2402.03300, section 4.1) are then exactly zero, so these groups bring no gradient but
    the penalty's. Look at the reward function first, then at the difficulty of the questions.
    """
    share = context.scalar("advantage/zero_share")
    if share is None or memory.is_reported:
        return
    if memory.streak.update(share >= _NEARLY_ALL, context.step) < _LASTING:
        return
    memory.is_reported = True
    reward = context.scalar("reward/mean")
    evidence = {"zero_share": share, "limit": _NEARLY_ALL, "records": memory.streak.length}
    yield context.finding(
        ROOT_SITE,
        "scalar/advantage/zero_share",
        evidence if reward is None else evidence | {"mean_reward": reward},
        first_step=memory.streak.since,
        position=0,
        explanation=f"since step {memory.streak.since} the rewards within {percent(share)} of the groups are all "
        "equal; their advantages are zero, and the policy learns nothing from them"
        + ("" if reward is None else f"; the mean reward is {reward:.3g}"),
        advice="check first whether the reward function returns the same for every answer; then mix the difficulty "
        "of the questions, sample at a higher temperature or in larger groups, and drop groups without a difference",
    )
