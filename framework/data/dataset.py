"""Data as a pure function: a dataset says which items epoch number `n` holds, in which order, and keeps no place of
its own.

    source          ArrayDataset | NumpySlicesDataset | GeneratorDataset
    .shuffle(seed)  another order every epoch, the same one whenever that epoch is asked for again
    .shard(n, k)    every n-th item, from item k on: what worker k of n trains on
    .filter(claim)  .take(n)  .skip(n)  .repeat(n)  .concat(other)  .zip(other)
    .map(function)  applied to the columns of every item (or of every batch, when it follows `batch`)
    .batch(size)    columns gain a leading axis; .padded_batch(size) pads items of unequal lengths
    .prefetch(n)    a thread prepares the next n items

Because an epoch is a function of (dataset, number, start), resuming in its middle is asking for it with another start;
`Loader` remembers the two numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..dtype import Array

#: One array per column; element types are whatever the source holds.
Item = tuple[Array, ...]

#: How worker processes begin; see `Dataset.map`.
Start = Literal["spawn", "fork", "forkserver"]

# The methods make datasets of classes that derive from this one; their files enter them here, so that none of them
# has to be known before it.
STAGES: "dict[str, Callable[..., Dataset]]" = {}

_Stage = TypeVar("_Stage", bound=type)


def stage(name: str) -> Callable[[_Stage], _Stage]:
    """Return a decorator that makes a class what the method of that name returns."""

    def register(kind: _Stage) -> _Stage:
        STAGES[name] = kind
        return kind

    return register


class Dataset(ABC):
    """Items in epochs; the methods make new datasets out of this one."""

    __slots__ = ()

    @abstractmethod
    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of epoch `number` from position `start` on; closing the iterator early leaks nothing."""

    @abstractmethod
    def __len__(self) -> int:
        """Return items of an epoch.

        Raises:
            TypeError: The source is a generator that does not tell, or items are filtered.
        """

    def __iter__(self) -> Iterator[Item]:
        """Return epoch 0, every time; loop over `epoch(number)` or a `Loader` for a new order in each."""
        return self.epoch(0)

    def __add__(self, other: "Dataset") -> "Dataset":
        return self.concat(other)

    def order(self, number: int) -> NDArray[np.int64] | None:
        """Return positions in the source of the items of an epoch, or None where the source can only be read in
        sequence."""
        del number
        return None

    def gather(self, positions: NDArray[np.int64]) -> Item:
        """Return columns of several items at once; only called where `order` gave positions."""
        raise TypeError(f"{type(self).__name__} can only be read in sequence; it has no positions {positions}")

    def get_dataset_size(self) -> int:
        """Return items of an epoch, under MindSpore's name."""
        return len(self)

    def create_tuple_iterator(self, num_epochs: int = 1) -> Iterator[Item]:
        """Return the items of that many epochs, one after the other."""
        for number in range(num_epochs):
            yield from self.epoch(number)

    def create_dict_iterator(self, column_names: Sequence[str], num_epochs: int = 1) -> Iterator[dict[str, Any]]:
        """Return the items of that many epochs, their columns by name."""
        for item in self.create_tuple_iterator(num_epochs):
            yield dict(zip(column_names, item, strict=True))

    def shuffle(self, seed: int, *, buffer: int = 1024) -> "Dataset":
        """Return the same items in a random order that depends on the seed and on the number of the epoch.

        Args:
            seed: Equal seeds give equal orders.
            buffer: Only for sources without positions: how many items to choose the next one from.
        """
        return STAGES["shuffle"](self, seed, buffer)

    def shard(self, count: int, index: int) -> "Dataset":
        """Return every `count`-th item, from item `index` on; shards are of one length, so the last few items may be
        left out.

        Shuffle before sharding, with one seed for all: then the shards share out the items anew in every epoch.
        """
        return STAGES["shard"](self, count, index)

    def map(
        self,
        function: Callable[..., Item | Array],
        *,
        seed: int | None = None,
        workers: int = 0,
        start: Start = "spawn",
    ) -> "Dataset":
        """Return `function(*columns)` of every item; a single array counts as one column.

        Args:
            function: Must be defined at the top of a module when workers are spawned.
            seed: When given, the function gets a NumPy generator before the columns, which depends on seed, epoch and
                position only: the same numbers with any number of workers, and after resuming.
            workers: Processes that apply it, 0 for none. Items keep their order. The processes stay for the next epoch
                and end with the dataset, or when this process ends, however it does.
            start: How they begin: `spawn` (from nothing), `fork` (a copy of this process: only while it has no other
                threads) or `forkserver`.
        """
        return STAGES["map"](self, function, seed, workers, start)

    def filter(self, claim: Callable[..., bool]) -> "Dataset":
        """Return the items for whose columns `claim(*columns)` is true."""
        return STAGES["filter"](self, claim)

    def take(self, count: int) -> "Dataset":
        """Return the first `count` items of every epoch."""
        return STAGES["take"](self, count)

    def skip(self, count: int) -> "Dataset":
        """Return all but the first `count` items of every epoch."""
        return STAGES["skip"](self, count)

    def repeat(self, count: int) -> "Dataset":
        """Return epochs made of `count` epochs of this one."""
        return STAGES["repeat"](self, count)

    def concat(self, other: "Dataset") -> "Dataset":
        """Return the items of this one, then those of the other."""
        return STAGES["concat"](self, other)

    def zip(self, *others: "Dataset") -> "Dataset":
        """Return items with the columns of all, as long as the shortest lasts."""
        return STAGES["zip"](self, *others)

    def batch(self, size: int, *, drop_remainder: bool = False) -> "Dataset":
        """Return items in groups of `size`; the last one is smaller unless `drop_remainder`."""
        return STAGES["batch"](self, size, drop_remainder)

    def padded_batch(
        self, size: int, *, values: float | Sequence[float] = 0, multiple: int = 1, drop_remainder: bool = False
    ) -> "Dataset":
        """Return items in groups, their columns padded at the end of every axis to the longest of the group.

        Args:
            size: Items of a group.
            values: What to pad with, one for all columns or one for each.
            multiple: Lengths are rounded up to a multiple of it, so that fewer different shapes come out.
            drop_remainder: Whether a last group that is not full is left out.
        """
        return STAGES["padded_batch"](self, size, values, multiple, drop_remainder)

    def prefetch(self, count: int = 2) -> "Dataset":
        """Return the same items, up to `count` of them prepared ahead by a thread."""
        return STAGES["prefetch"](self, count)
