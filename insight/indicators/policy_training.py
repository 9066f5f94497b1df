"""Indicators of policy training: a KL penalty of the wrong sign, and data that the model makes itself."""

from dataclasses import dataclass
from math import isfinite
from typing import Final

from ...storage import ROOT_SITE
from ..context.step_context import StepContext

#: Relative error within which the loss is a multiple of the divergence; sums in float32 are exact to 1e-5.
_EXACT: Final = 1e-3
#: Records in a row, and factor by which the divergence must have varied, so that chance cannot explain one multiple to
#: three digits.
_RECORDS, _VARIED = 4, 2.0
#: Divergences below this are rounding.
_LEAST: Final = 1e-6


@dataclass(slots=True)
class KlPenalty:
    """Detects a loss that is one constant multiple of the divergence.

    On the policy's own samples a surrogate whose advantages are centred within their groups has the value zero,
    whatever its gradient: what is left of the loss is the penalty. Its factor must be positive.

    Attributes:
        factor: Loss over divergence.
        since: First step at which it was this.
    """

    factor: float = float("nan")
    since: int = 0
    records: int = 0
    low: float = float("inf")
    high: float = 0.0

    def learn(self, context: StepContext) -> None:
        """Take the loss and the divergence of this record, if it has both."""
        loss, divergence = context.scalar("loss"), context.scalar("policy/kl")
        if loss is None or divergence is None or not isfinite(loss) or not divergence > _LEAST:
            return
        if not abs(loss - self.factor * divergence) <= _EXACT * abs(loss):
            self.factor, self.since, self.records = loss / divergence, context.step, 0
            self.low, self.high = float("inf"), 0.0
        self.records += 1
        self.low, self.high = min(self.low, divergence), max(self.high, divergence)

    @property
    def has_wrong_sign(self) -> bool:
        """True when the loss has been one negative multiple of the divergence: the farther, the better."""
        return self.factor < 0 and self.records >= _RECORDS and self.high > _VARIED * self.low


#: Share of the records, and fewest records (our choice: evaluations are rarer, or have more samples than a batch).
_SHARE, _FEWEST = 0.25, 3


@dataclass(slots=True)
class SelfMadeData:
    """Detects a model that makes its own data: counts forwards without gradients on less than a training batch.

    Nobody evaluates on less than a batch in every fourth step. Who asks so little so often acts on the answer, and the
    loss is then of a task that changes with the model: that it rises says nothing of labels or steps (Mnih et al. 2015,
    "Human-level control through deep reinforcement learning").
    """

    records: int = 0
    small_evaluations: int = 0

    def learn(self, context: StepContext) -> None:
        """Take one record."""
        self.records += 1
        if context.table("batch/eval") is not None:
            self.small_evaluations += _is_small_evaluation(context)

    @property
    def is_self_made(self) -> bool:
        """True if a quarter of the records or more have such a forward."""
        return self.small_evaluations >= max(_FEWEST, _SHARE * self.records)


def _is_small_evaluation(context: StepContext) -> bool:
    evaluated = _size(context, "batch/eval")
    return evaluated > 0.0 and evaluated < _size(context, "batch")


def _size(context: StepContext, subject: str) -> float:
    """Return the number of values in the largest first input; zero if there was none."""
    table = context.table(subject)
    if table is None:
        return 0.0
    sizes = table.column("size")
    return max(
        (float(sizes[row]) for row in range(len(sizes)) if table.present[row] and table.rows.sites[row] == ROOT_SITE),
        default=0.0,
    )
