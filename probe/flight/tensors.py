"""Whole tensors of the last steps, held within a limit of memory until they are stored or forgotten."""

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..configuration.flight import FlightRecorder
from ..dump import Dumper, TensorCopy, is_one_of


class HeldTensors:
    """Copies of tensors, the newest as far as the limit reaches.

    The training takes copies; the writer, which comes to a step a little later, lets them go to the disk or nowhere.

    Args:
        config: Which tensors, and how much memory.
        dumper: Stores those that are wanted after all.
    """

    def __init__(self, config: FlightRecorder, dumper: Dumper) -> None:
        self.subjects = frozenset(config.subjects if config.tensors else ())
        self._patterns, self._limit = config.tensors, config.memory
        self._dumper = dumper
        self._held: deque[TensorCopy] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._chosen: dict[str, bool] = {}

    def wants(self, subject: str, site: str) -> bool:
        """Whether this tensor is to be held."""
        if site not in self._chosen:
            self._chosen[site] = is_one_of(site, self._patterns)
        return subject in self.subjects and self._chosen[site]

    def take(self, subject: str, site: str, call: int, moment: tuple[int, int], array: NDArray[Any]) -> None:
        """Nothing; a copy is held, for which the oldest make room. One that exceeds the limit alone is left out."""
        if array.nbytes > self._limit:
            return
        copy = TensorCopy(subject, site, call, *moment, np.array(array, order="C"))
        with self._lock:
            self._held.append(copy)
            self._bytes += copy.array.nbytes
            while self._bytes > self._limit:
                self._bytes -= self._held.popleft().array.nbytes

    def forget(self, before: int) -> None:
        """Nothing; tensors of steps before this one are gone."""
        with self._lock:
            for _ in self._up_to(before - 1):
                pass

    def release(self, last: int) -> int:
        """How many tensors, of all steps up to this one, are on their way to the disk now."""
        with self._lock:
            copies = list(self._up_to(last))
        self._dumper.store(copies)
        return len(copies)

    def _up_to(self, last: int) -> Iterator[TensorCopy]:
        while self._held and self._held[0].step <= last:
            copy = self._held.popleft()
            self._bytes -= copy.array.nbytes
            yield copy
