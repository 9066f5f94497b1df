"""Items in another order."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset, Item, stage


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
