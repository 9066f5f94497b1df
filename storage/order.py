"""The order of a rank's records: each comes after the one before, by step and then micro-step."""

from collections.abc import Sequence

from .errors import StoreError
from .records import StepRecord


def check_order(run: str, last: tuple[int, int], records: Sequence[StepRecord]) -> tuple[int, int]:
    """(step, micro-step) of the newest record.

    Raises:
        StoreError: A record does not come after the one before it.
    """
    for record in records:
        now = (int(record.step), int(record.micro_step))
        if now <= last:
            raise StoreError(
                f"run {run!r} expects a record after step {last[0]} (micro-step {last[1]}), got step {now[0]} "
                f"(micro-step {now[1]}); a run that goes back in time is begun as a new one"
            )
        last = now
    return last
