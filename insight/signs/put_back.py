"""Whether the weights begin each step where they began the one before, although that one has moved them."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..view.moment import Moment
from ..view.table import Floats

#: Of a weight's root mean square: how exactly its mean is known in float32, and how many times that the mean must have
#: moved for its return to be seen.
_EXACT: Final = 1e-6
_SEEN: Final = 20.0


@dataclass(slots=True)
class PutBack:
    """The means with which the weight matrices began the last step, and by how much it moved them.

    Attributes:
        records: For how many records in a row all matrices that were seen to move began where they had begun before.
        since: The step at which that began.
    """

    records: int = 0
    since: int = 0
    start: Floats = field(default_factory=lambda: np.zeros(0))
    moved: Floats = field(default_factory=lambda: np.zeros(0))

    def learn(self, now: Moment) -> None:
        """Takes this record's weights, which are those after the step, and its update."""
        weight, update = now.table("weight"), now.table("update")
        if weight is None or update is None or now.record.skipped or not weight.rows.are(update.rows):
            return
        usable = now.anatomy.matrices(weight.rows.sites) & weight.present & update.present
        usable &= ~weight.non_finite & ~update.non_finite
        moved = np.where(usable, update.column("mean"), 0.0)
        start = weight.column("mean") - moved
        least = _EXACT * weight.column("l2_norm") / np.sqrt(weight.column("size"))
        if len(self.start) == len(start):
            seen = usable & (np.abs(self.moved) > _SEEN * least)
            returns = bool(seen.any()) and bool((np.abs(start - self.start) <= least)[seen].all())
            self.since = now.step - 1 if returns and not self.records else self.since
            self.records = self.records + 1 if returns else 0
        self.start, self.moved = start, moved
