"""Where items come from: arrays in memory, or anything that yields."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .dataset import Dataset, Item


class ArrayDataset(Dataset):
    """Items are the rows of one or more arrays of equal length.

    Args:
        arrays: Columns; the first axis counts the items. They are not copied.

    Raises:
        ValueError: No array, an array without axis, unequal lengths, or no item at all.

    Example:
        >>> data = ArrayDataset(np.arange(6), np.arange(6) % 2).shuffle(seed=1).batch(4)
        >>> [len(x) for x, y in data]
        [4, 2]
    """

    __slots__ = ("_columns",)

    def __init__(self, *arrays: ArrayLike) -> None:
        columns = tuple(np.asarray(array) for array in arrays)
        if not columns or any(column.ndim == 0 for column in columns):
            raise ValueError("ArrayDataset expects one array or more, each with an axis that counts the items")
        lengths = [len(column) for column in columns]
        if len(set(lengths)) > 1:
            raise ValueError(f"ArrayDataset expects arrays of equal length, got {lengths}; every row is one item")
        if lengths[0] == 0:
            raise ValueError("ArrayDataset expects at least one item, got arrays of length 0")
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    def order(self, number: int) -> NDArray[np.int64]:
        """Positions in the source, or None."""
        del number  # without shuffling every epoch has the order of the arrays
        return np.arange(len(self), dtype=np.int64)

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """The columns at those positions."""
        return tuple(column[positions] for column in self._columns)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        del number
        for position in range(start, len(self)):
            yield tuple(column[position] for column in self._columns)


class GeneratorDataset(Dataset):
    """Items are what `make(epoch)` yields: an array or a tuple of arrays each time.

    Args:
        make: Called once an epoch with its number; returns something to iterate over. Give the same items for the same
            number if you want to resume: a start in the middle is reached by reading and dropping what stands before.
        length: Items of an epoch, if known.

    Raises:
        TypeError: `make` cannot be called; a bare generator would be empty in its second epoch.
    """

    __slots__ = ("_length", "_make")

    def __init__(self, make: Callable[[int], Iterable[Any]], *, length: int | None = None) -> None:
        if not callable(make):
            raise TypeError(
                f"GeneratorDataset expects a function of the epoch's number that returns an iterable, "
                f"got {type(make).__name__}; pass the generator function itself, not its result"
            )
        self._make, self._length = make, length

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("this GeneratorDataset does not know its length; pass length= when you make it")
        return self._length

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        for position, item in enumerate(self._make(number)):
            if position >= start:
                columns = item if isinstance(item, tuple) else (item,)
                yield tuple(np.asarray(column) for column in columns)
