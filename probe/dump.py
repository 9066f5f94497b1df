"""Whole tensors, written by a thread of their own: the training pays for a copy of what is due.

A tensor that would take the waiting copies beyond their memory limit, or the files beyond their disk limit, is left
out; how many were is an event of the run, never a step that waits.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..storage.blobs import Blobs
from ..storage.names import display_site
from ..storage.records import Event, Json
from .configuration.dumps import Dump

_log = logging.getLogger(__name__)


class TensorCopy(NamedTuple):
    """A tensor as it was at one moment, and whose it is."""

    subject: str
    site: str
    call: int
    step: int
    micro_step: int
    array: NDArray[Any]


class Dumper:
    """Takes copies of tensors and stores them.

    Each stored tensor becomes an event `tensor` (subject, call, digest, shape, dtype), which `take_events` hands over.
    """

    def __init__(self, config: Dump, blobs: Blobs) -> None:
        self._config, self._blobs = config, blobs
        self._schedule = config.when.schedule()
        self._limit = int(config.limit_gb * 1e9)
        self._memory = int(config.memory_gb * 1e9)
        self._waiting: deque[TensorCopy | None] = deque()
        self._changed = threading.Condition()
        self._waiting_bytes = self._written_bytes = 0
        self._left_out = 0
        self._fault = self._reason = ""
        self._events: list[Event] = []
        self._chosen: dict[str, bool] = {}
        self._thread = threading.Thread(target=self._work, name="mindscope-dump", daemon=True)
        self._thread.start()

    def subjects_due(self, step: int) -> frozenset[str]:
        """The subjects whose tensors are wanted at this step."""
        return frozenset(self._config.subjects if self._schedule.is_due(step) else ())

    def wants(self, site: str) -> bool:
        """Whether tensors of this site are wanted."""
        if site not in self._chosen:
            self._chosen[site] = is_one_of(site, self._config.sites)
        return self._chosen[site]

    def take(self, subject: str, site: str, call: int, moment: tuple[int, int], array: NDArray[Any]) -> None:
        """Nothing; a copy of the array will be stored, unless a limit is reached."""
        is_too_much = self._written_bytes + self._waiting_bytes + array.nbytes > self._limit
        if is_too_much or self._waiting_bytes + array.nbytes > self._memory or self._fault:
            self._left_out += 1
            return
        copy = TensorCopy(subject, site, call, *moment, np.array(array, order="C"))
        with self._changed:
            self._waiting.append(copy)
            self._waiting_bytes += array.nbytes
            self._changed.notify()

    def store(self, copies: Sequence[TensorCopy]) -> None:
        """Nothing; these copies will be stored, as far as the disk's limit allows: their memory is another's matter."""
        with self._changed:
            for copy in copies:
                if self._written_bytes + self._waiting_bytes + copy.array.nbytes > self._limit or self._fault:
                    self._left_out += 1
                    continue
                self._waiting.append(copy)
                self._waiting_bytes += copy.array.nbytes
            self._changed.notify()

    def take_events(self) -> Sequence[Event]:
        """The events of what was stored since the last time."""
        with self._changed:
            events, self._events = self._events, []
        return events

    def close(self, step: int) -> Sequence[Event]:
        """The last events, once everything is stored; one of them tells what was left out."""
        with self._changed:
            self._waiting.append(None)
            self._changed.notify()
        self._thread.join()
        events = list(self.take_events())
        if self._left_out:
            why = self._reason or "the limits of memory or disk were reached"
            _log.warning("%d tensors were not dumped: %s", self._left_out, why)
            events.append(Event("tensors_left_out", step, data={"count": self._left_out, "reason": why}))
        return events

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                copy = self._waiting.popleft()
            if copy is None:
                return
            self._store(copy)

    def _store(self, copy: TensorCopy) -> None:
        try:
            blob = self._blobs.put(copy.array)
        except (OSError, TypeError) as error:
            self._reason = f"{type(error).__name__}: {error}"
            if isinstance(error, OSError):  # and not just a dtype that files of tensors do not know
                self._fault = self._reason
            self._left_out += 1
            return
        finally:
            with self._changed:
                self._waiting_bytes -= copy.array.nbytes
        data: dict[str, Json] = {
            "subject": copy.subject,
            "call": copy.call,
            "digest": blob.digest,
            "shape": list(copy.array.shape),
            "dtype": copy.array.dtype.name,
        }
        with self._changed:
            self._written_bytes += blob.size_bytes if blob.is_new else 0
            self._events.append(Event("tensor", copy.step, copy.site, copy.micro_step, data))


def is_one_of(site: str, patterns: Sequence[str]) -> bool:
    """Whether one of the globs matches the site, or that of the module whose several tensors it tells apart."""
    names = {display_site(site), display_site(site.partition("[")[0])}
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
