"""A validation loss that rises while the training loss falls."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from ...storage import ROOT_SITE, Finding
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..recording import Recording
from ..rule import LOSS, rule
from ..running_statistics import Window

#: Share above the best evaluation, and evaluations in a row: Prechelt 1998 ("Early stopping - but when?") stops at 5 %
#: and more of generalisation loss; with 10 % and three in a row none of our noisy healthy curves is reported.
_WORSE, _LASTING = 0.10, 3
#: Evaluations in each of two groups since the best one. Without a trend, all newer ones are worse than all older ones
#: with a chance of 1 in 70, and of 1 in 630 if the best one comes before them as well.
_GROUP = 4
_TURNS = (*(0.5 + 0.04 * at for at in range(10)), *(0.9 - 0.01 * at for at in range(20)))
_FALL = tuple(2.0 * 0.9**step for step in range(30))


@dataclass(slots=True)
class _OverfittingState:
    """The training loss, the curves of the evaluations, and whether the rule has reported."""

    training: Window = field(default_factory=lambda: Window(20))
    curves: dict[str, "_Curve"] = field(default_factory=dict)
    is_reported: bool = False


@dataclass(slots=True)
class _Curve:
    """One measure of the evaluations, lower is better: its best value, and the training loss at that time."""

    values: Window = field(default_factory=lambda: Window(8))
    best: float = float("inf")
    best_step: int = 0
    at_best: float = float("nan")
    worse: int = 0
    seen: int = 0
    since: list[float] = field(default_factory=list)

    def has_turned(self, value: float, step: int, training: float) -> bool:
        """Return whether the curve has been worse than its best for so long, or rises so surely, that it is final."""
        self.seen += 1
        self.since.append(value)
        if value < self.best:
            self.best, self.best_step, self.at_best, self.worse = value, step, training, 0
            self.since.clear()
        self.values.add(value)
        noise = self.values.noise() if self.seen > 3 else 0.0
        is_worse = value > self.best + max(_WORSE * abs(self.best), 3 * noise)
        self.worse = self.worse + 1 if is_worse and training < self.at_best else 0
        return self.worse >= _LASTING or (training < self.at_best and self._rises(noise))

    def _rises(self, noise: float) -> bool:
        """Return whether all newer evaluations are worse than all older ones, and beyond noise worse than the best."""
        older, newer = self.since[-2 * _GROUP : -_GROUP], self.since[-_GROUP:]
        if len(older) < _GROUP or min(newer) <= max(older):
            return False
        return min(newer) > self.best + max(_WORSE * abs(self.best), noise)


def _skip_window(lookahead: Lookahead, memory: _OverfittingState) -> SkipWindow | None:
    """Skip records while nothing is evaluated and the loss is finite."""
    if memory.is_reported:
        return lookahead.whole

    def learn(records: int) -> None:
        for loss in lookahead.known("loss", records):
            memory.training.add(loss)

    until = lookahead.until_scalar("validation/loss", "validation/accuracy")
    return SkipWindow(min(lookahead.until_not_finite("loss"), until), learn)


@rule(
    "overfitting",
    needs=("scalar/loss", "scalar/validation/loss"),
    phase=LOSS,
    skip_window=_skip_window,
    memory=_OverfittingState,
    warm_up=4,
    is_optional=True,
    fires_on=(
        Recording(
            {
                "scalar/loss": _FALL,
                "scalar/validation/loss": tuple(2.0 - 0.1 * min(at, 10) + 0.08 * max(at - 10, 0) for at in range(30)),
            }
        ),
        # a loss that stays while answers go wrong
        Recording(
            {
                "scalar/loss": _FALL,
                "scalar/validation/loss": 0.9,
                "scalar/validation/accuracy": _TURNS,
            }
        ),
        # by less in each evaluation than these differ by
        Recording(
            {
                "scalar/loss": _FALL,
                "scalar/validation/loss": (1.4, 1.0, *(1.08 + 0.02 * at + 0.06 * (at % 3) for at in range(18))),
            }
        ),
    ),
    silent_on=(
        # worse than one lucky evaluation, and no worse than that
        Recording(
            {
                "scalar/loss": _FALL,
                "scalar/validation/loss": (1.4, 1.0, *(1.1 + 0.1 * (at % 3) for at in range(18))),
            }
        ),
        # broken, not overfitted
        Recording(
            {
                "scalar/loss": (*_FALL[:12], *(float("nan"),) * 18),
                "scalar/validation/accuracy": (*_TURNS[:12], *(0.1,) * 18),
            }
        ),
        # the training loss stands still
        Recording({"scalar/loss": 0.5, "scalar/validation/loss": 0.5, "scalar/validation/accuracy": _TURNS}),
        Recording({"scalar/loss": _FALL, "scalar/validation/loss": tuple(1.1 * loss for loss in _FALL)}),
        # both rise: something else
        Recording({"scalar/loss": tuple(reversed(_FALL)), "scalar/validation/loss": tuple(reversed(_FALL))}),
        # noise around a floor
        Recording({"scalar/loss": _FALL, "scalar/validation/loss": (1.0, 0.6, 0.5, 0.52, 0.49, 0.53, 0.5, 0.51) * 3}),
    ),
)
def check(context: StepContext, memory: _OverfittingState) -> Iterator[Finding]:
    """Report a validation loss that has turned while the training loss falls.

    The rule fires when three evaluations in a row are 10 % and 3 spreads above the best one, and the training loss has
    fallen since then. It also fires on a slow turn: the newest four evaluations are all worse than the four before
    them, all eight come after the best one, and the newest are 10 % and one spread above it.

    The training loss is the median of its newest 20 values. The evaluation is its loss, or the share of wrong answers
    if an accuracy is logged: a network may grow less sure of its mistakes and so keep its loss. A large gap alone is no
    finding. Go back to the best checkpoint, or regularise.
    """
    if memory.is_reported:
        return
    loss, accuracy = context.scalar("loss"), context.scalar("validation/accuracy")
    if loss is not None:
        memory.training.add(loss)
        memory.is_reported |= not isfinite(loss)  # nothing that is measured from here on means anything
    if memory.is_reported:
        return
    measured = {"loss": context.scalar("validation/loss"), "accuracy": None if accuracy is None else 1.0 - accuracy}
    training = memory.training.median()
    for name, value in measured.items():
        if value is None or not isfinite(value) or (name == "accuracy" and not 0.0 <= value <= 1.0):
            continue
        curve = memory.curves.setdefault(name, _Curve())
        if curve.has_turned(value, context.step, training):
            memory.is_reported = True
            yield _report(context, name, value, curve, training)
            return


def _report(context: StepContext, name: str, value: float, curve: _Curve, training: float) -> Finding:
    best, newest = (1.0 - curve.best, 1.0 - value) if name == "accuracy" else (curve.best, value)
    return context.finding(
        ROOT_SITE,
        f"scalar/validation/{name}",
        {
            f"validation_{name}": newest,
            f"best_validation_{name}": best,
            "best_step": curve.best_step,
            "training_loss": training,
            "training_loss_at_best": curve.at_best,
        },
        severity="warning",
        first_step=curve.best_step,
        position=0,
        explanation=f"the validation {name} was best at step {curve.best_step} with {best:.4g} and is {newest:.4g} "
        f"now, while the training loss fell further, from {curve.at_best:.4g} to {training:.4g}",
        advice=f"go back to the checkpoint of step {curve.best_step}; more data, augmentation, dropout, weight decay "
        "or a smaller model delay the turn",
        confidence=0.9,
    )
