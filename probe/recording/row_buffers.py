"""What a record is made of: rows that hooks fill in place, tables and scalars of collectors, events."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Block, Event, Histogram, Layout
from ..collectors.collector import COLLECTORS, Collect, Rows, SiteRows, Step, View
from ..device_results import DeviceResults, Future, PendingRows
from ..kernels import FLOAT64, STATISTICS, More
from ..late_scalars import LateScalar

#: Rows of a block; what is beyond is in a further part of the stream.
MOST_ROWS: Final = 1024
_COUNTS = frozenset({"zeros", "nans", "pos_infs", "neg_infs", "size", "bytes", "checksum"})


def column_dtypes(statistics: tuple[str, ...], *, wide: bool) -> tuple[str, ...]:
    """Return the dtype of each column: uint64 of counts, float64 where float64 was captured, else float32."""
    return tuple(
        "uint64" if name in _COUNTS else "float64" if wide or name == "sum" else "float32" for name in statistics
    )


_NONE = bytes(MOST_ROWS)


class Row:
    """One row: where its numbers go, and how to mark them as there."""

    __slots__ = ("_futures", "address", "call", "index", "present", "site", "values")

    def __init__(self, part: "_Part", index: int, site: str, call: int) -> None:
        self.values, self.present, self.index = part.values, part.present, index
        self.address = part.address + index * part.values.strides[0]
        self.site, self.call = site, call
        self._futures = part.futures

    def wait_for(self, future: Future) -> None:
        """Take the numbers of a device when they arrive."""
        self.values[self.index] = np.nan
        self._futures[self.index] = (self, future)
        self.present[self.index] = 1

    def put(self, numbers: Sequence[float]) -> None:
        """Write these numbers."""
        self.values[self.index] = numbers
        self.present[self.index] = 1

    def copy_from(self, other: "Row") -> None:
        """Copy the numbers of another row: the same tensor was seen there."""
        self.values[self.index] = other.values[other.index]
        self.present[self.index] = 1
        if other._futures:
            self._copy_future_of(other)

    def _copy_future_of(self, other: "Row") -> None:
        futures = other._futures.get(other.index)
        if futures is not None:
            self._futures[self.index] = futures


class _Part:
    """Up to 1024 rows of a stream; its layout is sealed when it is first handed over."""

    def __init__(self, columns: int) -> None:
        self.values = np.full((MOST_ROWS, columns), np.nan)
        self.address: int = self.values.ctypes.data
        self.present = bytearray(MOST_ROWS)
        self.futures: dict[int, tuple[Row, Future]] = {}
        self.sites: list[str] = []
        self.calls: list[int] = []
        self.layout: Layout | None = None


class CallRows:
    """All rows of one subject that is seen call by call; a row that turns up late opens a further part.

    Attributes:
        parts: The parts, in order.
        is_wide: Whether float64 was captured.
    """

    def __init__(self, subject: str, statistics: tuple[str, ...]) -> None:
        self._subject, self.statistics = subject, statistics
        self.parts: list[_Part] = []
        self._known: dict[tuple[str, int], Row] = {}
        self.is_wide = False

    def row(self, site: str, call: int) -> Row:
        """Return the row of this call of the site, made when it is first asked for."""
        found = self._known.get((site, call))
        if found is None:
            found = self._known[site, call] = self._new_row(site, call)
        return found

    def _new_row(self, site: str, call: int) -> Row:
        if not self.parts or self.parts[-1].layout is not None or len(self.parts[-1].sites) == MOST_ROWS:
            self.parts.append(_Part(len(self.statistics)))
        part = self.parts[-1]
        part.sites.append(site)
        part.calls.append(call)
        return Row(part, len(part.sites) - 1, site, call)

    def block(self, number: int, fill_later: Callable[[PendingRows], None]) -> Block:
        """Return a copy of the rows of a part, and empty them; what was not filled is absent.

        Args:
            fill_later: Called with the rows of the block that a device has yet to fill.
        """
        part = self.parts[number]
        count = len(part.sites)
        present = np.frombuffer(bytes(part.present[:count]), np.bool_)
        part.present[:] = _NONE
        if part.layout is None:
            calls = tuple(part.calls) if any(part.calls) else ()
            dtypes = column_dtypes(self.statistics, wide=self.is_wide)
            part.layout = Layout(self._subject, tuple(part.sites), self.statistics, dtypes, calls, number)
        values = part.values[:count].copy()
        if part.futures:
            present = present.copy()
            fill_later(PendingRows(values, present, dict(part.futures)))
            part.futures.clear()
        elif present.all():
            return Block(part.layout, values)
        values[~present] = np.nan
        return Block(part.layout, values, present)


def merge_rows(
    before: Mapping[str, Rows], now: Mapping[str, Rows], when_ready: Callable[[Callable[[], object]], None]
) -> dict[str, Rows]:
    """Return both, where several optimizers fill different rows of one subject in a step.

    Args:
        when_ready: Runs a function again when the numbers of a device have arrived.
    """
    merged = dict(before)
    for subject, rows in now.items():
        held = merged.get(subject)
        if held is None or held.present.size != rows.present.size:
            merged[subject] = rows
        else:
            choose = partial(_choose, rows, held, np.empty_like(held.values))
            when_ready(choose)
            merged[subject] = Rows(choose(), held.present | rows.present)
    return merged


def _choose(rows: Rows, others: Rows, out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Write the rows that are present, and the others where they are not, to `out`; return it."""
    np.copyto(out, np.where(rows.present[:, None], rows.values, others.values))
    return out


#: Masks that are kept: every subject may have one of its own.
_MASKS = 64


class TableRows:
    """The layouts of subjects that have one row a parameter; parameters that join later open a further part."""

    def __init__(self) -> None:
        self._layouts: dict[str, list[tuple[int, Layout]]] = {}
        #: Masks without a gap, by their ids.
        self._full: dict[int, NDArray[np.bool_]] = {}

    def take(
        self,
        blocks: list[Block],
        tables: Mapping[str, Rows],
        view: View,
        statistics: Callable[[str], tuple[str, ...]],
    ) -> None:
        """Add the rows of all subjects, cut into blocks of at most 1024, without copying them.

        Args:
            statistics: Returns the columns of a subject; called when names are new.
        """
        names = view.names
        count = len(names)
        for subject, rows in tables.items():
            layouts = self._layouts.get(subject, ())
            if len(layouts) == 1 and len(layouts[0][1].sites) == count:
                if id(rows.present) in self._full or self._is_full(rows.present):
                    blocks.append(Block(layouts[0][1], rows.values))
                    continue
            else:
                layouts = self._grown(subject, statistics, view)
            if len(layouts) == 1:
                cut = [(layouts[0][1], rows.values, rows.present)]
            else:
                parts = ((layout, slice(start, start + len(layout.sites))) for start, layout in layouts)
                cut = [(layout, rows.values[at], rows.present[at]) for layout, at in parts]
            blocks += [_table_block(*part) for part in cut if part[2].any()]

    def _grown(
        self, subject: str, statistics: Callable[[str], tuple[str, ...]], view: View
    ) -> list[tuple[int, Layout]]:
        """Return the layouts of a subject, with new ones for names that joined since."""
        layouts = self._layouts.setdefault(subject, [])
        covered = sum(len(layout.sites) for _, layout in layouts)
        for start in range(covered, len(view.names), MOST_ROWS):
            columns = statistics(subject)
            dtypes = column_dtypes(columns, wide=bool((view.weights().codes == FLOAT64).any()))
            sites = view.names[start : start + MOST_ROWS]
            layouts.append((start, Layout(subject, sites, columns, dtypes, (), len(layouts))))
        return layouts

    def _is_full(self, present: NDArray[np.bool_]) -> bool:
        """Return whether every row is there; remember it: tables return the same array while it says the same."""
        if present.size and present.all():
            if len(self._full) == _MASKS:
                self._full.clear()
            self._full[id(present)] = present
            return True
        return False


def _table_block(layout: Layout, values: NDArray[np.float64], present: NDArray[np.bool_]) -> Block:
    return Block(layout, values, None if present.all() else present)


class HookRows:
    """The rows of one monitor.

    Args:
        more: Statistics on request, whose columns follow those of a collector.
    """

    def __init__(self, more: More) -> None:
        self._more, self._tables = more, TableRows()
        self._columns: dict[str, tuple[str, ...]] = {}
        self._rows = {name: CallRows(name, self.columns(name)) for name, entry in COLLECTORS.items() if entry.measure}

    def of(self, subject: str) -> CallRows:
        """Return the rows of a subject that hooks fill call by call."""
        return self._rows[subject]

    def open(self, subject: str, columns: tuple[str, ...]) -> CallRows:
        """Return the rows of a further subject, kept as float64, made when they are first asked for.

        Raises:
            ValueError: The subject has other columns already.
        """
        rows = self._rows.get(subject)
        if rows is None:
            rows = self._rows[subject] = CallRows(subject, columns)
        if rows.statistics != columns:
            raise ValueError(
                f"{subject} has the statistics {', '.join(rows.statistics)}, got {', '.join(columns)}; "
                f"return the same ones every time"
            )
        rows.is_wide = True
        return rows

    def columns(self, subject: str) -> tuple[str, ...]:
        """Return the statistics of a subject's rows: the collector's own, then those on request."""
        known = self._columns.get(subject)
        if known is None:
            entry = COLLECTORS.get(subject) or COLLECTORS[subject.partition("/")[0]]
            has_more = entry.columns[: len(STATISTICS)] == STATISTICS and not subject.startswith("communication")
            known = self._columns[subject] = (*entry.columns, *self._more.columns) if has_more else entry.columns
        return known

    def take(
        self,
        fill_later: Callable[[PendingRows], None],
        tables: Mapping[str, Rows] | None = None,
        view: View | None = None,
    ) -> list[Block]:
        """Return the rows that were filled since the last time, a block a part.

        Args:
            fill_later: Called with the rows of each block that a device has yet to fill.
            tables: Rows of all parameters by subject, which follow those of hooks.
            view: The parameters of these tables.
        """
        blocks: list[Block] = []
        for rows in self._rows.values():
            for number, part in enumerate(rows.parts):
                count = len(part.sites)
                if part.layout is not None and not part.futures and part.present.find(0, 0, count) < 0:
                    part.present[:count] = _NONE[:count]
                    blocks.append(Block(part.layout, part.values[:count].copy()))
                elif 1 in part.present:
                    blocks.append(rows.block(number, fill_later))
        if tables and view is not None:
            self._tables.take(blocks, tables, view, self.columns)
        return blocks


class Draft:
    """What collectors and events have brought to the (micro-)step in progress; a record is made of it.

    Args:
        open_rows: Returns the rows of a subject with these columns.
        device_results: Takes requests for late scalars.

    Attributes:
        rows: Rows of all parameters, by subject.
        scalars: Values by name.
        histograms: In no order.
        events: In the order in which they happened.
        measured: The collector that a scalar is of, by the scalar's name; what a user logs is of none.
    """

    def __init__(self, open_rows: Callable[[str, tuple[str, ...]], CallRows], device_results: DeviceResults) -> None:
        self._open_rows, self._device_results = open_rows, device_results
        self.clear()

    def clear(self) -> None:
        """Begin a new draft; the containers of the one before belong to its record."""
        self.rows: dict[str, Rows] = {}
        self.scalars: dict[str, float] = {}
        self.measured: dict[str, str] = {}
        self.histograms: list[Histogram] = []
        self.events: list[Event] = []

    def collect(
        self, collectors: Sequence[tuple[str, Collect]], step: Step, failed: Callable[[str, BaseException], None]
    ) -> None:
        """Add what these collectors find in the step.

        Args:
            collectors: With their names.
            failed: Called with the name and the error of a collector that raises.
        """
        rows, scalars, measured = self.rows, self.scalars, self.measured
        for name, collect in collectors:
            try:
                found = collect(step)
            except BaseException as error:  # noqa: BLE001  the training must not feel that a collector fails
                failed(name, error)
                continue
            if isinstance(found, tuple):
                self.histograms += found
                continue
            for key, value in found.items():
                if isinstance(value, Rows) and key not in rows:
                    rows[key] = value
                elif isinstance(value, float) and key not in scalars:
                    scalars[key], measured[key] = value, name
                else:
                    self.put(name, key, value)

    def put(self, collector: str, key: str, value: Rows | SiteRows | float | LateScalar) -> None:
        """Add rows or a scalar of the collector; a scalar that the user has logged stays."""
        if isinstance(value, Rows):
            before = {key: self.rows[key]} if key in self.rows else {}
            self.rows.update(merge_rows(before, {key: value}, self._device_results.when_ready))
        elif isinstance(value, SiteRows):
            rows = self._open_rows(key, value.columns)
            for site, numbers in value.values.items():
                row = rows.row(site, 0)
                row.put(numbers) if isinstance(numbers, tuple) else row.wait_for(numbers)
        elif self.measured.get(key) == collector or key not in self.scalars:
            self.measured[key] = collector
            if callable(value):
                self._device_results.late_scalar(key, value)
            else:
                self.scalars[key] = value
