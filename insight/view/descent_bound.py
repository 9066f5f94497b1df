"""How far gradient descent can move an element in one step: the rate times the largest of its buffer, or gradient."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..history.series import Floats
from .anatomy import Anatomy
from .facts import as_number
from .groups import group_of
from .rest import Rest, first
from .table import Rows, Table

if TYPE_CHECKING:
    from .moment import Moment
    from .stretch import Stretch

_KINDS = ("sgd", "momentum")
_BUFFER = "optimizer/momentum_buffer"
#: Times the bound: weights that an average pulls back, or a projection holds, move a few steps' worth at once; an old
#: checkpoint and a flipped bit move hundreds (our choice).
_SLACK = 10.0
#: Records in a row that a parameter must have kept to the bound: what somebody writes in every step is meant.
_KEPT = 5
#: Of the weights themselves, for their rounding.
_ROUNDING = {"float16": 2.0**-8, "bfloat16": 2.0**-5, "float64": 2.0**-40}


@dataclass(slots=True)
class DescentBound:
    """The options of each row of `update`, and for how many records it has kept to the bound."""

    checked: Anatomy | None = None
    is_known: bool = False
    rates: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    options: Floats = field(default_factory=lambda: np.zeros((0, 4)))
    kept: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def limits(self, now: "Moment", table: Table, largest: Floats) -> Floats | None:
        """`(rows of update,)` what a row cannot exceed; infinite where that is not known, or was exceeded of late.

        None where no optimizer is one of gradient descent.
        """
        if not self._knows(now, table):
            return None
        bound = self._bound(now, table)
        known = np.isfinite(bound) & table.present & np.isfinite(largest)
        is_within = known & (largest <= bound)
        limits = np.where(known & (self.kept >= _KEPT), bound, np.inf)
        self.kept = np.where(is_within, self.kept + 1, np.where(known, 0, self.kept))
        return limits

    def rests(self, stretch: "Stretch", table: Table) -> Rest | None:
        """For how many records every row of the update that can be judged keeps to its bound."""
        if not self._knows(stretch.now, table):
            return stretch.whole
        subjects = [name for name in ("weight", "gradient", _BUFFER) if stretch.carries(name)]
        tables = [one for name in subjects if (one := stretch.now.table(name)) is not None]
        count = stretch.finite("update", *subjects)
        if not count or not all(table.rows.are(one.rows) for one in tables):
            return None

        def largest(subject: str) -> Floats:
            if subject != "update" and subject not in subjects:
                return np.full((len(stretch), len(table.rows.sites)), np.nan)
            return np.fmax(np.abs(stretch.sure(subject, "min")), np.abs(stretch.sure(subject, "max")))

        rates = np.array([self._rates(scalars) for scalars in (one.scalars for one in stretch.records)])
        moved = np.maximum(np.abs(stretch.sure("update", "min")), np.abs(stretch.sure("update", "max")))
        bound = self._of(rates, largest)
        known = np.isfinite(bound) & np.isfinite(moved)
        is_within = known & (moved <= bound)

        def learn(records: int) -> None:
            self.kept = self.kept + is_within[:records].sum(axis=0)

        return Rest(min(count, first(known & ~is_within)), learn)

    def _knows(self, now: "Moment", table: Table) -> bool:
        """Whether any row is one of gradient descent; brings the memory to the rows."""
        count = len(table.rows.sites)
        if self.checked is not now.anatomy or len(self.rates) != count:
            self.checked = now.anatomy
            self.rates, self.options = _options(now, table.rows.sites)
            self.kept = np.pad(self.kept, (0, count - len(self.kept)))
            self.is_known = bool((self.rates >= 0).any())
        return self.is_known

    def _bound(self, now: "Moment", table: Table) -> Floats:
        return self._of(self._rates(now.record.scalars), lambda subject: _largest(now, subject, table.rows))

    def _rates(self, scalars: Mapping[str, float]) -> Floats:
        """`(rows,)` of one record; NaN where it is not known."""
        names = [f"learning_rate/{place}" if place else "learning_rate" for place in range(int(self.rates.max()) + 1)]
        return np.array([*(abs(scalars.get(name) or np.nan) for name in names), np.nan])[self.rates]

    def _of(self, rates: Floats, largest: Callable[[str], Floats]) -> Floats:
        """`(rows,)`, or `(records, rows)` of several, from the largest magnitudes of each subject."""
        momentum, decay, nesterov, rounding = self.options.T
        weights = largest("weight")
        fed = largest("gradient") + decay * weights
        buffered = largest(_BUFFER)
        moved = np.where(momentum > 0, np.where(nesterov > 0, fed + momentum * buffered, buffered), fed)
        return np.asarray(_SLACK * rates * moved + rounding * weights, dtype=np.float64)


def _largest(now: "Moment", subject: str, rows: Rows) -> Floats:
    """`(rows,)` the largest magnitude of each; NaN where it is not known or not finite."""
    table = now.table(subject)
    if table is None:
        return np.full(len(rows.sites), np.nan)
    return table.at(rows, table.finite(np.fmax(np.abs(table.column("min")), np.abs(table.column("max")))))


def _options(now: "Moment", sites: list[str]) -> tuple[NDArray[np.intp], Floats]:
    """`(sites,)` number of the group among all, -1 for none of this kind, and `(sites, 4)` its options."""
    places, options = np.full(len(sites), -1, dtype=np.intp), np.zeros((len(sites), 4))
    for row, site in enumerate(sites):
        found = group_of(now.anatomy, site)
        if found is None or found.kind not in _KINDS:
            continue
        places[row] = found.place
        numbers = [as_number(found.options.get(name), 0.0) for name in ("momentum", "weight_decay", "nesterov")]
        options[row] = (*numbers, _ROUNDING.get(now.anatomy.parameters[site].dtype, 2.0**-20))
    return places, options
