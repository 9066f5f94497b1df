"""The next records of a burst: what a rule looks at to see that it need not be asked about each of them.

Most rules have nothing to say of most records. Where a rule can tell that of many records at once, by what they carry
and by what it remembers, it rests: it is not asked about them, and learns of them in one go before it is asked again.
"""

from collections.abc import Callable, Sequence
from math import isfinite

from ...storage import StepRecord
from .depth import plain_depths
from .moment import Moment
from .rest import Rest, nothing
from .table import Floats


class Stretch:
    """Records in the order of their steps, none of them skipped or with events; they need not carry all the same.

    Args:
        now: The first of them, which has not been observed yet.
        records: All of them.

    Attributes:
        bounds: For how many of them nothing moves farther than it can, and every state of an optimizer follows from
            the one before; None where that is not known, or nobody has asked.
    """

    def __init__(self, now: Moment, records: Sequence[StepRecord]) -> None:
        self.now = now
        self.records = records
        self.bounds: Rest | None = None
        self._has_looked = False
        self._scalars: dict[str, list[float | None]] = {}
        self._columns: dict[tuple[str, str], Floats | None] = {}

    def __len__(self) -> int:
        return len(self.records)

    @property
    def whole(self) -> Rest:
        """A rest over all of them that leaves nothing to learn."""
        return Rest(len(self))

    def within_bounds(self, learn: Callable[[int], object] = nothing) -> Rest | None:
        """A rest for as long as the optimizers' bounds rest."""
        if self.bounds is None and not self._has_looked:
            self._has_looked, self.bounds = True, self.now.bound.rests(self)
        return None if self.bounds is None else Rest(self.bounds.records, learn)

    def until(self, subject: str) -> int:
        """How many of the first records do not carry the subject."""
        now = self.now
        return min(now.burst.next_with(subject, now.place) - now.place, len(self))

    def carries(self, subject: str) -> bool:
        """Whether any of them carries the subject."""
        return self.until(subject) < len(self)

    def columns(self, subject: str, statistic: str) -> Floats | None:
        """`(records, sites)` values of one statistic; None where the records are not all alike in the subject."""
        key = subject, statistic
        if key not in self._columns:
            table = self.now.table(subject)
            alike = None if table is None else table.alike
            self._columns[key] = None
            if table is not None and alike is not None:
                self._columns[key] = alike.columns(statistic)[table.place :][: len(self)]
        return self._columns[key]

    def sure(self, subject: str, statistic: str) -> Floats:
        """As `columns`, where it is known that the records are alike in the subject."""
        found = self.columns(subject, statistic)
        assert found is not None, subject
        return found

    def finite(self, *subjects: str) -> int:
        """How many of the first records hold no tensor of these subjects with a NaN or an infinity.

        Zero where the records are not alike in one of them; what none of them carries is left out.
        """
        count = len(self)
        for subject in filter(self.carries, subjects):
            table = self.now.table(subject)
            count = min(count, 0 if table is None else table.finite_for(len(self)))
        return count

    def scalars(self, name: str) -> list[float | None]:
        """The logged scalar of each record; None where it does not carry it."""
        if name not in self._scalars:
            self._scalars[name] = [one.scalars.get(name) for one in self.records]
        return self._scalars[name]

    def known(self, name: str, records: int) -> list[float]:
        """The logged scalar of those of the first records that carry it."""
        return [value for value in self.scalars(name)[:records] if value is not None]

    def until_not_finite(self, name: str) -> int:
        """How many of the first records carry no NaN and no infinity as this scalar."""
        values = enumerate(self.scalars(name))
        return next((at for at, value in values if value is not None and not isfinite(value)), len(self))

    def until_scalar(self, *names: str) -> int:
        """How many of the first records carry none of these scalars."""
        now = self.now
        return min(now.burst.next_logged(names, now.place) - now.place, len(self))

    def typical_updates(self) -> list[float] | None:
        """Of each record `Moment.typical_update`; None where the records are not alike in their updates."""
        return self.now.typical_updates(len(self)) if self.carries("update") else [float("nan")] * len(self)

    def norms(self, subject: str) -> list[float] | None:
        """Of each record the Euclidean norm over all tensors; None where the records are not alike in the subject."""
        table = self.now.table(subject)
        return None if table is None or table.alike is None else table.norm_of_each(len(self))

    def plain_depths(self) -> int:
        """How many of the first records show no depth, or one in which no two gradients are far apart."""
        table = self.now.table("gradient")
        return 0 if table is None else plain_depths(table, self.now.anatomy, len(self))
