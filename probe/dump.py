"""Whole tensors, written by a thread of their own: the training pays for a copy of what is due.

A tensor is left out if it would take the waiting copies beyond their memory limit, or the files beyond their disk
limit. The first omission becomes an event of the run at once, their number one at its end. A step never waits.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..storage.metric_series import display_site
from ..storage.records import Event, Json
from ..storage.stored_tensors import Blob, Blobs
from .configuration.sections import Dump

__all__ = ["Omissions"]

_log = logging.getLogger(__name__)


class _Span:
    """The number of omissions for one reason since the last report, and their steps."""

    def __init__(self) -> None:
        self.count, self.first, self.last = 0, -1, -1
        self.is_reported = False

    def add(self, step: int) -> None:
        self.first = step if not self.count else min(self.first, step)
        self.count, self.last = self.count + 1, max(self.last, step)

    def take(self, reason: str) -> Event:
        data: dict[str, Json] = {"count": self.count, "reason": reason, "first": self.first, "last": self.last}
        event = Event("tensors_left_out", self.first, data=data)
        self.count, self.last, self.is_reported = 0, -1, True
        return event


class Omissions:
    """Counts tensors that were left out, as events `tensors_left_out`; any thread may add to them."""

    def __init__(self) -> None:
        self._spans: dict[str, _Span] = {}
        self._lock = threading.Lock()

    def note(self, step: int, reason: str) -> None:
        """Count a missing tensor of this step."""
        with self._lock:
            is_new = reason not in self._spans
            self._spans.setdefault(reason, _Span()).add(step)
        if is_new:
            _log.warning("whole tensors are left out since step %d: %s", step, reason)

    def take_new(self) -> list[Event]:
        """Return one event for each reason that was not reported before."""
        with self._lock:
            return [span.take(reason) for reason, span in self._spans.items() if not span.is_reported]

    def take_rest(self) -> list[Event]:
        """Return one event for each reason with unreported omissions."""
        with self._lock:
            return [span.take(reason) for reason, span in self._spans.items() if span.count]


#: Why a tensor is left out, where a limit is the reason.
_TOO_LARGE: Final = "the files would take more than dump.limit_gb, {:g} GB; raise it or dump less"
_TOO_SLOW: Final = "copies that wait for the disk would take more than dump.memory_gb, {:g} GB; raise it or dump less"


class TensorCopy(NamedTuple):
    """A copy of a tensor with its subject, site and step."""

    subject: str
    site: str
    call: int
    step: int
    micro_step: int
    array: NDArray[np.generic]


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
        self._omissions = Omissions()
        self._fault = ""
        self._events: list[Event] = []
        self._chosen: dict[str, bool] = {}
        self._thread = threading.Thread(target=self._work, name="mindscope-dump", daemon=True)
        self._thread.start()

    def subjects_due(self, step: int) -> frozenset[str]:
        """Return the subjects whose tensors are wanted at this step."""
        return frozenset(self._config.subjects if self._schedule.is_due(step) else ())

    def wants(self, site: str) -> bool:
        """Return whether tensors of this site are wanted."""
        if site not in self._chosen:
            self._chosen[site] = is_one_of(site, self._config.sites)
        return self._chosen[site]

    def take(self, subject: str, site: str, call: int, moment: tuple[int, int], array: NDArray[np.generic]) -> None:
        """Queue a copy of the array for storage, unless a limit is reached."""
        why = self._why_not(array)
        if not why and self._waiting_bytes + array.nbytes > self._memory:
            why = _TOO_SLOW.format(self._config.memory_gb)
        if why:
            self._omissions.note(moment[0], why)
            return
        copy = TensorCopy(subject, site, call, *moment, np.array(array, order="C"))
        with self._changed:
            self._waiting.append(copy)
            self._waiting_bytes += array.nbytes
            self._changed.notify()

    def store(self, copies: Sequence[TensorCopy]) -> None:
        """Queue these copies for storage, as far as the disk limit allows; their memory is not counted here."""
        with self._changed:
            for copy in copies:
                if why := self._why_not(copy.array):
                    self._omissions.note(copy.step, why)
                    continue
                self._waiting.append(copy)
                self._waiting_bytes += copy.array.nbytes
            self._changed.notify()

    def take_events(self) -> Sequence[Event]:
        """Return events of what was stored since the last time, and of omissions for new reasons."""
        with self._changed:
            events, self._events = self._events, []
        return [*events, *self._omissions.take_new()]

    def close(self) -> Sequence[Event]:
        """Store everything and return the last events, with the omissions not yet reported."""
        with self._changed:
            self._waiting.append(None)
            self._changed.notify()
        self._thread.join()
        return [*self.take_events(), *self._omissions.take_rest()]

    def _why_not(self, array: NDArray[np.generic]) -> str:
        """Return why the disk cannot take this array; empty where it can."""
        if self._fault or self._written_bytes + self._waiting_bytes + array.nbytes <= self._limit:
            return self._fault
        return _TOO_LARGE.format(self._config.limit_gb)

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
        blob = self._put(copy)
        with self._changed:
            self._waiting_bytes -= copy.array.nbytes
            if blob is None:
                return
            data: dict[str, Json] = {
                "subject": copy.subject,
                "call": copy.call,
                "digest": blob.digest,
                "shape": list(copy.array.shape),
                "dtype": copy.array.dtype.name,
            }
            self._written_bytes += blob.size_bytes if blob.is_new else 0
            self._events.append(Event("tensor", copy.step, copy.site, copy.micro_step, data))

    def _put(self, copy: TensorCopy) -> Blob | None:
        """Store the tensor and return its file; None where that failed, which is noted."""
        try:
            return self._blobs.put(copy.array)
        except (OSError, TypeError) as error:
            why = f"{type(error).__name__}: {error}"
            if isinstance(error, OSError):  # not for a dtype that tensor files do not support
                self._fault = why
            self._omissions.note(copy.step, why)
            return None


def is_one_of(site: str, patterns: Sequence[str]) -> bool:
    """Return whether a glob matches the site, or the module whose tensors it numbers."""
    names = {display_site(site), display_site(site.partition("[")[0])}
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
