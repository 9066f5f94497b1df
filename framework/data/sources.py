"""Where items come from: arrays in memory, anything with positions, or anything that yields."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .dataset import Dataset, Item
from .dataset_stages import stacked


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
        """Return positions in the source, or None."""
        del number  # without shuffling every epoch has the order of the arrays
        return np.arange(len(self), dtype=np.int64)

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """Return the columns at those positions."""
        return tuple(column[positions] for column in self._columns)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
        del number
        for position in range(start, len(self)):
            yield tuple(column[position] for column in self._columns)


class NumpySlicesDataset(ArrayDataset):
    """Items are the rows of arrays given as MindSpore takes them: one, a tuple or a list of columns, or a dict of them.

    Args:
        data: An array; a tuple of arrays; or a mapping of column names to arrays.
        column_names: Names of the columns; those of the mapping, or `column_0`, `column_1`, ... by default.

    Attributes:
        column_names: For `create_dict_iterator`.

    Example:
        >>> NumpySlicesDataset({"x": np.zeros((4, 2)), "y": np.arange(4)}).column_names
        ('x', 'y')
    """

    __slots__ = ("column_names",)

    def __init__(
        self,
        data: ArrayLike | tuple[ArrayLike, ...] | Mapping[str, ArrayLike],
        column_names: Iterable[str] | None = None,
    ) -> None:
        columns: tuple[ArrayLike, ...]
        if isinstance(data, Mapping):
            columns = tuple(data.values())
            column_names = tuple(data) if column_names is None else column_names
        else:
            columns = data if isinstance(data, tuple) else (data,)
        super().__init__(*columns)
        names = tuple(f"column_{n}" for n in range(len(columns))) if column_names is None else tuple(column_names)
        if len(names) != len(columns):
            raise ValueError(f"NumpySlicesDataset expects a name for each of {len(columns)} columns, got {names}")
        self.column_names = names


class GeneratorDataset(Dataset):
    """Items are what `source(epoch)` yields, or what `source[position]` is: an array or a tuple of arrays each time.

    Args:
        source: A function that is called once an epoch with its number and returns something to iterate over; give the
            same items for the same number if you want to resume: a start in the middle is reached by reading and
            dropping what stands before. Or an object with `__getitem__` and `__len__`, which can be shuffled and
            sharded without being read, and resumed anywhere at once.
        length: Items of an epoch, if known; of an object with positions its own.

    Raises:
        TypeError: `source` is neither; a bare generator would be empty in its second epoch.
    """

    __slots__ = ("_items", "_length", "_make")

    def __init__(self, source: Any, *, length: int | None = None) -> None:
        self._items: Any = source if hasattr(source, "__getitem__") and hasattr(source, "__len__") else None
        if self._items is None and not callable(source):
            raise TypeError(
                f"GeneratorDataset expects a function of the epoch's number that returns an iterable, or an object "
                f"with __getitem__ and __len__, got {type(source).__name__}; pass the generator function itself, not "
                f"its result"
            )
        self._make: Callable[[int], Iterable[Any]] = source
        self._length = length if self._items is None else len(source)

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("this GeneratorDataset does not know its length; pass length= when you make it")
        return self._length

    def order(self, number: int) -> NDArray[np.int64] | None:
        """Return positions in the source, or None."""
        del number
        return None if self._items is None else np.arange(len(self), dtype=np.int64)

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """Return the columns at those positions."""
        return stacked([_columns(self._items[int(position)]) for position in positions])

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
        if self._items is not None:
            for position in range(start, len(self)):
                yield _columns(self._items[position])
            return
        for position, item in enumerate(self._make(number)):
            if position >= start:
                yield _columns(item)


def _columns(item: object) -> Item:
    return tuple(np.asarray(column) for column in (item if isinstance(item, tuple) else (item,)))
