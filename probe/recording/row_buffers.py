"""The rows of a step: hooks fill them in place, collectors give them as tables, blocks are copies of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Block, Layout
from ..collectors.collector import COLLECTORS, Rows, View
from ..device_results import Owed, Promise
from ..kernels import FLOAT64, STATISTICS, More

#: Rows of a block; what is beyond is in a further part of the stream.
MOST_ROWS: Final = 1024
_COUNTS = frozenset({"zeros", "nans", "pos_infs", "neg_infs", "size", "bytes", "checksum"})


def column_dtypes(statistics: tuple[str, ...], *, wide: bool) -> tuple[str, ...]:
    """What each column is stored as: counts as uint64, the rest as float64 where float64 was captured, else float32."""
    return tuple(
        "uint64" if name in _COUNTS else "float64" if wide or name == "sum" else "float32" for name in statistics
    )


_NONE = bytes(MOST_ROWS)


class Row:
    """One row: where its numbers go, and how to say that they are there."""

    __slots__ = ("_promised", "address", "call", "index", "present", "site", "values")

    def __init__(self, part: "_Part", index: int, site: str, call: int) -> None:
        self.values, self.present, self.index = part.values, part.present, index
        self.address = part.address + index * part.values.strides[0]
        self.site, self.call = site, call
        self._promised = part.promised

    def owe(self, promise: Promise) -> None:
        """Takes the first ten numbers from the promise when it is kept."""
        self.values[self.index] = np.nan
        self._promised[self.index] = (self, promise)
        self.present[self.index] = 1

    def put(self, numbers: Sequence[float]) -> None:
        """Takes these numbers."""
        self.values[self.index] = numbers
        self.present[self.index] = 1

    def copy_from(self, other: "Row") -> None:
        """Takes the other's numbers: the same tensor was seen there."""
        self.values[self.index] = other.values[other.index]
        self.present[self.index] = 1
        if other._promised:
            self._copy_promise_of(other)

    def _copy_promise_of(self, other: "Row") -> None:
        promised = other._promised.get(other.index)
        if promised is not None:
            self._promised[self.index] = promised


class _Part:
    """Up to 1024 rows of a stream; its layout is sealed when it is first handed over."""

    def __init__(self, columns: int) -> None:
        self.values = np.full((MOST_ROWS, columns), np.nan)
        self.address: int = self.values.ctypes.data
        self.present = bytearray(MOST_ROWS)
        self.promised: dict[int, tuple[Row, Promise]] = {}
        self.sites: list[str] = []
        self.calls: list[int] = []
        self.layout: Layout | None = None


class CallRows:
    """All rows of one subject that is seen call by call; a row that turns up late opens a further part.

    Attributes:
        is_used: Whether there is any row.
        is_wide: Whether float64 was captured.
    """

    def __init__(self, subject: str, statistics: tuple[str, ...]) -> None:
        self._subject, self.statistics = subject, statistics
        self.is_used = False
        self._parts: list[_Part] = []
        self._known: dict[tuple[str, int], Row] = {}
        self.is_wide = False

    def row(self, site: str, call: int) -> Row:
        """The row of this call of the site, made when it is first asked for."""
        found = self._known.get((site, call))
        if found is None:
            found = self._known[site, call] = self._new_row(site, call)
        return found

    def _new_row(self, site: str, call: int) -> Row:
        if not self._parts or self._parts[-1].layout is not None or len(self._parts[-1].sites) == MOST_ROWS:
            self._parts.append(_Part(len(self.statistics)))
            self.is_used = True
        part = self._parts[-1]
        part.sites.append(site)
        part.calls.append(call)
        return Row(part, len(part.sites) - 1, site, call)

    def take(self, blocks: list[Block], owe: Callable[[Owed], None]) -> None:
        """Adds copies of the rows filled since the last time, a block a part; what was not filled is absent.

        Args:
            owe: Told of each block that promises have yet to fill.
        """
        for number, part in enumerate(self._parts):
            count = len(part.sites)
            if part.layout is not None and not part.promised and part.present.find(0, 0, count) < 0:
                part.present[:count] = _NONE[:count]
                blocks.append(Block(part.layout, part.values[:count].copy()))
            elif 1 in part.present:
                blocks.append(self._block(number, part, owe))

    def _block(self, number: int, part: _Part, owe: Callable[[Owed], None]) -> Block:
        count = len(part.sites)
        present = np.frombuffer(bytes(part.present[:count]), np.bool_)
        part.present[:] = _NONE
        if part.layout is None:
            calls = tuple(part.calls) if any(part.calls) else ()
            dtypes = column_dtypes(self.statistics, wide=self.is_wide)
            part.layout = Layout(self._subject, tuple(part.sites), self.statistics, dtypes, calls, number)
        values = part.values[:count].copy()
        if part.promised:
            present = present.copy()
            owe(Owed(values, present, dict(part.promised)))
            part.promised.clear()
        elif present.all():
            return Block(part.layout, values)
        values[~present] = np.nan
        return Block(part.layout, values, present)


def merge_rows(
    before: Mapping[str, Rows], now: Mapping[str, Rows], when_there: Callable[[Callable[[], object]], None]
) -> dict[str, Rows]:
    """Both, where several optimizers fill different rows of one subject in a step.

    Args:
        when_there: Does a work again when promised numbers have arrived.
    """
    merged = dict(before)
    for subject, rows in now.items():
        held = merged.get(subject)
        if held is None or held.present.size != rows.present.size:
            merged[subject] = rows
        else:
            choose = partial(_choose, rows, held, np.empty_like(held.values))
            when_there(choose)
            merged[subject] = Rows(choose(), held.present | rows.present)
    return merged


def _choose(rows: Rows, others: Rows, out: NDArray[np.float64]) -> NDArray[np.float64]:
    """`out`, which has the rows that are present and the others of those that are not."""
    np.copyto(out, np.where(rows.present[:, None], rows.values, others.values))
    return out


#: Masks that are remembered: every subject may have one of its own.
_MASKS = 64


class TableRows:
    """The layouts of subjects that have one row a parameter; parameters that join later open a further part."""

    def __init__(self) -> None:
        self._layouts: dict[str, list[tuple[int, Layout]]] = {}
        #: By their ids masks that say that every row is there, as they were asked about last.
        self._full: dict[int, NDArray[np.bool_]] = {}

    def take(
        self,
        blocks: list[Block],
        tables: Mapping[str, Rows],
        view: View,
        statistics: Callable[[str], tuple[str, ...]],
    ) -> None:
        """Adds the rows of all subjects cut into blocks of at most 1024, without copying them.

        Args:
            statistics: The columns of a subject; asked when names are new.
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
            blocks += [_table_block(*one) for one in cut if one[2].any()]

    def _grown(
        self, subject: str, statistics: Callable[[str], tuple[str, ...]], view: View
    ) -> list[tuple[int, Layout]]:
        """The layouts of a subject, those of names that joined since among them."""
        layouts = self._layouts.setdefault(subject, [])
        covered = sum(len(layout.sites) for _, layout in layouts)
        for start in range(covered, len(view.names), MOST_ROWS):
            columns = statistics(subject)
            dtypes = column_dtypes(columns, wide=bool((view.weights().codes == FLOAT64).any()))
            sites = view.names[start : start + MOST_ROWS]
            layouts.append((start, Layout(subject, sites, columns, dtypes, (), len(layouts))))
        return layouts

    def _is_full(self, present: NDArray[np.bool_]) -> bool:
        """Whether every row is there, which is remembered: tables hand out the same array while it says the same."""
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
        more: Statistics on request, whose columns stand behind those of a collector.
    """

    def __init__(self, more: More) -> None:
        self._more = more
        self._columns: dict[str, tuple[str, ...]] = {}
        self._rows = {name: CallRows(name, self.columns(name)) for name, one in COLLECTORS.items() if one.measure}

    def of(self, subject: str) -> CallRows:
        """The rows of a subject that hooks fill call by call."""
        return self._rows[subject]

    def open(self, subject: str, columns: tuple[str, ...]) -> CallRows:
        """The rows of a subject of its own, kept as float64; made when they are first asked for.

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
        """The statistics of a subject's rows, those on request behind the collector's own."""
        known = self._columns.get(subject)
        if known is None:
            entry = COLLECTORS.get(subject) or COLLECTORS[subject.partition("/")[0]]
            has_more = entry.columns[: len(STATISTICS)] == STATISTICS and not subject.startswith("communication")
            known = self._columns[subject] = (*entry.columns, *self._more.columns) if has_more else entry.columns
        return known

    def take(self, owe: Callable[[Owed], None]) -> list[Block]:
        """The rows that have been filled since the last time; `owe` as `CallRows.take` takes it."""
        blocks: list[Block] = []
        for rows in self._rows.values():
            if rows.is_used:
                rows.take(blocks, owe)
        return blocks
