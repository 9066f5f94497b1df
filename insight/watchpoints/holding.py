"""Where a condition holds in one step: the rows of its subject, or the scalar, and the number that was compared."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

import numpy as np

from ...storage import ROOT_SITE, display_site
from ...storage.conditions import Condition
from ..history.series import Floats, Mask, Streaks
from ..view.moment import Moment
from ..view.table import Table

#: Sites named for one watchpoint in one step; the others are counted. Our choice: a longer list helps nobody.
NAMED: Final = 8

_COMPARISONS: Final[Mapping[str, Callable[[Floats, Condition], Mask]]] = {
    ">": lambda values, one: values > one.low,
    ">=": lambda values, one: values >= one.low,
    "<": lambda values, one: values < one.low,
    "<=": lambda values, one: values <= one.low,
    "==": lambda values, one: values == one.low,
    "!=": lambda values, one: (values != one.low) & ~np.isnan(values),
    "outside": lambda values, one: (values < one.low) | (values > one.high),
    "inside": lambda values, one: (values >= one.low) & (values <= one.high),
}
_COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    "nan": ("nans",),
    "inf": ("pos_infs", "neg_infs"),
    "non-finite": ("nans", "pos_infs", "neg_infs"),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A place at which a condition has held for as many steps as it asks.

    Args:
        value: The number that was compared; the count of elements where a content was looked for.
        others: Further places of the same step that are not named.
    """

    site: str
    metric: str
    value: float
    first_step: int
    others: int = 0


@dataclass(slots=True)
class _Watched:
    """What must be remembered of one subject."""

    streaks: Streaks = field(default_factory=Streaks)
    chosen: dict[int, Mask] = field(default_factory=dict)
    before: Floats = field(default_factory=lambda: np.zeros((0, 0)))


class Holding:
    """Follows one condition through a run.

    Args:
        condition: As it was written.
    """

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._watched: dict[str, _Watched] = {}
        self._scalar = _Watched()

    def hits(self, now: Moment) -> tuple[Hit, ...]:
        """The places where the condition has just become true: once for every time that it does."""
        if self._condition.subject == "scalar":
            found = [*self._scalar_hits(now)]
        else:
            subjects = [self._condition.subject] if self._condition.subject else [*now.subjects]
            found = [hit for subject in subjects for hit in self._subject_hits(now, subject)]
        if len(found) <= NAMED:
            return tuple(found)
        last = found[NAMED - 1]
        others = len(found) - NAMED
        return (*found[: NAMED - 1], Hit(last.site, last.metric, last.value, last.first_step, others))

    def _scalar_hits(self, now: Moment) -> Iterator[Hit]:
        name = self._condition.statistic
        value = now.scalar(name)
        if value is not None:
            values = self._changed(self._scalar, np.array([[value]]))[:, 0]
            holds = _holds(values, self._condition)
            for _, since in self._new(self._scalar, holds, np.ones(1, np.bool_), now.step):
                yield Hit(ROOT_SITE, f"scalar/{name}", float(values[0]), since)

    def _subject_hits(self, now: Moment, subject: str) -> Iterator[Hit]:
        table = now.table(subject)
        if table is None:
            return
        watched = self._watched.setdefault(subject, _Watched())
        holds, values, statistic = self._look(watched, table)
        metric = f"{subject}/{statistic}" if statistic else subject
        here = table.present & self._chosen(watched, table)
        for row, since in self._new(watched, holds & here, here, now.step):
            yield Hit(table.rows.sites[row], metric, float(values[row]), since)

    def _look(self, watched: _Watched, table: Table) -> tuple[Mask, Floats, str]:
        """Where it holds, the number that tells so, and which statistic that number is."""
        one = self._condition
        if one.test in _COUNTS:
            names = [name for name in _COUNTS[one.test] if name in table.rows.column]
            counts = np.sum([table.column(name) for name in names], axis=0) if names else np.zeros(len(table.values))
            return counts > 0, counts, names[0] if len(names) == 1 else ""
        if one.test == "unchanged":
            before = _padded(watched.before, table.values.shape)
            same = ((table.values == before) | (np.isnan(table.values) & np.isnan(before))).all(axis=1)
            watched.before = np.where(table.present[:, None], table.values, before)
            return same, same.astype(np.float64), ""
        values = self._changed(watched, table.column(one.statistic)[:, None], table.present)[:, 0]
        return _holds(values, one), values, one.statistic

    def _changed(self, watched: _Watched, values: Floats, present: Mask | None = None) -> Floats:
        """The values, or by how much they have changed where that is what the condition asks."""
        if not self._condition.is_change:
            return values
        before = _padded(watched.before, values.shape)
        watched.before = values if present is None else np.where(present[:, None], values, before)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.abs(values - before) / np.abs(before)

    def _chosen(self, watched: _Watched, table: Table) -> Mask:
        """Rows whose site the glob takes; the rows of a subject are only ever added."""
        sites = table.rows.sites
        if len(sites) not in watched.chosen:
            chosen = [fnmatchcase(display_site(site), self._condition.sites) for site in sites]
            watched.chosen = {len(sites): np.array(chosen, dtype=np.bool_)}
        return watched.chosen[len(sites)]

    def _new(self, watched: _Watched, holds: Mask, present: Mask, step: int) -> Iterator[tuple[int, int]]:
        """Rows that have held for as long as is asked with this step, and since when."""
        lengths = watched.streaks.update(holds, present, step)
        for row in np.flatnonzero(holds & (lengths == self._condition.steps)):
            yield int(row), int(watched.streaks.since[row])


def _holds(values: Floats, condition: Condition) -> Mask:
    return _COMPARISONS[condition.test](values, condition)


def _padded(before: Floats, shape: tuple[int, ...]) -> Floats:
    """The values before, NaN for rows that were not there: a first value is no change."""
    padded = np.full(shape, np.nan)
    if before.size:
        padded[: len(before)] = before
    return padded
