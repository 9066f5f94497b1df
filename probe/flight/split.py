"""What of a step was due by its schedule, and what only the flight recorder has looked at."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...storage import StepRecord
from ..collectors.collector import COLLECTORS


def split(record: StepRecord, is_scheduled: Callable[[str], bool], measured: Mapping[str, str]) -> StepRecord:
    """The record with what was not scheduled beside it.

    Args:
        is_scheduled: Whether the collector of that name was due by the schedule.
        measured: The collector by the name of each scalar that one has measured; others are the user's.
    """
    due = [is_scheduled(_collector_of(block.layout.subject)) for block in record.blocks]
    extra = tuple(block for block, is_due in zip(record.blocks, due, strict=True) if not is_due)
    numbers = {name: value for name, value in record.scalars.items() if not is_scheduled(measured.get(name, ""))}
    if not extra and not numbers:
        return record
    beside = StepRecord(record.step, record.time, record.micro_step, record.skipped, extra, numbers)
    blocks = tuple(block for block, is_due in zip(record.blocks, due, strict=True) if is_due)
    scalars = {name: value for name, value in record.scalars.items() if name not in numbers}
    return replace(record, blocks=blocks, scalars=scalars, beside=beside)


def splitter(
    in_flight: frozenset[str], scheduled: frozenset[str], measured: Mapping[str, str]
) -> Callable[[StepRecord], StepRecord]:
    """What splits the record of a step at which these collectors were in flight, and those due by the schedule."""
    return lambda record: split(record, lambda name: name not in in_flight or name in scheduled, measured)


def _collector_of(subject: str) -> str:
    """The collector whose subject it is: its name, or what stands before the last slashes of it."""
    name = subject.removeprefix("quantity/")
    while name not in COLLECTORS and "/" in name:
        name = name.rpartition("/")[0]
    return name
