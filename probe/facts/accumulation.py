"""How many backward passes make up a step, and what each of them is divided by."""

import math
from typing import Final

from ...storage.records import Event, Json
from ..outbox.promises import LateScalar, divided
from ..recording.recorder import Recorder

#: Two factors that differ by less are the same: the loss is added up in the precision of the model.
_SAME: Final = 1e-3


class Accumulation:
    """Tells `accumulation` of a step whose backward passes, or whose factor, are not those of the step before.

    The factor is that between the value a loss function returned and the value the backward pass started from, which is
    1 over the number of micro-batches where a mean over all of them is meant. On a device both come late: then all
    steps are compared when their records have what they are owed, in their order.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._passes = self._losses = 0
        self._value: float | LateScalar | None = None
        self._found: float | LateScalar | None = None
        self._factor: float | None = None
        self._reduction = ""
        self._told: tuple[int, float | None, str] | None = None
        self._is_late = False
        self._before: tuple[int, float | LateScalar | None, str] = (0, None, "")

    def loss_returned(self, value: float | LateScalar | None, reduction: str) -> None:
        """A loss function has returned a number, None where nobody looked; of several the factor cannot be told."""
        self._losses += 1
        self._value = value if self._losses == 1 else None
        self._reduction = reduction or self._reduction

    def backward_begins(self, root: float | LateScalar | None, factor: float | None = None) -> None:
        """A backward pass starts from this value; `factor` where the framework's tape tells it."""
        self._passes += 1
        found = factor if factor is not None else divided(root, self._value)
        self._found = self._found if found is None else found
        self._losses, self._value = 0, None

    def step_ends(self, passes: int | None = None) -> None:
        """Tells what has changed; `passes` are those whose gradients were summed, None where all were."""
        recorder, found = self._recorder, self._found
        count = self._passes if passes is None else min(passes, self._passes)
        self._passes, self._found, self._is_late = 0, None, self._is_late or callable(found)
        if not self._is_late:
            now = (count, found, self._reduction)
            if now == self._before:
                return
            self._before = now
            for news in self._news(count, found, self._reduction):
                recorder.event("accumulation", "", **news)
            return
        current, reduction = recorder.current, self._reduction
        step, micro_step = current.step, current.micro_step
        recorder.outbox.late_events(
            lambda: [Event("accumulation", step, "", micro_step, one) for one in self._news(count, found, reduction)]
        )

    def _news(self, count: int, found: float | LateScalar | None, reduction: str) -> list[dict[str, Json]]:
        """What the step's event tells, if it is not as the one before."""
        factor = found() if callable(found) else found
        if factor is not None and math.isfinite(factor) and factor:
            self._factor = factor
        now = (count, self._factor, reduction)
        if not count or (self._told is not None and _is_same(now, self._told)):
            return []
        self._told = now
        declared = self._recorder.config.accumulation_steps
        return [{"micro_batches": count, "factor": self._factor, "reduction": reduction or None, "declared": declared}]


def _is_same(now: tuple[int, float | None, str], before: tuple[int, float | None, str]) -> bool:
    if now[0] != before[0] or now[2] != before[2] or now[1] is None or before[1] is None:
        return now == before
    return abs(now[1] - before[1]) <= _SAME * abs(before[1])
