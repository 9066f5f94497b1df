"""Data as a pure function: a dataset says which items epoch number `n` holds, in which order, and keeps no place of
its own.

    source          ArrayDataset | GeneratorDataset
    .shuffle(seed)  another order every epoch, the same one whenever that epoch is asked for again
    .map(function)  applied to the columns of every item (or of every batch, when it follows `batch`)
    .batch(size)    columns gain a leading axis
    .prefetch(n)    a thread prepares the next n items

Because an epoch is a function of (dataset, number, start), resuming in its middle is asking for it with another start;
`Loader` remembers the two numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .prefetch import ahead

#: One array per column; element types are whatever the source holds.
Item = tuple[NDArray[Any], ...]


class Dataset(ABC):
    """Items in epochs; the methods `shuffle`, `map`, `batch`, `prefetch` make new datasets out of this one."""

    __slots__ = ()

    @abstractmethod
    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of epoch `number` from position `start` on; closing the iterator early leaks nothing."""

    @abstractmethod
    def __len__(self) -> int:
        """Items of an epoch.

        Raises:
            TypeError: The source is a generator that does not tell.
        """

    def __iter__(self) -> Iterator[Item]:
        """Epoch 0, every time; loop over `epoch(number)` or a `Loader` for a new order in each."""
        return self.epoch(0)

    def order(self, number: int) -> NDArray[np.int64] | None:
        """Positions in the source of the items of an epoch, or None where the source can only be read in sequence."""
        del number
        return None

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """Columns of several items at once; only called where `order` gave positions."""
        raise TypeError(f"{type(self).__name__} can only be read in sequence; it has no positions {positions}")

    def shuffle(self, seed: int, *, buffer: int = 1024) -> "Dataset":
        """The same items in a random order that depends on the seed and on the number of the epoch.

        Args:
            seed: Equal seeds give equal orders.
            buffer: Only for sources without positions: how many items to choose the next one from.
        """
        return Shuffled(self, seed, buffer)

    def map(self, function: Callable[..., Item | NDArray[Any]]) -> "Dataset":
        """`function(*columns)` of every item; a single array counts as one column."""
        return Mapped(self, function)

    def batch(self, size: int, *, drop_remainder: bool = False) -> "Dataset":
        """Items in groups of `size`; the last one is smaller unless `drop_remainder`."""
        return Batched(self, size, drop_remainder)

    def prefetch(self, count: int = 2) -> "Dataset":
        """The same items, up to `count` of them prepared ahead by a thread."""
        return Prefetched(self, count)


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
        """Positions in the source, or None."""
        positions = self._source.order(number)
        return None if positions is None else positions[self._generator(number).permutation(len(positions))]

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """The columns at those positions."""
        return self._source.gather(positions)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        positions = self.order(number)
        if positions is not None:
            return _one_by_one(self, positions[start:])
        return _skip(self._through_buffer(number), start)

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


class Mapped(Dataset):
    """Items after a function of their columns."""

    __slots__ = ("_function", "_source")

    def __init__(self, source: Dataset, function: Callable[..., Item | NDArray[Any]]) -> None:
        self._source, self._function = source, function

    def __len__(self) -> int:
        return len(self._source)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        for item in self._source.epoch(number, start=start):
            made = self._function(*item)
            yield made if isinstance(made, tuple) else (made,)


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
        """The items of that epoch, from `start` on."""
        positions = self._source.order(number)
        if positions is None:
            yield from self._in_sequence(number, start)
            return
        for first in range(start * self._size, len(positions), self._size):
            chosen = positions[first : first + self._size]
            if len(chosen) == self._size or not self._drop_remainder:
                yield self._source.gather(chosen)

    def _in_sequence(self, number: int, start: int) -> Iterator[Item]:
        group: list[Item] = []
        for item in self._source.epoch(number, start=start * self._size):
            group.append(item)
            if len(group) == self._size:
                yield _stack(group)
                group = []
        if group and not self._drop_remainder:
            yield _stack(group)


class Prefetched(Dataset):
    """The same items, prepared ahead; what is read ahead does not count as consumed."""

    __slots__ = ("_count", "_source")

    def __init__(self, source: Dataset, count: int) -> None:
        if count < 1:
            raise ValueError(f"prefetch expects a count of 1 item or more, got {count}")
        self._source, self._count = source, count

    def __len__(self) -> int:
        return len(self._source)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        return ahead(self._source.epoch(number, start=start), self._count)


def _stack(group: list[Item]) -> Item:
    columns = list(zip(*group, strict=True))
    for number, column in enumerate(columns):
        shapes = {np.shape(value) for value in column}
        if len(shapes) > 1:
            raise ValueError(
                f"batch expects items of one shape in column {number}, got {sorted(shapes)}; "
                f"pad or crop them with map() before batch()"
            )
    return tuple(np.stack(column) for column in columns)


def _one_by_one(dataset: Dataset, positions: NDArray[np.int64]) -> Iterator[Item]:
    for position in range(len(positions)):
        yield tuple(column[0] for column in dataset.gather(positions[position : position + 1]))


def _skip(items: Iterator[Item], count: int) -> Iterator[Item]:
    for number, item in enumerate(items):
        if number >= count:
            yield item
