"""Joins the events that a trace begins and ends apart (ph B and E) to complete ones, as Chrome's format defines them.

An end closes the latest begin of its thread, whatever names they have. The times of a thread must rise in the file, so
that one pass is enough: only what is open is kept.

Reference:
    Trace Event Format, "Duration Events", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from collections import Counter
from typing import Any, Final

__all__ = ["BeginEndPairs"]

#: Events that may be open at once. Our choice: they take some 100 MB, and no stack of a program is a tenth as deep.
_MOST_OPEN: Final = 100_000


class BeginEndPairs:
    """The events of a file that have begun and not yet ended, by thread, and a count of those that found no partner."""

    def __init__(self) -> None:
        self._open: dict[tuple[object, object], list[tuple[int, dict[str, Any]]]] = {}
        self._open_count = 0
        self._not_kept: Counter[tuple[object, object]] = Counter()
        self._too_many, self._unbegun, self._renamed = 0, 0, 0

    def begin(self, event: dict[str, Any], place: int) -> None:
        """Keep the event until its end comes.

        Args:
            place: Where the event stands in the file.

        Raises:
            TypeError: Its process or thread is a list or an object.
        """
        thread = _thread(event)
        if self._open_count >= _MOST_OPEN:
            self._not_kept[thread] += 1  # its end must not close another one
            self._too_many += 1
            return
        self._open.setdefault(thread, []).append((place, event))
        self._open_count += 1

    def end(self, event: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Return the place of the latest begin of the thread, and the complete event from it to this end.

        Where both have an argument of the same name, that of the end counts. None if nothing is open.

        Raises:
            KeyError, TypeError, ValueError, OverflowError: A time is missing or is no number, or the process or thread
                is a list or an object.
        """
        thread = _thread(event)
        if self._not_kept[thread]:
            self._not_kept[thread] -= 1
            return None
        if not (stack := self._open.get(thread)):
            self._unbegun += 1
            return None
        place, begin = stack.pop()
        self._open_count -= 1
        self._renamed += "name" in event and "name" in begin and event["name"] != begin["name"]
        duration = float(event["ts"]) - float(begin["ts"])
        return place, {**event, **begin, "dur": duration, "args": {**_arguments(begin), **_arguments(event)}}

    def notes(self) -> list[str]:
        """Return a line for each kind of event that found no partner, or an odd one."""
        notes = []
        if self._open_count:
            _, first = min((stack[0] for stack in self._open.values() if stack), key=lambda entry: entry[0])
            name = str(first.get("name", ""))[:100]
            notes.append(
                f"{self._open_count} begin events (ph B) have no end (ph E) and are left out, the first of them "
                f"{name!r}"
            )
        if self._unbegun:
            notes.append(f"{self._unbegun} end events (ph E) have no begin (ph B) and are left out")
        if self._renamed:
            notes.append(
                f"{self._renamed} end events (ph E) have another name than the begin (ph B) that they close; the name "
                "of the begin counts"
            )
        if self._too_many:
            notes.append(f"{self._too_many} events are left out that began while {_MOST_OPEN} others were open")
        return notes


def _thread(event: dict[str, Any]) -> tuple[object, object]:
    thread = event.get("pid"), event.get("tid")
    hash(thread)
    return thread


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    arguments = event.get("args")
    return arguments if type(arguments) is dict else {}
