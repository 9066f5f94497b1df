"""Items after a function of their columns, in this process or in worker processes."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset, Item, Start, stage
from .workers import WorkerPool


class Apply:
    """What is done to one item; goes to the workers as a whole."""

    __slots__ = ("_function", "_seed")

    def __init__(self, function: Callable[..., Item | NDArray[Any]], seed: int | None) -> None:
        self._function, self._seed = function, seed

    def __call__(self, epoch: int, position: int, item: Item) -> Item:
        """The columns that the function makes of these."""
        if self._seed is None:
            made = self._function(*item)
        else:
            entropy = np.random.SeedSequence([self._seed, epoch, position])
            made = self._function(np.random.Generator(np.random.Philox(entropy)), *item)
        return made if isinstance(made, tuple) else (made,)


@stage("map")
class Mapped(Dataset):
    """Items after a function of their columns."""

    __slots__ = ("__weakref__", "_apply", "_idle", "_source", "_start", "_workers")

    def __init__(
        self,
        source: Dataset,
        function: Callable[..., Item | NDArray[Any]],
        seed: int | None,
        workers: int,
        start: Start,
    ) -> None:
        if workers < 0:
            raise ValueError(f"map expects 0 workers or more, got {workers}")
        if seed is not None and seed < 0:
            raise ValueError(f"map expects a seed of 0 or more, or None, got {seed}")
        if start not in ("spawn", "fork", "forkserver"):
            raise ValueError(f"map expects start to be one of spawn, fork, forkserver, got {start!r}")
        self._source, self._apply = source, Apply(function, seed)
        self._workers, self._start = workers, start
        self._idle: list[WorkerPool] = []
        weakref.finalize(self, _close, self._idle)

    def __len__(self) -> int:
        return len(self._source)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        tasks = (
            (number, position, item) for position, item in enumerate(self._source.epoch(number, start=start), start)
        )
        if not self._workers:
            for task in tasks:
                yield self._apply(*task)
            return
        pool = self._idle.pop() if self._idle else WorkerPool(self._apply, self._workers, self._start)
        try:
            yield from pool.run(tasks)
        except BaseException:
            pool.close()  # it may have items of this epoch in its pipes; closing the iterator comes here too
            raise
        self._idle.append(pool)


def _close(pools: list[WorkerPool]) -> None:
    while pools:
        pools.pop().close()
