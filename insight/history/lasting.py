"""What has lasted in a row of a table long enough to be said, once."""

from dataclasses import dataclass, field

import numpy as np

from .series import Mask, Streaks


@dataclass(slots=True)
class Lasting:
    """For every row of a subject: for how many observations something has held, and whether it was reported."""

    streaks: Streaks = field(default_factory=Streaks)
    said: set[int] = field(default_factory=set)

    def newly(self, holds: Mask, present: Mask, step: int, *, records: int, steps: int = 0) -> list[int]:
        """The rows in which it has held for that many records, and steps, by now and that were not given before."""
        lengths = self.streaks.update(holds & present, present, step)
        lasting = (lengths >= records) & (step - self.streaks.since >= steps)
        rows = [int(row) for row in np.flatnonzero(lasting) if row not in self.said]
        self.said.update(rows)
        return rows

    def since(self, row: int) -> int:
        """The step at which it began in that row."""
        return int(self.streaks.since[row])

    def length(self, row: int) -> int:
        """For how many records it has held."""
        return int(self.streaks.lengths[row])
