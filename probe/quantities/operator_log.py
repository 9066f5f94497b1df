"""The operators of one step, as an adapter logs them, and the event made of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from ...storage.records import Json

__all__ = ["Allocation", "OperatorLog", "OperatorSpan"]

#: Spans that an event holds at most, the longest ones. Our choice: a step of a large language model has some thousands.
_SPANS: Final = 4000
#: Points of the memory curve, and allocators named at its peak. Our choice: as many as a page can show.
_POINTS, _HOLDERS = 1000, 32


class OperatorSpan(NamedTuple):
    """One call of an operator: seconds since the log began, of them without the operators inside of it."""

    name: str
    phase: str
    site: str
    start_s: float
    seconds: float
    self_s: float
    thread: int


class Allocation(NamedTuple):
    """Bytes that came, or went where they are negative, under a key that both share, and who asked for them."""

    at_s: float
    key: int
    size_bytes: int
    name: str
    phase: str
    site: str


@dataclass(slots=True)
class OperatorLog:
    """What is known of one step.

    Args:
        step: Its number.
        began: Unix seconds of its first moment.
    """

    step: int
    began: float
    spans: list[OperatorSpan] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)

    def data(self, seconds: float) -> dict[str, Json]:
        """Return the fields of the event `operators` of a step of this length.

        Spans are `[name, phase, site, start, seconds, thread]` with names and sites as places in their lists; the table
        has rows `[name, phase, calls, seconds, self seconds, bytes allocated]` over all spans.
        """
        kept = sorted(sorted(self.spans, key=lambda span: -span.seconds)[:_SPANS], key=lambda span: span.start_s)
        names, sites = _numbered(span.name for span in kept), _numbered(span.site for span in kept)
        rows: list[Json] = [
            [names[s.name], s.phase, sites[s.site], round(s.start_s, 9), round(s.seconds, 9), s.thread] for s in kept
        ]
        course, peak, at = self._course()
        return {
            "step": self.step,
            "began": self.began,
            "seconds": seconds,
            "names": list(names),
            "sites": list(sites),
            "spans": rows,
            "left_out": len(self.spans) - len(kept),
            "table": self._table(),
            "memory": _thinned(course),
            "peak_bytes": peak,
            "holders": self._holders(at),
        }

    def _table(self) -> list[Json]:
        sums: dict[tuple[str, str], list[float]] = {}
        for span in self.spans:
            sum_of_span = sums.setdefault((span.name, span.phase), [0.0] * 4)
            sum_of_span[0] += 1.0
            sum_of_span[1] += span.seconds
            sum_of_span[2] += span.self_s
        for allocation in self.allocations:
            if allocation.size_bytes > 0:
                sums.setdefault((allocation.name, allocation.phase), [0.0] * 4)[3] += allocation.size_bytes
        return [[name, phase, *numbers] for (name, phase), numbers in sums.items()]

    def _course(self) -> tuple[list[tuple[float, int]], int, int]:
        """Return (time, bytes alive) after every change, their peak, and the change that reached it."""
        known: set[int] = set()
        course, alive, peak, at = [], 0, 0, -1
        for number, allocation in enumerate(self.allocations):
            if allocation.size_bytes < 0 and allocation.key not in known:
                continue  # allocated before the step
            (known.add if allocation.size_bytes > 0 else known.discard)(allocation.key)
            alive += allocation.size_bytes
            course.append((allocation.at_s, alive))
            if alive > peak:
                peak, at = alive, number
        return course, peak, at

    def _holders(self, at: int) -> list[Json]:
        """Return who had requested what was alive after the change `at`, the largest first."""
        alive: dict[int, Allocation] = {}
        for allocation in self.allocations[: at + 1]:
            if allocation.size_bytes > 0:
                alive[allocation.key] = allocation
            else:
                alive.pop(allocation.key, None)
        sums: dict[tuple[str, str, str], int] = {}
        for allocation in alive.values():
            key = (allocation.site, allocation.name, allocation.phase)
            sums[key] = sums.get(key, 0) + allocation.size_bytes
        largest = sorted(sums.items(), key=lambda item: -item[1])
        rest = sum(size for _, size in largest[_HOLDERS:])
        named: list[Json] = [[*key, size] for key, size in largest[:_HOLDERS]]
        return [*named, ["", "(others)", "", rest]] if rest else named


def _numbered(words: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        found.setdefault(word, len(found))
    return found


def _thinned(course: list[tuple[float, int]]) -> list[Json]:
    """Thin to at most `_POINTS` points, evenly spread, the highest of each stretch."""
    if len(course) <= _POINTS:
        return [[round(at, 9), size] for at, size in course]
    edges = [number * len(course) // _POINTS for number in range(_POINTS + 1)]
    stretches = (course[low:high] for low, high in pairwise(edges))
    highest = (max(stretch, key=lambda point: point[1]) for stretch in stretches)
    return [[round(at, 9), size] for at, size in highest]
