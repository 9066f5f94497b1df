"""How far steps that the weights bear have carried them: what a loss that stands still is judged by."""

from dataclasses import dataclass
from math import isfinite

from ..view.moment import Moment
from .stability import LARGE_UPDATE


@dataclass(slots=True)
class Path:
    """Records with a loss, and the sum of their updates over the weights; anew after every update that is too large.

    A network that one such step has thrown somewhere stands still for that reason, whatever its data and its rate.

    Attributes:
        records: How many there were.
        length: The sum, in norms of the typical weight matrix.
        since: Step of the first of them.
    """

    records: int = 0
    length: float = 0.0
    since: int = 0

    def learn(self, now: Moment) -> None:
        """Takes this record's update."""
        update = now.typical_update
        if update >= LARGE_UPDATE:
            self.records, self.length = 0, 0.0
            return
        self.since = self.since if self.records else now.step
        self.records += 1
        self.length += update if isfinite(update) else 0.0
