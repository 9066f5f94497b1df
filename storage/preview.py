"""What a writer knows of a record that is not final, which the final one replaces with all its events."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from .records import Event


@dataclass(frozen=True, slots=True)
class Preview:
    """The previewed record, and events that belong to no record and must stay when it is replaced.

    Args:
        at: Its step and micro-step; None where no record is shown.
        beside: Events written by themselves that come after the last final record, so that a preview may stand, now
            or later, at their place.
    """

    at: tuple[int, int] | None = None
    beside: tuple[Event, ...] = ()

    def of(self, at: tuple[int, int]) -> Self:
        """Return it with another record."""
        return replace(self, at=at)

    def add(self, events: Iterable[Event], last: tuple[int, int]) -> Self:
        """Return it with further events, of which those up to the `last` final record need no care."""
        return replace(self, beside=(*self.beside, *_behind(events, last)))

    def replaced(self, last: tuple[int, int]) -> Self:
        """Return it without a record, now that the `last` one is final."""
        return replace(self, at=None, beside=_behind(self.beside, last))

    def staying(self) -> list[Event]:
        """Return the events that stand where the record stands, and stay."""
        return [event for event in self.beside if (event.step, event.micro_step) == self.at]


def _behind(events: Iterable[Event], last: tuple[int, int]) -> tuple[Event, ...]:
    return tuple(event for event in events if (event.step, event.micro_step) > last)
