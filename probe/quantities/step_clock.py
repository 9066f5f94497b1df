"""What a step's wall time was spent on, from marks at the moments that every framework tells."""

import time
from collections.abc import Callable
from typing import Final

#: What the time belongs to; `BETWEEN` is what follows a backward pass until it is known what came next.
PHASES: Final = ("data", "forward", "backward", "optimizer", "evaluation", "monitor")
DATA, FORWARD, BACKWARD, OPTIMIZER, EVALUATION, MONITOR, BETWEEN = range(7)


class StepTime:
    """Seconds by phase since the monitor began; a mark closes the phase before it and costs about 0.15 us.

    Behind a backward pass the time belongs to the optimizer (clipping, unscaling) if a step comes next, and to the data
    if another forward does.

    Attributes:
        ended: Steps whose time was taken until now; while it is paused, none is.
        communication: Seconds inside collectives, which are part of the phases.
        samples, tokens: What the model was called with in the steps that were looked at.
        steps: Their number.
    """

    __slots__ = (
        "_clock", "_is_paused", "_phase", "_seconds", "_since", "communication", "ended", "samples", "steps", "tokens",
    )  # fmt: skip

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds = [0.0] * (len(PHASES) + 1)
        self._phase, self._since = DATA, clock()
        self._is_paused = False
        self.communication = 0.0
        self.ended = 0
        self.samples = self.tokens = self.steps = 0

    def enter(self, phase: int) -> None:
        """Start this phase and close the one before."""
        if self._is_paused:
            return
        now = self._clock()
        before = self._phase
        if before == BETWEEN:
            before = DATA if phase in (FORWARD, EVALUATION) else OPTIMIZER
        self._seconds[before] += now - self._since
        self._phase, self._since = phase, now

    def pause(self, is_paused: bool) -> None:
        """Pause or resume the clock; paused time belongs to no step, and data follows a pause."""
        if is_paused and not self._is_paused:
            self.enter(DATA)
        if self._is_paused and not is_paused:
            self._phase, self._since = DATA, self._clock()
        self._is_paused = is_paused

    def enter_evaluation(self) -> None:
        """Start a forward outside the training, where data would be waited for."""
        if self._phase in (DATA, EVALUATION):
            self.enter(EVALUATION)

    def seconds(self) -> tuple[float, ...]:
        """Return the seconds of each phase so far, and the communication behind them."""
        self.enter(self._phase)
        return (*self._seconds[: len(PHASES)], self.communication)
