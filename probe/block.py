"""The rows that hooks fill during a step: preallocated, at addresses that never move, copied once at hand-over."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..storage.records import Block, Layout
from .collector import Rows

_ROWS = 1024
_COUNTS = frozenset({"zeros", "nans", "pos_infs", "neg_infs", "size", "bytes", "checksum"})


class Row:
    """One row: where its numbers go, and how to say that they are there."""

    __slots__ = ("address", "call", "index", "present", "site", "values")

    def __init__(self, part: "_Part", index: int, site: str, call: int) -> None:
        self.values, self.present, self.index = part.values, part.present, index
        self.address = part.address + index * part.values.strides[0]
        self.site, self.call = site, call

    def put(self, numbers: Sequence[float]) -> None:
        """Takes these numbers."""
        self.values[self.index] = numbers
        self.present[self.index] = 1

    def copy_from(self, other: "Row") -> None:
        """Takes the other's numbers: the same tensor was seen there."""
        self.values[self.index] = other.values[other.index]
        self.present[self.index] = 1


class _Part:
    """Up to 1024 rows of a stream; its layout is sealed when it is first handed over."""

    def __init__(self, columns: int) -> None:
        self.values = np.full((_ROWS, columns), np.nan)
        self.address: int = self.values.ctypes.data
        self.present = bytearray(_ROWS)
        self.sites: list[str] = []
        self.calls: list[int] = []
        self.layout: Layout | None = None


class CallRows:
    """All rows of one subject that is seen call by call; a row that turns up late opens a further part."""

    def __init__(self, subject: str, statistics: tuple[str, ...]) -> None:
        self._subject, self.statistics = subject, statistics
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
        if not self._parts or self._parts[-1].layout is not None or len(self._parts[-1].sites) == _ROWS:
            self._parts.append(_Part(len(self.statistics)))
        part = self._parts[-1]
        part.sites.append(site)
        part.calls.append(call)
        return Row(part, len(part.sites) - 1, site, call)

    def take(self) -> tuple[Block, ...]:
        """Copies of the rows filled since the last time, a block a part; what was not filled is absent."""
        return tuple(block for number, part in enumerate(self._parts) if (block := self._block(number, part)))

    def _block(self, number: int, part: _Part) -> Block | None:
        count = len(part.sites)
        present = np.frombuffer(bytes(part.present[:count]), np.bool_)
        if not present.any():
            return None
        part.present[:] = bytes(_ROWS)
        if part.layout is None:
            calls = tuple(part.calls) if any(part.calls) else ()
            dtypes = column_dtypes(self.statistics, wide=self.is_wide)
            part.layout = Layout(self._subject, tuple(part.sites), self.statistics, dtypes, calls, number)
        values = part.values[:count].copy()
        if present.all():
            return Block(part.layout, values)
        values[~present] = np.nan
        return Block(part.layout, values, present)


class TableRows:
    """The layouts of subjects that have one row a parameter; parameters that join later open a further part."""

    def __init__(self) -> None:
        self._layouts: dict[str, list[tuple[int, Layout]]] = {}

    def blocks(
        self, subject: str, statistics: tuple[str, ...], names: tuple[str, ...], rows: Rows, *, wide: bool
    ) -> tuple[Block, ...]:
        """The rows cut into blocks of at most 1024, without copying them."""
        layouts = self._layouts.setdefault(subject, [])
        covered = sum(len(layout.sites) for _, layout in layouts)
        for start in range(covered, len(names), _ROWS):
            dtypes = column_dtypes(statistics, wide=wide)
            sites = names[start : start + _ROWS]
            layouts.append((start, Layout(subject, sites, statistics, dtypes, (), len(layouts))))
        cut = ((layout, slice(start, start + len(layout.sites))) for start, layout in layouts)
        return tuple(
            _table_block(layout, rows.values[at], rows.present[at]) for layout, at in cut if rows.present[at].any()
        )


def _table_block(layout: Layout, values: NDArray[np.float64], present: NDArray[np.bool_]) -> Block:
    return Block(layout, values, None if present.all() else present)


def column_dtypes(statistics: tuple[str, ...], *, wide: bool) -> tuple[str, ...]:
    """What each column is stored as: counts as uint64, the rest as float64 where float64 was captured, else float32."""
    return tuple(
        "uint64" if name in _COUNTS else "float64" if wide or name == "sum" else "float32" for name in statistics
    )


def merge_rows(before: Mapping[str, Rows], now: Mapping[str, Rows]) -> dict[str, Rows]:
    """Both, where several optimizers fill different rows of one subject in a step."""
    merged = dict(before)
    for subject, rows in now.items():
        held = merged.get(subject)
        if held is None or held.present.size != rows.present.size:
            merged[subject] = rows
        else:
            chosen = np.where(rows.present[:, None], rows.values, held.values)
            merged[subject] = Rows(chosen, held.present | rows.present)
    return merged
