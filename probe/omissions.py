"""Whole tensors that were not stored, counted by the reason; each reason is told at once, what follows at the end."""

import logging
import threading

from ..storage.records import Event, Json

__all__ = ["Omissions"]

_log = logging.getLogger(__name__)


class _Span:
    """How many for one reason since it was told last, and of which steps."""

    def __init__(self) -> None:
        self.count, self.first, self.last = 0, -1, -1
        self.is_told = False

    def add(self, step: int) -> None:
        self.first = step if not self.count else min(self.first, step)
        self.count, self.last = self.count + 1, max(self.last, step)

    def take(self, reason: str) -> Event:
        data: dict[str, Json] = {"count": self.count, "reason": reason, "first": self.first, "last": self.last}
        event = Event("tensors_left_out", self.first, data=data)
        self.count, self.last, self.is_told = 0, -1, True
        return event


class Omissions:
    """Counts of any thread, as events `tensors_left_out` at the first of their steps."""

    def __init__(self) -> None:
        self._spans: dict[str, _Span] = {}
        self._lock = threading.Lock()

    def note(self, step: int, reason: str) -> None:
        """Nothing; a tensor of this step is missing."""
        with self._lock:
            is_new = reason not in self._spans
            self._spans.setdefault(reason, _Span()).add(step)
        if is_new:
            _log.warning("whole tensors are left out since step %d: %s", step, reason)

    def take_new(self) -> list[Event]:
        """One for each reason that was not told before."""
        with self._lock:
            return [span.take(reason) for reason, span in self._spans.items() if not span.is_told]

    def take_rest(self) -> list[Event]:
        """One for each reason of which anything was not told before."""
        with self._lock:
            return [span.take(reason) for reason, span in self._spans.items() if span.count]
