"""Fewer items, more items, and the items of several datasets together."""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset, Item, stage


@stage("take")
class Taken(Dataset):
    """The first items of every epoch."""

    __slots__ = ("_count", "_source")

    def __init__(self, source: Dataset, count: int) -> None:
        if count < 0:
            raise ValueError(f"take expects a count of 0 items or more, got {count}")
        self._source, self._count = source, count

    def __len__(self) -> int:
        return min(self._count, len(self._source))

    def order(self, number: int) -> NDArray[np.int64] | None:
        """Positions in the source, or None."""
        positions = self._source.order(number)
        return None if positions is None else positions[: self._count]

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """The columns at those positions."""
        return self._source.gather(positions)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        return islice(self._source.epoch(number, start=start), max(0, self._count - start))


@stage("skip")
class Skipped(Dataset):
    """All but the first items of every epoch."""

    __slots__ = ("_count", "_source")

    def __init__(self, source: Dataset, count: int) -> None:
        if count < 0:
            raise ValueError(f"skip expects a count of 0 items or more, got {count}")
        self._source, self._count = source, count

    def __len__(self) -> int:
        return max(0, len(self._source) - self._count)

    def order(self, number: int) -> NDArray[np.int64] | None:
        """Positions in the source, or None."""
        positions = self._source.order(number)
        return None if positions is None else positions[self._count :]

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """The columns at those positions."""
        return self._source.gather(positions)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        return self._source.epoch(number, start=start + self._count)


@stage("shard")
class Sharded(Dataset):
    """Every `count`-th item, from item `index` on, as many as every other shard has."""

    __slots__ = ("_count", "_index", "_source")

    def __init__(self, source: Dataset, count: int, index: int) -> None:
        if count < 1 or not 0 <= index < count:
            raise ValueError(f"shard expects an index from 0 up to, not including, the count, got {index} of {count}")
        self._source, self._count, self._index = source, count, index

    def __len__(self) -> int:
        return len(self._source) // self._count

    def order(self, number: int) -> NDArray[np.int64] | None:
        """Positions in the source, or None."""
        positions = self._source.order(number)
        if positions is None:
            return None
        return positions[self._index : len(positions) // self._count * self._count : self._count]

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """The columns at those positions."""
        return self._source.gather(positions)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        mine: Item | None = None
        for place, item in enumerate(self._source.epoch(number, start=start * self._count)):
            if place % self._count == self._index:
                mine = item
            if place % self._count == self._count - 1 and mine is not None:
                yield mine


@stage("repeat")
class Repeated(Dataset):
    """Epochs made of several of the source."""

    __slots__ = ("_count", "_source")

    def __init__(self, source: Dataset, count: int) -> None:
        if count < 1:
            raise ValueError(f"repeat expects a count of 1 or more, got {count}; Loader.forever() has no end")
        self._source, self._count = source, count

    def __len__(self) -> int:
        return self._count * len(self._source)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        inner = range(number * self._count, (number + 1) * self._count)
        yield from _in_turn([(self._source, epoch) for epoch in inner], start)


@stage("concat")
class Chained(Dataset):
    """The items of one dataset, then those of another."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Dataset, second: Dataset) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        yield from _in_turn([(self._first, number), (self._second, number)], start)


@stage("zip")
class Zipped(Dataset):
    """Items with the columns of several datasets, as long as the shortest lasts."""

    __slots__ = ("_sources",)

    def __init__(self, *sources: Dataset) -> None:
        self._sources = sources

    def __len__(self) -> int:
        return min(len(source) for source in self._sources)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        for items in zip(*(source.epoch(number, start=start) for source in self._sources), strict=False):
            yield tuple(column for item in items for column in item)


@stage("filter")
class Filtered(Dataset):
    """The items for which a claim is true."""

    __slots__ = ("_claim", "_source")

    def __init__(self, source: Dataset, claim: Callable[..., bool]) -> None:
        self._source, self._claim = source, claim

    def __len__(self) -> int:
        raise TypeError("a filtered dataset does not know its length before it is read; count the items of an epoch")

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on, which is reached by reading and dropping what stands before."""
        return islice((item for item in self._source.epoch(number) if self._claim(*item)), start, None)


def _in_turn(epochs: list[tuple[Dataset, int]], start: int) -> Iterator[Item]:
    """The items of several epochs from position `start` of them all on; epochs of unknown length are read to count."""
    for dataset, number in epochs:
        try:
            length = len(dataset)
        except TypeError:
            for item in dataset.epoch(number):
                if start > 0:
                    start -= 1
                else:
                    yield item
            continue
        if start < length:
            yield from dataset.epoch(number, start=start)
        start = max(0, start - length)
