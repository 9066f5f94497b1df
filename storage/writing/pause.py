"""When the newest record is shown before it is final: a training that pauses behind a step still holds its record.

The record of a step waits in the training for scalars that are logged behind the step. A validation, a breakpoint or a
slow loader may come between; a reader should not have to wait for it.
"""

import time
from collections.abc import Callable

from ..records import StepRecord

#: How long a record is held before it is shown; our choice, below the writer's patience: no step of a running training
#: holds its record for that long, since the next forward lets it go.
HELD_S = 0.25


class Pause:
    """Looks from the writer's thread at what the training holds; costs the training nothing.

    Args:
        held: What is known of the record that the training holds, None for nothing.
        clock: Seconds, which only grow.
    """

    def __init__(self, held: Callable[[], StepRecord | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._held, self._clock = held, clock
        self._seen: StepRecord | None = None
        self._since = 0.0
        self._is_told = False

    def look(self) -> StepRecord | None:
        """The record to show now; None where none is held, or not for long enough, or this one has been told."""
        record = self._held()
        if record is None or not _is_still(self._seen, record):
            self._seen, self._since, self._is_told = record, self._clock(), False
        if record is None or self._is_told or self._clock() - self._since < HELD_S:
            return None
        self._is_told = True
        return record


def _is_still(seen: StepRecord | None, record: StepRecord) -> bool:
    """Whether it is the same step, and nothing was added."""
    return (
        seen is not None
        and (seen.step, seen.micro_step) == (record.step, record.micro_step)
        and (seen.scalars, seen.events) == (record.scalars, record.events)
    )
