"""The steps of a rare comparison: one in every period, at a place that is drawn, so that nothing periodic hides."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from ..configuration.cadence import Schedule


def unaliased(schedule: Schedule, base: int = 1) -> Callable[[int], bool]:
    """Return when a subject is due whose period has one due step, drawn by the period's number, the same on every rank.

    A fault, or an accumulation, whose own period divides the schedule's would otherwise be met always at one phase, or
    never. Steps that the schedule names in other ways stay as they are, and so does the first one.

    Args:
        base: Steps between two that are recorded at all; drawn are only such steps.
    """
    choices = schedule.every // base if base and schedule.every % base == 0 else 1
    if choices < 2:
        return schedule.is_due
    rest = replace(schedule, every=0)

    def is_due(step: int) -> bool:
        since = step - schedule.start
        if since < 0 or (schedule.stop is not None and step >= schedule.stop):
            return False
        period, place = divmod(since, schedule.every)
        return place == base * _drawn(period, choices) or rest.is_due(step)

    return is_due


def _drawn(period: int, choices: int) -> int:
    if period == 0:
        return 0
    return int.from_bytes(blake2b(period.to_bytes(8, "little"), digest_size=8).digest(), "little") % choices
