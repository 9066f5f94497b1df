"""The rows that hooks fill during a step: preallocated, at addresses that never move, copied once at hand-over."""

from collections.abc import Callable, Sequence

import numpy as np

from ...storage.records import Block, Layout
from ..outbox.promises import Owed, Promise
from .columns import MOST_ROWS, column_dtypes

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
