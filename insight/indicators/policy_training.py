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
#: Share of a training batch below which a forward is small.
_SMALL: Final = 0.5


@dataclass(slots=True)
class SelfMadeData:
    """Detects a model that makes its own data: counts forwards without gradients on less than half a batch.

    Nobody evaluates on so little in every fourth step. Who asks so little so often acts on the answer, and the
    loss is then of a task that changes with the model: that it rises says nothing of labels or steps (Mnih et al. 2015,
    "Human-level control through deep reinforcement learning").

    A policy that collects for many steps at once has many such forwards in one record.
    """

    records: int = 0
    small_evaluations: int = 0

    def learn(self, context: StepContext) -> None:
        """Take one record."""
        self.records += 1
        if context.table("batch/eval") is not None:
            self.small_evaluations += small_evaluations(context)

    def pass_by(self, records: int) -> None:
        """Count records without an evaluation."""
        self.records += records

    @property
    def is_self_made(self) -> bool:
        """True if there are a quarter as many such forwards as records, or more."""
        return self.small_evaluations >= max(_FEWEST, _SHARE * self.records)


def small_evaluations(context: StepContext) -> int:
    """Return how many forwards without gradients had less than half of the training batch."""
    whole = max(_sizes(context, "batch"), default=0.0)
    return sum(size < _SMALL * whole for size in _sizes(context, "batch/eval"))


def _sizes(context: StepContext, subject: str) -> list[float]:
    """Return the numbers of values in the first inputs of all calls."""
    table = context.table(subject)
    if table is None:
        return []
    sizes = table.column("size")
    rows = (row for row in range(len(sizes)) if table.present[row] and table.rows.sites[row] == ROOT_SITE)
    return [float(sizes[row]) for row in rows if sizes[row] > 0]
