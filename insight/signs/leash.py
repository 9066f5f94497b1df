"""Whether a policy is paid for its distance from its reference, where that should cost it something."""

from dataclasses import dataclass
from math import isfinite
from typing import Final

from ..view.moment import Moment

#: How exactly the loss must be a multiple of the divergence; sums in float32 are good to 1e-5.
_EXACT: Final = 1e-3
#: Records in a row, and times by which the divergence must have varied meanwhile, after which no chance is left: one
#: number explains that many losses to three digits.
_RECORDS, _VARIED = 4, 2.0
#: Divergences below it are rounding.
_LEAST: Final = 1e-6


@dataclass(slots=True)
class Leash:
    """For how long the loss has been one multiple of the divergence, and which.

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

    def learn(self, now: Moment) -> None:
        """Takes the loss and the divergence of this record, if it has both."""
        loss, divergence = now.scalar("loss"), now.scalar("policy/kl")
        if loss is None or divergence is None or not isfinite(loss) or not divergence > _LEAST:
            return
        if not abs(loss - self.factor * divergence) <= _EXACT * abs(loss):
            self.factor, self.since, self.records = loss / divergence, now.step, 0
            self.low, self.high = float("inf"), 0.0
        self.records += 1
        self.low, self.high = min(self.low, divergence), max(self.high, divergence)

    @property
    def pays(self) -> bool:
        """True when the loss has been one negative multiple of the divergence: the farther, the better."""
        return self.factor < 0 and self.records >= _RECORDS and self.high > _VARIED * self.low
