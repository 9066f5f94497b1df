"""Whole tensors of the last steps, held within a limit of memory until they are stored or forgotten."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Json
from ..configuration.flight import FlightRecorder
from ..dump import Dumper, TensorCopy, is_one_of

#: How long the training waits for the rules at a full memory; after a wait in vain not again before they have spoken.
_PATIENCE_S = 2.0

_log = logging.getLogger(__name__)


class HeldTensors:
    """Copies of tensors, the newest as far as the limit reaches.

    The training takes copies; the writer, which comes to a step a little later, lets them go to the disk or nowhere.
    Where the limit leaves no room before the writer has come to an earlier step, the training waits for it: else a fast
    loop would push out what the rules are about to ask for. What had to go all the same is counted.

    Args:
        config: Which tensors, and how much memory.
        dumper: Stores those that are wanted after all.
        settle: True when the rules have seen every record that has left, False when that takes more than so many
            seconds.
    """

    def __init__(
        self, config: FlightRecorder, dumper: Dumper, settle: Callable[[float], bool] = lambda _: False
    ) -> None:
        self.subjects = frozenset(config.subjects if config.tensors else ())
        self._patterns, self._limit, self._steps = config.tensors, config.memory, config.steps
        self._dumper, self._settle = dumper, settle
        self._held: deque[TensorCopy] = deque()
        self._bytes = 0
        self._seen: dict[int, int] = {}  # bytes of what was wanted, by step
        self._gone: dict[int, int] = {}  # tensors of these that are not held any more, by step
        self._judged = self._waited_at = -1
        self._is_told = self._is_vain = False
        self._lock = threading.Lock()
        self._chosen: dict[str, bool] = {}

    def wants(self, subject: str, site: str) -> bool:
        """Whether this tensor is to be held."""
        if site not in self._chosen:
            self._chosen[site] = is_one_of(site, self._patterns)
        return subject in self.subjects and self._chosen[site]

    def take(self, subject: str, site: str, call: int, moment: tuple[int, int], array: NDArray[Any]) -> None:
        """Nothing; a copy is held, for which the oldest make room. One that exceeds the limit alone is left out."""
        step, size = moment[0], array.nbytes
        with self._lock:
            self._seen[step] = self._seen.get(step, 0) + size
            is_full = self._bytes + size > self._limit >= size
            if is_full and self._enough() > self._limit:  # some of these steps have to go in any case
                self._make_room(size, self._judged)
                is_full = self._bytes + size > self._limit
            is_early = is_full and self._held[0].step < step and self._judged < step - 1
        if is_early:
            self._wait_at(step)
        copy = TensorCopy(subject, site, call, *moment, np.array(array, order="C")) if size <= self._limit else None
        with self._lock:
            if copy is None:
                self._miss(step)
                return
            self._make_room(size, step)
            self._held.append(copy)
            self._bytes += size

    def forget(self, before: int) -> None:
        """Nothing; tensors of steps before this one are gone."""
        with self._lock:
            for _ in self._up_to(before - 1):
                pass
            self._drop_counts(before - 1)

    def release(self, last: int) -> tuple[int, dict[str, Json] | None]:
        """How many tensors, of all steps up to this one, are on their way to the disk now; and what is missing.

        The latter is the data of an event `tensors_left_out`, None where the limit has held all.
        """
        with self._lock:
            copies = list(self._up_to(last))
            missing = self._missing(last)
            self._drop_counts(last)
        self._dumper.store(copies)
        return len(copies), missing

    def have_judged(self, step: int) -> None:
        """Nothing; the rules have seen the records up to this step."""
        self._judged, self._is_vain = max(self._judged, step), False

    def _wait_at(self, step: int) -> None:
        """Once a step: nothing more leaves the training before it goes on."""
        if self._waited_at != step and not self._is_vain:
            self._waited_at = step
            if not self._settle(_PATIENCE_S):
                self._is_vain = True

    def _make_room(self, size: int, last: int) -> None:
        """Lets the oldest copies go, none behind this step, until there is room for so many bytes."""
        while self._held and self._bytes + size > self._limit >= size and self._held[0].step <= last:
            copy = self._held.popleft()
            self._bytes -= copy.array.nbytes
            self._miss(copy.step)

    def _miss(self, step: int) -> None:
        self._gone[step] = self._gone.get(step, 0) + 1
        if self._seen[step] > self._limit and not self._is_told:
            self._is_told = True
            _log.warning(
                "the flight recorder's memory of %d bytes does not hold the tensors of one step: step %d has %d bytes "
                "or more; raise flight_recorder.memory or name fewer tensors",
                *(self._limit, step, self._seen[step]),
            )

    def _missing(self, last: int) -> dict[str, Json] | None:
        gone = {step: count for step, count in self._gone.items() if step <= last}
        if not gone:
            return None
        enough = self._enough()
        why = f"the flight recorder's memory of {self._limit} bytes was full; {enough} would have been enough"
        span: dict[str, Json] = {"first": min(gone), "last": max(gone), "steps": len(gone)}
        return {"count": sum(gone.values()), "reason": why, **span, "memory": enough}

    def _enough(self) -> int:
        """Bytes of the steps that are kept, of an anomaly's own and of the one in progress."""
        return (self._steps + 2) * max(self._seen.values())

    def _drop_counts(self, last: int) -> None:
        for counts in (self._seen, self._gone):
            for step in [one for one in counts if one <= last]:
                del counts[step]

    def _up_to(self, last: int) -> Iterator[TensorCopy]:
        while self._held and self._held[0].step <= last:
            copy = self._held.popleft()
            self._bytes -= copy.array.nbytes
            yield copy
