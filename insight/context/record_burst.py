"""Consecutive records: what rules need of each is computed for all of them together."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import Any, Generic, TypeVar

import numpy as np

from ...storage import Block, StepRecord
from ..running_statistics import Floats

_T = TypeVar("_T")


class once(Generic[_T]):  # noqa: N801  it is written like a decorator
    """A `functools.cached_property` without the lock that it takes in Python 3.11; for objects of one thread.

    Args:
        make: The method, whose name the value takes in the object.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:  # Any: an object of whatever class it is written in
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> _T:
        value: _T = self._make(instance)
        instance.__dict__[self._name] = value
        return value


#: Sites above which each record is computed alone: beyond this the numbers of a record take longer than the calls
#: (bursts took 0.75 to 0.9 of the time on 10 to 400 sites, 1.05 on 1000).
_MOST_SITES = 512


class StackedSubject:
    """One subject stacked over all records of a burst; every record has the same complete layout.

    Args:
        values: `(records, sites, statistics)`.
        column: Place of each statistic.
    """

    def __init__(self, values: Floats, column: dict[str, int]) -> None:
        self.values = values
        self._column = column
        self._known: dict[str, tuple[object, Any]] = {}  # Any: whatever its maker returns

    def __len__(self) -> int:
        return len(self.values)

    def columns(self, statistic: str) -> Floats:
        """`(records, sites)` values of one statistic, NaN where it was not recorded."""
        at = self._column.get(statistic)
        return self.values[:, :, at] if at is not None else np.full(self.values.shape[:2], np.nan)

    def known(self, name: str, about: object, make: Callable[["StackedSubject"], _T]) -> _T:
        """Return what `make` computes; compute it again only if `about` is another object."""
        known = self._known.get(name)
        if known is None or known[0] is not about:
            known = self._known[name] = about, make(self)
        found: _T = known[1]
        return found


class Burst:
    """Consecutive records whose statistics are computed together and checked one by one.

    Args:
        records: In their order; those that come alone are no burst.
    """

    def __init__(self, records: Sequence[StepRecord] = ()) -> None:
        several = records if len(records) > 1 else ()
        self.records = several
        self._places = {id(record.blocks): (at, record.blocks) for at, record in enumerate(several) if record.blocks}
        self._size = len(several)
        self._blocks: dict[str, list[tuple[int, Block]]] = {}
        self._stacked: dict[str, StackedSubject | None] = {}
        for at, record in enumerate(several):
            for block in record.blocks:
                self._blocks.setdefault(block.layout.subject, []).append((at, block))

    def index(self, record: StepRecord) -> int:
        """Return the record's index, found by its blocks; -1 if it is none of them."""
        return self._places.get(id(record.blocks), (-1, ()))[0]

    def lookahead(self, record: StepRecord) -> Sequence[StepRecord]:
        """Return the record and those after it, up to one that is skipped or has events.

        None for a record of no burst, and for one that is looked at alone for its many sites.
        """
        index = self.index(record)
        is_large = any(len(block.layout.sites) > _MOST_SITES for block in record.blocks)
        if index < 0 or is_large or self.records[index] is not record:
            return ()
        plain = takewhile(lambda record: not record.events and not record.skipped, self.records[index:])
        return list(plain)

    def next_with(self, subject: str, index: int) -> int:
        """Return the index of the first record from `index` on that carries the subject; the size if there is none."""
        found = self._blocks.get(subject, ())
        at = bisect_left(found, (index,))
        return found[at][0] if at < len(found) else self._size

    @once
    def logged(self) -> dict[str, list[int]]:
        """Return the indices of the records that carry each scalar."""
        found: dict[str, list[int]] = {}
        for at, record in enumerate(self.records):
            for name in record.scalars:
                found.setdefault(name, []).append(at)
        return found

    def next_logged(self, names: Collection[str], index: int) -> int:
        """Return the index of the first record from `index` on that carries one of these scalars; the size if none."""
        lists = [found for name in names if (found := self.logged.get(name)) is not None]
        places = [indices[at] for indices in lists if (at := bisect_left(indices, index)) < len(indices)]
        return min(places, default=self._size)

    def stacked(self, subject: str, column: dict[str, int]) -> StackedSubject | None:
        """Return the subject stacked over all records; None if a record's layout differs or is incomplete."""
        if subject not in self._stacked:
            self._stacked[subject] = self._made(self._blocks.get(subject, []), column)
        return self._stacked[subject]

    def _made(self, blocks: list[tuple[int, Block]], column: dict[str, int]) -> StackedSubject | None:
        if [at for at, _ in blocks] != list(range(self._size)):
            return None
        layout = blocks[0][1].layout
        if not 0 < len(layout.sites) <= _MOST_SITES or any(
            block.layout is not layout or block.present is not None for _, block in blocks
        ):
            return None
        return StackedSubject(np.array([block.values for _, block in blocks], dtype=np.float64), column)
