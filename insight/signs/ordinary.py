"""Whether the step before this record was an ordinary one: what changed the loss then was not the optimizer."""

from dataclasses import dataclass, field

from ..history.usual import Usual
from ..view.moment import Moment

#: Deviations, and how much the rate may have risen, of a step that is still an ordinary one (our choice).
_STRANGE, _RISE = 6.0, 1.5


@dataclass(slots=True)
class LastStep:
    """Learns of every record's own step how large it was, which the loss of the next record shows."""

    update: Usual = field(default_factory=lambda: Usual(is_log=True))
    rate: float = float("inf")
    is_ordinary: bool = True

    def learn(self, now: Moment) -> None:
        """Takes this record's step; `is_ordinary` speaks of it from here on."""
        deviates = self.update.update(now.typical_update)
        rate = now.scalar("learning_rate")
        rate = self.rate if rate is None else rate
        self.is_ordinary = not deviates > _STRANGE and rate <= _RISE * self.rate
        self.rate = rate
