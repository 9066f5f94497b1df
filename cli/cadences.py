"""When something is due, in words."""

from dataclasses import replace
from typing import TYPE_CHECKING

from .spans import and_words, spans_in_words

if TYPE_CHECKING:
    from ..probe import Schedule

__all__ = ["in_words", "paced_in_words"]


def in_words(schedule: "Schedule") -> str:
    """When it is due, as `every 10 steps and at steps 1, 2 and 100 to 110, from step 500 on`."""
    if not schedule.is_ever_due:
        return "never"
    ruled = and_words(_rules(schedule))
    words = f"{ruled}{_bounds(schedule)}" if ruled else ""
    if not schedule.around or words == "every step":
        return words
    behind = f"at each of {schedule.around} steps behind a finding"
    return f"{words}; also {behind}" if words else behind


def paced_in_words(schedule: "Schedule", pace: int) -> str:
    """When something tells anything that does so at one of `pace` steps at which it is due."""
    from ..probe import NEVER

    if pace == 1 or not schedule.is_ever_due:
        return in_words(schedule)
    if replace(schedule, every=0, around=0) == NEVER:
        return in_words(replace(schedule, every=schedule.every * pace, around=0))
    return f"at one in {pace} of these: {in_words(schedule)}"


def _rules(schedule: "Schedule") -> list[str]:
    """Each way in which a step can be due between start and stop."""
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
