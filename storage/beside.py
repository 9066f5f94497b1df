"""What was observed beside the schedule: listeners see it in its record; if it is stored, it joins the record later."""

from collections.abc import Sequence
from dataclasses import replace

from .errors import StoreError
from .order import check_order
from .records import StepRecord

Key = tuple[int, int]


def joined(record: StepRecord, more: StepRecord | None) -> StepRecord:
    """The record with the blocks and scalars of another one of the same step, which holds other subjects."""
    if more is None:
        return record
    blocks, scalars = (*record.blocks, *more.blocks), {**more.scalars, **record.scalars}
    return replace(record, blocks=blocks, scalars=scalars, beside=None)


def check_earlier(run: str, joined_last: Key, last: Key, earlier: Sequence[StepRecord]) -> Key:
    """(step, micro-step) of the last of these records, which are to join those that are there.

    Args:
        joined_last: Of the last one that was joined before.
        last: Of the newest record that is there.

    Raises:
        StoreError: One does not come after the one before it, or nothing of its step can be there yet.
    """
    newest = check_order(run, joined_last, earlier)
    if earlier and newest > last:
        raise StoreError(
            f"run {run!r} cannot join observations to step {newest[0]} (micro-step {newest[1]}): its newest record is "
            f"of step {last[0]} (micro-step {last[1]}); write the record first"
        )
    return newest
