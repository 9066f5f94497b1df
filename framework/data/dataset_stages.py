"""Datasets made of datasets: subsets, repeats, shards, joins, filters, shuffles, batches."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dtype import Array
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
        """Return positions in the source, or None."""
        positions = self._source.order(number)
        return None if positions is None else positions[: self._count]

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """Return the columns at those positions."""
        return self._source.gather(positions)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
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
        """Return positions in the source, or None."""
        positions = self._source.order(number)
        return None if positions is None else positions[self._count :]

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """Return the columns at those positions."""
        return self._source.gather(positions)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
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
        """Return positions in the source, or None."""
        positions = self._source.order(number)
        if positions is None:
            return None
        return positions[self._index : len(positions) // self._count * self._count : self._count]

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """Return the columns at those positions."""
        return self._source.gather(positions)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
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
        """Return the items of that epoch, from `start` on."""
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
        """Return the items of that epoch, from `start` on."""
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
        """Return the items of that epoch, from `start` on."""
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
        """Return the items of that epoch, from `start` on, which is reached by reading and dropping what stands
        before."""
        return islice((item for item in self._source.epoch(number) if self._claim(*item)), start, None)


def _in_turn(epochs: list[tuple[Dataset, int]], start: int) -> Iterator[Item]:
    """Return the items of several epochs from position `start` of them all on; epochs of unknown length are read to
    count."""
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


@stage("shuffle")
class Shuffled(Dataset):
    """Items in an order drawn from (seed, epoch)."""

    __slots__ = ("_buffer", "_seed", "_source")

    def __init__(self, source: Dataset, seed: int, buffer: int) -> None:
        if buffer < 1:
            raise ValueError(f"shuffle expects a buffer of 1 item or more, got {buffer}")
        if seed < 0:
            raise ValueError(f"shuffle expects a seed of 0 or more, got {seed}")
        self._source, self._seed, self._buffer = source, seed, buffer

    def __len__(self) -> int:
        return len(self._source)

    def order(self, number: int) -> NDArray[np.int64] | None:
        """Return positions in the source, or None."""
        positions = self._source.order(number)
        return None if positions is None else positions[self._generator(number).permutation(len(positions))]

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """Return the columns at those positions."""
        return self._source.gather(positions)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
        positions = self.order(number)
        if positions is not None:
            return _one_by_one(self, positions[start:])
        return islice(self._through_buffer(number), start, None)

    def _through_buffer(self, number: int) -> Iterator[Item]:
        generator = self._generator(number)
        waiting: list[Item] = []
        for item in self._source.epoch(number):
            if len(waiting) < self._buffer:
                waiting.append(item)
                continue
            chosen = int(generator.integers(len(waiting)))
            yield waiting[chosen]
            waiting[chosen] = item
        for chosen in generator.permutation(len(waiting)):
            yield waiting[chosen]

    def _generator(self, number: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, number])))


def _one_by_one(dataset: Dataset, positions: NDArray[np.int64]) -> Iterator[Item]:
    for position in range(len(positions)):
        yield tuple(column[0] for column in dataset.gather(positions[position : position + 1]))


@stage("batch")
class Batched(Dataset):
    """Items in groups, each column with a leading axis."""

    __slots__ = ("_drop_remainder", "_size", "_source")

    def __init__(self, source: Dataset, size: int, drop_remainder: bool) -> None:
        if size < 1:
            raise ValueError(f"batch expects a size of 1 item or more, got {size}")
        self._source, self._size, self._drop_remainder = source, size, drop_remainder

    def __len__(self) -> int:
        items = len(self._source)
        return items // self._size if self._drop_remainder else -(-items // self._size)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
        positions = self._source.order(number)
        if positions is None:
            first = start * self._size
            for group in _groups(self._source.epoch(number, start=first), self._size, self._drop_remainder):
                yield stacked(group)
            return
        for first in range(start * self._size, len(positions), self._size):
            chosen = positions[first : first + self._size]
            if len(chosen) == self._size or not self._drop_remainder:
                yield self._source.gather(chosen)


@stage("padded_batch")
class PaddedBatch(Dataset):
    """Items in groups, padded at the end of every axis to the longest of the group."""

    __slots__ = ("_drop_remainder", "_multiple", "_size", "_source", "_values")

    def __init__(
        self, source: Dataset, size: int, values: float | Sequence[float], multiple: int, drop_remainder: bool
    ) -> None:
        if size < 1:
            raise ValueError(f"padded_batch expects a size of 1 item or more, got {size}")
        if multiple < 1:
            raise ValueError(f"padded_batch expects lengths to be multiples of 1 or more, got {multiple}")
        self._source, self._size, self._drop_remainder = source, size, drop_remainder
        self._values, self._multiple = values, multiple

    def __len__(self) -> int:
        items = len(self._source)
        return items // self._size if self._drop_remainder else -(-items // self._size)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
        for group in _groups(self._source.epoch(number, start=start * self._size), self._size, self._drop_remainder):
            columns = list(zip(*group, strict=True))
            given = self._values
            values = list(given) if isinstance(given, Sequence) else [given] * len(columns)
            if len(values) != len(columns):
                raise ValueError(f"padded_batch expects a value for each of {len(columns)} columns, got {len(values)}")
            yield tuple(self._padded(column, value) for column, value in zip(columns, values, strict=True))

    def _padded(self, column: tuple[Array, ...], value: float) -> Array:
        arrays = [np.asarray(array) for array in column]
        if len({array.ndim for array in arrays}) > 1:
            axes = sorted({array.ndim for array in arrays})
            raise ValueError(f"padded_batch expects items of equally many axes in a column, got {axes}; expand some")
        longest = [max(lengths) for lengths in zip(*(array.shape for array in arrays), strict=True)]
        shape = [-(-length // self._multiple) * self._multiple for length in longest]
        out = np.full((len(arrays), *shape), value, dtype=np.result_type(*arrays))
        for number, array in enumerate(arrays):
            place: tuple[Any, ...] = (number, *(slice(length) for length in array.shape))
            out[place] = array
        return out


def _groups(items: Iterator[Item], size: int, drop_remainder: bool) -> Iterator[list[Item]]:
    group: list[Item] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group and not drop_remainder:
        yield group


def stacked(group: list[Item]) -> Item:
    """Return the items' columns with a leading axis.

    Raises:
        ValueError: The shapes of a column differ.
    """
    columns = list(zip(*group, strict=True))
    for number, column in enumerate(columns):
        shapes = {np.shape(value) for value in column}
        if len(shapes) > 1:
            raise ValueError(
                f"batch expects items of one shape in column {number}, got {sorted(shapes)}; "
                f"use padded_batch(), or pad or crop them with map() before batch()"
            )
    return tuple(np.stack(column) for column in columns)
