"""Describe in words at which steps something happened, and when a schedule is due."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..probe import Schedule

__all__ = ["Span", "and_words", "in_words", "merged", "paced_in_words", "spans_in_words", "steps_in_words"]

#: The first and the last step of a range.
Span = tuple[int, int]
#: Most ranges in the text (our choice: half a line of a terminal).
_NAMED: Final = 4


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the fewest ranges with the same steps, oldest first."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


def steps_in_words(spans: Sequence[Span]) -> str:
    """Return the steps of merged ranges, as `steps 0 to 3 and 20 to 25` or `every 10 steps from 0 to 900`; of many
    ranges the first ones, and the end of the last."""
    gaps = {after[0] - before[0] for before, after in pairwise(spans)}
    if len(spans) > 2 and len(gaps) == 1 and all(first == last for first, last in spans):
        return f"every {gaps.pop()} steps from {spans[0][0]} to {spans[-1][0]}"
    if len(spans) <= _NAMED:
        return spans_in_words(spans)
    rest = len(spans) - _NAMED + 1
    return f"{spans_in_words(spans[: _NAMED - 1], last=', ')} and {rest} more ranges up to step {spans[-1][1]}"


def spans_in_words(spans: Sequence[Span], *, last: str = " and ") -> str:
    """Return each range, as `step 5` or `steps 1, 2 and 100 to 110`."""
    words = [
        word
        for first, end in spans
        for word in ([f"{first} to {end}"] if end > first + 1 else map(str, range(first, end + 1)))
    ]
    is_one = len(words) == 1 and words[0].isdigit()
    return f"step{'' if is_one else 's'} {and_words(words, last=last)}"


def and_words(words: Sequence[str], *, last: str = " and ") -> str:
    """Join the words with commas, the last one with `and`."""
    return last.join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def in_words(schedule: "Schedule") -> str:
    """Return when the schedule is due, as `every 10 steps and at steps 1, 2 and 100 to 110, from step 500 on`."""
    if not schedule.is_ever_due:
        return "never"
    ruled = and_words(_rules(schedule))
    words = f"{ruled}{_bounds(schedule)}" if ruled else ""
    if not schedule.around or words == "every step":
        return words
    behind = f"at each of {schedule.around} steps after a finding"
    return f"{words}; also {behind}" if words else behind


def paced_in_words(schedule: "Schedule", pace: int) -> str:
    """Return when a collector records that works at every `pace`-th due step."""
    from ..probe import NEVER

    if pace == 1 or not schedule.is_ever_due:
        return in_words(schedule)
    if replace(schedule, every=0, around=0) == NEVER:
        return in_words(replace(schedule, every=schedule.every * pace, around=0))
    return f"at one in {pace} of these: {in_words(schedule)}"


def _rules(schedule: "Schedule") -> list[str]:
    """Return each way in which a step can be due between start and stop."""
    if schedule.every == 1:
        return ["every step"]
    rules = [f"every {schedule.every} steps"] if schedule.every else []
    if schedule.first:
        rules.append("at the first step" if schedule.first == 1 else f"at the first {schedule.first}")
    if schedule.windows:
        rules.append(f"at {spans_in_words(sorted(schedule.windows))}")
    if schedule.per_decade:
        rules.append(f"at {schedule.per_decade} steps a decade (1 to 10, 10 to 100 and so on)")
    return rules


def _bounds(schedule: "Schedule") -> str:
    if schedule.stop is None:
        return f", from step {schedule.start} on" if schedule.start else ""
    if schedule.start:
        return f", from step {schedule.start} to {schedule.stop - 1}"
    return f", up to step {schedule.stop - 1}"
