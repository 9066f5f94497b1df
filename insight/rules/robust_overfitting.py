"""Robust accuracy that falls on held-out data while it rises on the training data."""

from collections.abc import Iterator
from dataclasses import dataclass

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..recording import Recording
from ..rule import LOSS, rule

#: Rice et al. 2020, arXiv:2002.11569, table 1: from best to last epoch robust test accuracy falls by 5 to 10 points;
#: 3 points are above the noise of a thousand samples (our choice).
_FALL, _LASTING = 0.03, 3
_RISE = tuple(0.3 + 0.02 * step for step in range(16))


@dataclass(slots=True)
class _RobustOverfittingState:
    """The best evaluation under attack, and the training accuracy under attack at that time."""

    best: float = -1.0
    best_step: int = 0
    at_best: float = float("nan")
    training: float = float("nan")
    worse: int = 0
    is_reported: bool = False


@rule(
    "robust-overfitting",
    needs=("scalar/robust/train_accuracy", "scalar/robust/validation_accuracy"),
    phase=LOSS,
    memory=_RobustOverfittingState,
    warm_up=_LASTING + 1,
    is_optional=True,
    fires_on=(
        Recording(
            {
                "scalar/robust/train_accuracy": _RISE,
                "scalar/robust/validation_accuracy": tuple(
                    0.3 + 0.02 * min(at, 6) - 0.02 * max(at - 6, 0) for at in range(16)
                ),
            }
        ),
    ),
    silent_on=(
        Recording({"scalar/robust/train_accuracy": _RISE, "scalar/robust/validation_accuracy": _RISE}),
        Recording({"scalar/robust/train_accuracy": _RISE, "scalar/robust/validation_accuracy": (0.4, 0.42, 0.41) * 5}),
    ),
)
def check(context: StepContext, memory: _RobustOverfittingState) -> Iterator[Finding]:
    """Report robust held-out accuracy that falls while robust training accuracy rises.

    The rule fires when three evaluations in a row are 3 points below the best one and robust training accuracy has
    risen since then. Adversarial training overfits more than plain training, soon after the first decay of the rate
    (Rice et al. 2020, arXiv:2002.11569). Take the best checkpoint, or stop early by robust held-out accuracy.
    """
    training, validation = context.scalar("robust/train_accuracy"), context.scalar("robust/validation_accuracy")
    memory.training = memory.training if training is None else training
    if validation is None or memory.is_reported:
        return
    if validation > memory.best:
        memory.best, memory.best_step, memory.at_best, memory.worse = validation, context.step, memory.training, 0
    is_worse = validation < memory.best - _FALL and memory.training > memory.at_best
    memory.worse = memory.worse + 1 if is_worse else 0
    if memory.worse < _LASTING:
        return
    memory.is_reported = True
    yield context.finding(
        ROOT_SITE,
        "scalar/robust/validation_accuracy",
        {
            "robust_accuracy": validation,
            "best_robust_accuracy": memory.best,
            "best_step": memory.best_step,
            "robust_training_accuracy": memory.training,
        },
        severity="warning",
        first_step=memory.best_step,
        position=0,
        explanation=f"robust accuracy on held-out data was best at step {memory.best_step} with {memory.best:.1%} "
        f"and is {validation:.1%} now, while on the training data it rose from {memory.at_best:.1%} to "
        f"{memory.training:.1%}",
        advice=f"take the checkpoint of step {memory.best_step}, stop early by robust held-out accuracy, or average "
        "the weights over the last epochs",
        confidence=0.9,
    )
