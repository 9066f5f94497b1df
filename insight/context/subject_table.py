"""One subject of one step as a table, whose rows keep their numbers over the whole run."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ...storage import Block, Layout
from ..running_statistics import Floats, Mask
from .record_burst import Burst, StackedSubject

_COUNTS = ("nans", "pos_infs", "neg_infs")


@dataclass(frozen=True, slots=True, eq=False)
class _LayoutRows:
    """The rows of a layout's sites."""

    rows: NDArray[np.intp]
    is_straight: bool


class SubjectRows:
    """The rows of one subject over a whole run; rows are only ever added, so each keeps its number.

    Attributes:
        all_present: `(rows,)` all True, the presence of every table that lacks no row; not to be written to.
    """

    def __init__(self, layout: Layout) -> None:
        self.statistics = layout.statistics
        self.column = {name: at for at, name in enumerate(layout.statistics)}
        self.counts = [self.column[name] for name in _COUNTS if name in self.column]
        self.sites: list[str] = []
        self.calls: list[int] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._places: dict[Layout, _LayoutRows] = {}
        self._newest: tuple[Layout, _LayoutRows] | None = (
            None  # a layout is compared by all of its sites, which takes long
        )
        self.all_present = _all_present(0)
        self._same: dict[SubjectRows, tuple[int, bool]] = {}

    def _place(self, layout: Layout) -> "_LayoutRows":
        """Return the rows of the layout's sites."""
        if self._newest is not None and self._newest[0] is layout:
            return self._newest[1]
        layout_rows = self._places.get(layout)
        if layout_rows is None:
            calls = layout.calls or (0,) * len(layout.sites)
            rows = np.array([self._number(key) for key in zip(layout.sites, calls, strict=True)], dtype=np.intp)
            is_straight = np.array_equal(rows, np.arange(len(rows))) and layout.statistics == self.statistics
            layout_rows = self._places[layout] = _LayoutRows(rows, bool(is_straight))
        self._newest = layout, layout_rows
        return layout_rows

    def _number(self, key: tuple[str, int]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.sites)
            self.sites.append(key[0])
            self.calls.append(key[1])
        return self._numbers[key]

    def are(self, others: "SubjectRows") -> bool:
        """Return True when the others have the same sites in the same order; the answer is cached."""
        if others is self:
            return True
        size = len(self.sites) + len(others.sites)
        known = self._same.get(others)
        if known is None or known[0] != size:
            known = self._same[others] = size, self.sites == others.sites
        return known[1]

    def table(self, blocks: list[Block], burst: Burst | None = None, record: int = -1) -> "Table":
        """Make one table of all blocks of the subject in a step; a complete block in order is not copied.

        Args:
            burst: The step and others.
            record: Which of them it is; -1 for none.
        """
        places = [self._place(block.layout) for block in blocks]
        only = blocks[0]
        if len(blocks) == 1 and places[0].is_straight and len(places[0].rows) == len(self.sites):
            stacked = burst.stacked(only.layout.subject, self.column) if burst is not None and record >= 0 else None
            values = np.ascontiguousarray(only.values, dtype=np.float64) if stacked is None else stacked.values[record]
            return Table(self, values, self._present(only), stacked, record)
        values = np.full((len(self.sites), len(self.statistics)), np.nan)
        present = np.zeros(len(self.sites), dtype=np.bool_)
        for block, layout_rows in zip(blocks, places, strict=True):
            for at, name in enumerate(block.layout.statistics):
                if name in self.column:
                    values[layout_rows.rows, self.column[name]] = block.values[:, at]
            present[layout_rows.rows] = True if block.present is None else block.present
        return Table(self, values, present)

    def _present(self, block: Block) -> Mask:
        """Return the rows that are present, of a block that has all of them in order."""
        if block.present is not None:
            return block.present
        if len(self.all_present) != len(self.sites):
            self.all_present = _all_present(len(self.sites))
        return self.all_present


def some(mask: Mask) -> bool:
    """Return `mask.any()`, in a fifth of the time for the few rows of a step."""
    return bool(np.count_nonzero(mask))


def _all_present(rows: int) -> Mask:
    present = np.ones(rows, dtype=np.bool_)
    present.flags.writeable = False
    return present


class Table:
    """The statistics of one subject in one step.

    Args:
        rows: What each row is.
        values: `(rows, statistics)` float64; meaningless where not present.
        present: `(rows,)` bool.
        stacked: The subject in all records of the burst, if they all have it in full.
        index: The index of this record among them.
    """

    __slots__ = ("_is_whole", "_non_finite", "_norm", "_strange", "index", "present", "rows", "stacked", "values")

    def __init__(
        self, rows: SubjectRows, values: Floats, present: Mask, stacked: StackedSubject | None = None, index: int = -1
    ) -> None:
        self.rows = rows
        self.values = values
        self.present = present
        self.stacked = stacked
        self.index = index
        self._is_whole: bool | None = None
        self._strange: bool | None = None
        self._non_finite: Mask | None = None
        self._norm: float | None = None

    def column(self, statistic: str) -> Floats:
        """`(rows,)` values of one statistic; NaN everywhere when it was not recorded."""
        at = self.rows.column.get(statistic)
        return self.values[:, at] if at is not None else np.full(len(self.values), np.nan)

    def value(self, row: int, statistic: str) -> float:
        """Return one statistic of one row."""
        at = self.rows.column.get(statistic)
        return float(self.values[row, at]) if at is not None else float("nan")

    def there(self, statistic: str) -> Floats:
        """Return one statistic of the rows that are present."""
        column = self.column(statistic)
        return column if self.is_whole else column[self.present]

    @property
    def is_whole(self) -> bool:
        """True when every row is present."""
        if self._is_whole is None:
            self._is_whole = self.present is self.rows.all_present or bool(self.present.all())
        return self._is_whole

    @property
    def holds_non_finite(self) -> bool:
        """True when a tensor that is present held a NaN or an infinity."""
        if self._strange is None:
            if self.stacked is not None:
                self._strange = self.stacked.known("strange", self.rows, _strange)[self.index]
                return self._strange
            # a cheap look at all counts, which are zero: the mask is only made when something is there
            anything = any(np.count_nonzero(self.values[:, at]) for at in self.rows.counts)
            self._strange = anything and some(self._with_counts() & self.present)
        return self._strange

    def finite_for(self, records: int) -> int:
        """Return how many of the next records, this one first, hold no NaN and no infinity; 0 outside a burst."""
        if self.stacked is None:
            return 0
        strange = self.stacked.known("strange", self.rows, _strange)[self.index : self.index + records]
        return strange.index(True) if True in strange else len(strange)

    @property
    def non_finite(self) -> Mask:
        """`(rows,)` True where the tensor held a NaN or an infinity."""
        if self._non_finite is None:
            anything = self.holds_non_finite
            self._non_finite = self._with_counts() & self.present if anything else np.zeros_like(self.present)
        return self._non_finite

    def finite(self, values: Floats) -> Floats:
        """`(rows,)` the values, NaN in the rows that are not there or held a NaN or an infinity."""
        if self.is_whole and not self.holds_non_finite:
            return values
        return np.where(self.present & ~self.non_finite, values, np.nan)

    def low(self, statistic: str) -> float:
        """Return the smallest value among the rows that are present; NaN where one is NaN, or there are none."""
        if self.stacked is not None:
            return self.stacked.known(f"low {statistic}", self.rows, lambda stacked: _least(stacked, statistic))[
                self.index
            ]
        there = self.there(statistic)
        return float(there.min()) if len(there) else float("nan")

    def at(self, rows: SubjectRows, values: Floats) -> Floats:
        """`(rows of another table,)` this table's values by the sites of the other; NaN where this has no such site."""
        if rows.are(self.rows):
            return values
        sites = rows.sites
        if self.rows.sites[: len(sites)] == sites:
            return values[: len(sites)]
        known = dict(zip(self.rows.sites, values.tolist(), strict=True))
        return np.array([known.get(site, np.nan) for site in sites])

    def _with_counts(self) -> Mask:
        return np.asarray((self.values[:, self.rows.counts] > 0).any(axis=1), dtype=np.bool_)

    def largest(self) -> Floats:
        """`(rows,)` the largest magnitude of each tensor; NaN where its minimum or its maximum is."""
        if self.stacked is not None:
            found: Floats = self.stacked.known("largest", self.rows, _largest)[0][self.index]
            return found
        return np.maximum(np.abs(self.column("min")), np.abs(self.column("max")))

    @property
    def largest_of_all(self) -> float:
        """The largest magnitude in any tensor that is present; NaN where one is."""
        if self.stacked is not None:
            return self.stacked.known("largest", self.rows, _largest)[1][self.index]
        there = self.largest()[self.present]
        return float(there.max()) if len(there) else float("nan")

    def largest_of_each(self, records: int) -> list[float]:
        """`largest_of_all` of so many records of the burst, this one first."""
        assert self.stacked is not None  # its caller has looked
        return self.stacked.known("largest", self.rows, _largest)[1][self.index : self.index + records]

    @property
    def norm(self) -> float:
        """Euclidean norm over the tensors that are present, from their own."""
        if self._norm is None and self.stacked is not None:
            self._norm = self.stacked.known("norm", self.rows, _norms)[self.index]
        elif self._norm is None:
            self._norm = sqrt(float(np.square(self.there("l2_norm")).sum()))
        return self._norm

    def norm_of_each(self, records: int) -> list[float]:
        """`norm` of so many records of the burst, this one first."""
        assert self.stacked is not None  # its caller has looked
        return self.stacked.known("norm", self.rows, _norms)[self.index : self.index + records]

    def counts(self, row: int) -> dict[str, float]:
        """Return how many values of the row are NaN or infinite, and its size: evidence for findings."""
        return {name: self.value(row, name) for name in (*_COUNTS, "size")}


def _strange(stacked: StackedSubject) -> list[bool]:
    """Return, by record, whether it holds any NaN or infinity."""
    anything: list[bool] = np.any([(stacked.columns(name) > 0).any(axis=1) for name in _COUNTS], axis=0).tolist()
    return anything


def _norms(stacked: StackedSubject) -> list[float]:
    return [sqrt(square) for square in np.square(stacked.columns("l2_norm")).sum(axis=1).tolist()]


def _least(stacked: StackedSubject, statistic: str) -> list[float]:
    least: list[float] = stacked.columns(statistic).min(axis=1).tolist()
    return least


def _largest(stacked: StackedSubject) -> tuple[Floats, list[float]]:
    """`(records, rows)` the largest magnitude of each tensor, and by record that of all."""
    largest = np.maximum(np.abs(stacked.columns("min")), np.abs(stacked.columns("max")))
    return largest, largest.max(axis=1).tolist()
