"""Whether what a model is trained on is made by the model itself, as where it acts and learns from what came of it."""

from dataclasses import dataclass

from ...storage import ROOT_SITE
from ..view.moment import Moment

#: Of the records so far, and at least so many (our choice: evaluations are rarer, or of more samples than a batch).
_SHARE, _FEWEST = 0.25, 3


@dataclass(slots=True)
class SelfMade:
    """Counts the steps in which the model was asked without gradients about fewer samples than it is trained on.

    Nobody evaluates on less than a batch in every fourth step. Who asks so little so often acts on the answer, and the
    loss is then of a task that changes with the model: that it rises says nothing of labels or steps (Mnih et al. 2015,
    "Human-level control through deep reinforcement learning").
    """

    records: int = 0
    asked: int = 0

    def learn(self, now: Moment) -> None:
        """Takes one record."""
        self.records += 1
        if now.table("batch/eval") is not None:
            self.asked += _is_asked_little(now)

    @property
    def is_so(self) -> bool:
        """True where it was asked so in a quarter of the records."""
        return self.asked >= max(_FEWEST, _SHARE * self.records)


def _is_asked_little(now: Moment) -> bool:
    asked = _size(now, "batch/eval")
    return asked > 0.0 and asked < _size(now, "batch")


def _size(now: Moment, subject: str) -> float:
    """Values of the largest first input; zero where there was none."""
    table = now.table(subject)
    if table is None:
        return 0.0
    sizes = table.column("size")
    return max(
        (float(sizes[row]) for row in range(len(sizes)) if table.present[row] and table.rows.sites[row] == ROOT_SITE),
        default=0.0,
    )
