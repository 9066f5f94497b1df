"""Many arrays as the kernels take them in one call: addresses, sizes and dtype codes, with what keeps them alive."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cpu import STATISTICS, measure_many
from .more import NO_MORE, More, measure_more_many


@dataclass(frozen=True, eq=False)
class Arrays:
    """Where the arrays of one quantity lie at this moment, one row a parameter.

    A table is used again for as many steps as nothing moves, and so remembers what follows from it.

    Args:
        addresses: `(n,)` int64, 0 where there is none.
        sizes: `(n,)` int64, elements.
        codes: `(n,)` int64, dtype codes.
        owners: What keeps the memory alive and in place until the kernels have read it.
        remote: By row the tensors that lie on a device; their addresses are 0, their sizes and codes as they will be.
        bring: Where a copy of such a tensor lies on the host, and what keeps it there.
    """

    addresses: NDArray[np.int64]
    sizes: NDArray[np.int64]
    codes: NDArray[np.int64]
    owners: Sequence[object] = ()
    remote: Mapping[int, Any] = field(default_factory=dict)  # Any: tensors of frameworks that may not be there
    bring: Callable[[Any], tuple[tuple[int, int, int], object]] | None = None

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """`(n,)`, where there is an array; not to be written to."""
        there: NDArray[np.bool_] = self.addresses != 0
        if self.remote:
            there[list(self.remote)] = True
        return there

    @cached_property
    def is_whole(self) -> bool:
        """Whether every row has an array on the host."""
        return bool(self.addresses.all())

    def move_to(self, addresses: Sequence[int]) -> None:
        """Nothing; the same arrays, present and absent as they are, lie there from now on."""
        self._moves.pack_into(self.addresses.data, 0, *addresses)

    @cached_property
    def _moves(self) -> Struct:
        return Struct(f"={self.addresses.size}q")

    def empty_rows(self, columns: int) -> NDArray[np.float64]:
        """`(n, columns)` to be filled by a kernel; NaN where there is nothing to read."""
        shape = (self.addresses.size, columns)
        return np.empty(shape) if self.is_whole else np.full(shape, np.nan)

    def local(self) -> "Arrays":
        """The table with copies on the host of what lies on a device, which is waited for; itself if nothing does."""
        if not self.remote or self.bring is None:
            return self
        places = list(zip(self.addresses.tolist(), self.sizes.tolist(), self.codes.tolist(), strict=True))
        owners = [*self.owners]
        for row, tensor in self.remote.items():
            places[row], owner = self.bring(tensor)
            owners.append(owner)
        return table_of(places, owners)

    def statistics(self, more: More = NO_MORE) -> NDArray[np.float64]:
        """`(n, 10)`, and the columns of `more` behind them; rows without an array are NaN. A device is waited for."""
        return self.statistics_and_norm(more)[0]

    def statistics_and_norm(self, more: More = NO_MORE) -> tuple[NDArray[np.float64], float]:
        """The same, and the norm over all arrays: NaN or infinity where one of them holds one."""
        if self.remote:
            return self.local().statistics_and_norm(more)
        rows = self.empty_rows(len(STATISTICS) + len(more.columns))
        norm = measure_many(self.addresses, self.sizes, self.codes, rows)
        return (self.add(more, rows, len(STATISTICS)) if more.flags else rows), norm

    def add(self, more: More, rows: NDArray[np.float64], place: int) -> NDArray[np.float64]:
        """The rows, whose first ten columns are measured; those of `more` are filled from column `place` on."""
        if more.flags and self.remote:
            return self.local().add(more, rows, place)
        if more.flags:
            measure_more_many(self.addresses, self.sizes, self.codes, rows, place, more.flags)
        return rows


def together(tables: Iterable[Arrays]) -> Arrays:
    """The rows of one table or more behind one another; none of them lies on a device, and their owners keep them."""
    columns = zip(*((one.addresses, one.sizes, one.codes) for one in tables), strict=True)
    addresses, sizes, codes = map(np.concatenate, columns)
    return Arrays(addresses, sizes, codes)


def table_of(places: Sequence[tuple[int, int, int]], owners: Sequence[object] = ()) -> Arrays:
    """The table of (address, size, code) triples."""
    columns = np.array(places, np.int64).reshape(-1, 3).T.copy()
    return Arrays(columns[0], columns[1], columns[2], owners)
