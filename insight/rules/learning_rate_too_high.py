"""Updates that are too large, and a loss that pays for them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..indicators.loss_anchor import LossAnchor
from ..indicators.update_stability import LARGE_UPDATE, UpdateStability, is_cold_start
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Window

_MODEL = chain("one:Dense", "two:Dense")
_EMBEDDINGS = chain("user:Embedding", "item:Embedding")
#: Records until a cold start is judged, and losses among them that must be far above the first; a loss that merely
#: falls slowly has none.
_JUDGED_AT, _THROWN = 40, 3
#: Losses of a player whose median is judged, and times the loss of chance that a lost game stays below. Our choice.
_PLAYED, _FAR = 30, 20.0


def _ended_after(update: float, nans: float) -> Recording:
    """A step with this update, and the exception in the next forward pass, which has so many NaN."""
    values = {
        "scalar/loss": (2.3, None),
        "one.weight update/ratio_to_weight": (update, None),
        "one activation/nans": (0.0, nans),
    }
    error = {"type": "RuntimeError", "message": "all elements of input should be between 0 and 1"}
    return Recording(values, _MODEL, events=(Event("exception", 1, data=error),))


def _player(losses: tuple[float, ...]) -> Recording:
    """A game of two networks, whose first step was several times as large as the weights."""
    values = {"scalar/loss": losses, "one.weight update/ratio_to_weight": (5.0, *(0.001,) * (len(losses) - 1))}
    return Recording(values, _MODEL, events=(Event("training_kind", 0, data={"name": "adversarial", "reasons": []}),))


@dataclass(slots=True)
class _Game:
    """The loss of one player of two, which begins at chance: the score of a coin, in one term or in two.

    Attributes:
        first: The first loss.
        recent: The newest ones.
    """

    first: float = float("nan")
    recent: Window = field(default_factory=lambda: Window(_PLAYED))

    def is_thrown(self, context: StepContext) -> bool:
        """Take the record's loss; return whether the player is far worse than a coin, and stays so."""
        loss = context.scalar("loss")
        if loss is None or context.kind.name != "adversarial":
            return False
        self.first = loss if np.isnan(self.first) else self.first
        self.recent.add(loss)
        began_at_chance = any(abs(self.first - chance) <= 0.03 * chance for chance in (np.log(2), 2 * np.log(2)))
        return began_at_chance and len(self.recent) >= _PLAYED and self.recent.median() > _FAR * self.first


@dataclass(slots=True)
class _LearningRateTooHighState:
    """The stability of the updates so far, the lowest loss, and whether the rule is done."""

    stability: UpdateStability = field(default_factory=UpdateStability)
    game: _Game = field(default_factory=_Game)
    anchor: LossAnchor = field(default_factory=LossAnchor)
    is_done: bool = False
    lowest: float = float("inf")


@rule(
    "learning-rate-too-high",
    needs=("scalar/loss", "update"),
    triggers=("scalar/loss", "update", "event/exception"),
    phase=OPTIMIZER,
    memory=_LearningRateTooHighState,
    warm_up=10,
    essential=True,
    fires_on=(
        Recording(
            {
                "scalar/loss": (2.3, 2.2, 2.1, 2.0, 90.0, 800.0, 7000.0),
                "scalar/learning_rate": (0.1, 0.1, 0.1, 30.0, 30.0, 30.0, 30.0),
                "one.weight update/ratio_to_weight": (0.01, 0.01, 0.01, 3.0, 40.0, 300.0, 2000.0),
            },
            _MODEL,
        ),
        # a policy that has one answer left
        Recording(
            {
                "scalar/loss": 0.0,
                "scalar/policy/entropy": (2.3, 1.0, 0.5, 0.01, 0.01),
                "one.weight update/ratio_to_weight": (0.8, 0.5, 0.1, 0.1, 0.1),
            },
            _MODEL,
        ),
        # in the step of the jump
        Recording(
            {
                "scalar/loss": (2.0,) * 12,
                "scalar/learning_rate": (*(0.01,) * 11, 1.0),
                "one.weight update/ratio_to_weight": (*(0.01,) * 11, 0.9),
            },
            _MODEL,
        ),
        # a recommender, which has embeddings only
        Recording(
            {
                "scalar/loss": (2.3, 5.0, 40.0, 900.0, 3e4),
                "user.weight update/ratio_to_weight": (3.6, 3.7, 4.5, 4.4, 4.9),
                "user.weight update/l2_norm": (36.0, 150.0, 700.0, 3e3, 2e4),
            },
            _EMBEDDINGS,
        ),
        Recording(
            {"scalar/loss": (2.3, 9.0, float("nan")), "one.weight update/ratio_to_weight": (0.8, 20.0, 900.0)}, _MODEL
        ),
        _ended_after(update=20.0, nans=7.0),
        _player((1.386, *(400.0, 30.0, 9000.0) * 12)),
        # a first step that leaves nothing of the weights
        Recording(
            {
                "scalar/loss": (2.9, 6.7, 5.7, 3.2, 2.8, 2.5),
                "one.weight update/ratio_to_weight": (1.4, 0.07, 0.06, 0.05, 0.04, 0.04),
            },
            _MODEL,
        ),
    ),
    silent_on=(
        # embeddings that start near zero
        Recording(
            {
                "scalar/loss": (2.3, 2.4, 2.2, 2.0, 1.9),
                "user.weight update/ratio_to_weight": (3.6, 0.9, 0.5, 0.2, 0.1),
                "user.weight update/l2_norm": 0.3,
            },
            _EMBEDDINGS,
        ),
        Recording({"scalar/loss": (2.3, 2.2, 2.1), "one.weight update/ratio_to_weight": (0.14, 0.1, 0.08)}, _MODEL),
        # a difference of energies, around zero, of weights that begin small
        Recording({"scalar/loss": (-0.99, 0.71, 0.4, 0.1, -0.2), "one.weight update/ratio_to_weight": 0.32}, _MODEL),
        # the loss rises first and the update follows: a bad batch, not the rate
        Recording(
            {
                "scalar/loss": (2.3, 2.2, 40.0, 2.1, 2.0),
                "one.weight update/ratio_to_weight": (0.01, 0.01, 0.5, 0.01, 0.01),
            },
            _MODEL,
        ),
        # the end of a warm-up in one leap, which the weights bear
        Recording(
            {
                "scalar/loss": (2.0,) * 12,
                "scalar/learning_rate": (*(1e-6,) * 11, 1e-3),
                "one.weight update/ratio_to_weight": (*(1e-5,) * 11, 0.02),
            },
            _MODEL,
        ),
        # a policy that becomes sure by and by
        Recording(
            {
                "scalar/loss": 0.0,
                "scalar/policy/entropy": (2.3, 1.0, 0.5, 0.01, 0.01),
                "one.weight update/ratio_to_weight": 0.02,
            },
            _MODEL,
        ),
        # a value from elsewhere is not finite while the updates were small
        Recording(
            {"scalar/loss": (2.3, 2.2, float("nan")), "one.weight update/ratio_to_weight": (0.01, 0.01, 0.01)}, _MODEL
        ),
        _ended_after(update=20.0, nans=0.0),
        # weights that begin small, and a loss that falls from there
        Recording(
            {
                "scalar/loss": (2.9, 2.7, 2.4, 3.2, 2.0, 1.9),
                "one.weight update/ratio_to_weight": (1.4, 0.07, 0.06, 0.05, 0.04, 0.04),
            },
            _MODEL,
        ),
        _ended_after(update=0.1, nans=7.0),
        # a generator whose critic sees through it
        _player((0.693, *(4.0, 9.0, 7.0) * 12)),
        # critics of Wasserstein's distance, whose loss has no measure
        _player((0.02, *(400.0, -30.0, 90.0) * 12)),
    ),
)
def check(context: StepContext, memory: _LearningRateTooHighState) -> Iterator[Finding]:
    """Report updates that are too large, followed by a loss that has lost its progress.

    The rule fires after updates of 0.3 of the weights or more in one step, when the loss then loses all its progress.
    Both are needed, in this order: some networks bear large updates, and a loss that rises first has another reason.
    The update is the median over the weight matrices of update norm over weight norm. About 0.001 is usual (Karpathy,
    "A Recipe for Training Neural Networks"), 0.15 was the largest in our healthy trainings, 0.3 is our limit.

    Where no parameter is a matrix of a product, the update is that of all parameters together, and the loss must have
    passed all measure: healthy scalars, vectors and embeddings that start near zero take large steps as well.

    A loss of unknown meaning, or with several terms, may lose its progress for other reasons: then it is a warning. If
    it has been below zero, it must have passed all measure.

    A first update as large as the weights leaves nothing of how they were initialised. It is a warning if the loss is
    1.5 times the first one in two of the next ten records.

    An update of three times the weights' norm and more, after which a forward pass is not finite and raises, is
    reported as well.

    Two kinds of harm need not show in the loss: attention that looks at one token after such updates, and a policy with
    a single answer left. A rate that rises tenfold in one step, above all its values in ten records or more, is
    reported at once if its update is above the limit and ten times the usual one. An adaptive optimizer that starts at
    its full rate is judged after 40 records: if the run recovers, it lacks warm-up.

    The loss of a player in a game of two networks tells little, unless it begins at that of a coin, log 2 or twice it:
    twenty times as much in the median of thirty records, after such updates, is a lost game (a warning).

    Divide the rate by ten or more, and go back to a checkpoint from before.
    """
    stability = memory.stability
    if memory.is_done:
        return
    if stability.has_thrown_the_weights() and context.events("exception") and _is_not_finite(context):
        memory.is_done = True
        harm = "the next forward pass is not finite and ended in an exception"
        yield _report(context, stability, stability.large_from, harm=harm)
        return
    stability.update(context)
    if memory.game.is_thrown(context) and stability.large_first is not None:
        memory.is_done = True
        median = memory.game.recent.median()
        harm = f"the loss, which began at that of chance ({memory.game.first:.4g}), stays near {median:.4g} since"
        yield replace(_report(context, stability, stability.large_from, harm=harm), severity="warning")
        return
    memory.anchor.learn(context)
    if stability.is_damaged() and context.has_a_surrogate_loss:  # such a loss tells nothing: there is no use in waiting
        memory.is_done = True
        yield _report(context, stability, stability.large_from)
        return
    if (jump := stability.leap(context)) is not None:
        memory.is_done = True
        yield _leap(context, stability, jump)
        return
    memory.lowest = min(memory.lowest, stability.loss)
    is_vague = memory.lowest < 0 and not memory.anchor.is_one_known_loss(context)
    if is_vague and not (stability.is_beyond_measure() or stability.is_damaged()):
        return  # a difference, whose progress is no matter of its sign
    cold = is_cold_start(context, stability)
    if not is_vague and stability.has_begun_anew():
        memory.is_done = True
        yield replace(_report(context, stability, stability.large_from), severity="warning", confidence=0.8)
        return
    if cold and stability.records < _JUDGED_AT and not stability.is_beyond_measure():
        return
    is_late = cold and stability.records == _JUDGED_AT
    is_thrown = stability.thrown >= _THROWN and not stability.has_no_matrix
    stuck = is_late and is_thrown and not stability.has_recovered()
    if (
        stuck
        or (stability.is_damaged() and not cold)
        or (stability.is_ruined(context.step) and not (cold and stability.has_recovered()))
    ):
        memory.is_done = True
        since = stability.large_from if cold or stability.large_since is None else stability.large_since
        is_sure = stability.is_beyond_measure() or stability.is_damaged() or memory.anchor.is_one_known_loss(context)
        yield replace(_report(context, stability, since), severity="error" if is_sure else "warning")


def _is_not_finite(context: StepContext) -> bool:
    activations = context.table("activation")
    return activations is not None and activations.holds_non_finite


def _report(context: StepContext, stability: UpdateStability, since: int, *, harm: str = "") -> Finding:
    jumped = stability.jumped_at is not None and stability.jumped_at <= since + 1
    if jumped and stability.jumped_at is not None:
        since = min(since, stability.jumped_at)
    harm = harm or (
        "attention or the policy has lost its variety since then"
        if stability.is_damaged()
        else f"the loss went from {stability.usual.median():.4g} to {stability.loss:.4g}"
    )
    what = "all parameters together" if stability.has_no_matrix else "the typical weight matrix"
    norm = "their" if stability.has_no_matrix else "its"
    history = (
        f"at step {stability.jumped_at} the rate jumped to {stability.jump:.3g} times its value"
        if jumped
        else "the rate has not jumped, so it was too high from the start"
    )
    return context.finding(
        ROOT_SITE,
        "update/ratio_to_weight",
        {
            "largest_update_ratio": stability.peak,
            "limit": LARGE_UPDATE,
            "learning_rate": stability.rate,
            "rate_jump": stability.jump if jumped else 1.0,
            "loss": stability.loss,
            "usual_loss": stability.usual.median(),
            "first_loss": stability.first,
        },
        first_step=since,
        position=0,
        explanation=f"since step {since} one step changes {what} by up to {stability.peak:.2g} "
        f"times {norm} norm, and {harm}; {history}",
        advice=_advice(stability, since, jumped=jumped),
        confidence=0.9,
    )


def _advice(stability: UpdateStability, since: int, *, jumped: bool) -> str:
    """Return how to undo it: revert the jump of the rate, or start with a smaller one."""
    if jumped:
        return (
            f"check what sets the rate ({stability.rate:.3g}) at step {stability.jumped_at}, and go back to a "
            f"checkpoint from before that step"
        )
    rate = "" if np.isnan(stability.rate) else f" ({stability.rate:.3g})"
    smaller = (
        f"divide the learning rate{rate} by about {_divisor(stability.onset):.0f}, so that updates are near 0.001 to "
        f"0.01 of the weights"
    )
    return f"{smaller}; go back to a checkpoint from before step {since}" if since else f"{smaller}; start again"


def _leap(context: StepContext, stability: UpdateStability, before: float) -> Finding:
    """Return the finding for a rate that jumped in this step, before the loss shows the harm."""
    return context.finding(
        ROOT_SITE,
        "update/ratio_to_weight",
        {"update_ratio": stability.peak, "limit": LARGE_UPDATE, "usual_ratio": before, "rate_jump": stability.jump},
        position=0,
        explanation=f"at step {context.step} the rate jumped to {stability.jump:.3g} times its value, above "
        f"everything before; the step changes the typical weight matrix by {stability.peak:.2g} times its norm, where "
        f"{before:.2g} was usual",
        advice=f"divide the learning rate ({stability.rate:.3g}) by {_divisor(stability.onset):.0f} or more; check "
        "what sets the rate at this step; go back to a checkpoint from before it",
        confidence=0.8,
    )


def _divisor(onset: float) -> float:
    """Return the power of ten that brings the first too large update down to about a hundredth of the weights.

    The later ones are larger because the first ones have thrown the weights far away, not because of the rate.
    """
    return float(10.0 ** np.clip(np.round(np.log10(onset / 0.01)), 1, 6))
