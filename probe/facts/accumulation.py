"""How many backward passes make up a step, and what each of them is divided by."""

import math
from typing import Final

from ..recording.recorder import Recorder

#: Two factors that differ by less are the same: the loss is added up in the precision of the model.
_SAME: Final = 1e-3


class Accumulation:
    """Tells `accumulation` of a step whose backward passes, or whose factor, are not those of the step before.

    The factor is that between the value a loss function returned and the value the backward pass started from, which is
    1 over the number of micro-batches where a mean over all of them is meant.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._passes = self._losses = 0
        self._value: float | None = None
        self._factor: float | None = None
        self._reduction = ""
        self._told: tuple[int, float | None, str] | None = None

    def loss_returned(self, value: float | None, reduction: str) -> None:
        """A loss function has returned a number, None where nobody looked; of several the factor cannot be told."""
        self._losses += 1
        self._value = value if self._losses == 1 else None
        self._reduction = reduction or self._reduction

    def backward_begins(self, root: float | None, factor: float | None = None) -> None:
        """A backward pass starts from this value; `factor` where the framework's tape tells it."""
        self._passes += 1
        if factor is None and root is not None and self._value:
            factor = root / self._value
        if factor is not None and math.isfinite(factor) and factor:
            self._factor = factor
        self._losses, self._value = 0, None

    def step_ends(self, passes: int | None = None) -> None:
        """Tells what has changed; `passes` are those whose gradients were summed, None where all were."""
        now = (self._passes if passes is None else min(passes, self._passes), self._factor, self._reduction)
        self._passes = 0
        if not now[0] or (self._told is not None and _is_same(now, self._told)):
            return
        self._told = now
        self._recorder.event(
            "accumulation",
            micro_batches=now[0],
            factor=now[1],
            reduction=now[2] or None,
            declared=self._recorder.config.accumulation_steps,
        )


def _is_same(now: tuple[int, float | None, str], before: tuple[int, float | None, str]) -> bool:
    if now[0] != before[0] or now[2] != before[2] or now[1] is None or before[1] is None:
        return now == before
    return abs(now[1] - before[1]) <= _SAME * abs(before[1])
