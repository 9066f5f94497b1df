"""Items in groups: stacked, or padded to one length and stacked."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset, Item, stage


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
        """The items of that epoch, from `start` on."""
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
        """The items of that epoch, from `start` on."""
        for group in _groups(self._source.epoch(number, start=start * self._size), self._size, self._drop_remainder):
            columns = list(zip(*group, strict=True))
            given = self._values
            values = list(given) if isinstance(given, Sequence) else [given] * len(columns)
            if len(values) != len(columns):
                raise ValueError(f"padded_batch expects a value for each of {len(columns)} columns, got {len(values)}")
            yield tuple(self._padded(column, value) for column, value in zip(columns, values, strict=True))

    def _padded(self, column: tuple[NDArray[Any], ...], value: float) -> NDArray[Any]:
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
    """The items' columns with a leading axis.

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
