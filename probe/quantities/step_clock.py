"""What a step's wall time was spent on, from marks at the moments that every framework tells."""

import time
from collections.abc import Callable
from typing import Final

#: What the time belongs to; `BETWEEN` is what follows a backward pass until it is known what came next.
PHASES: Final = ("data", "forward", "backward", "optimizer", "evaluation", "monitor")
DATA, FORWARD, BACKWARD, OPTIMIZER, EVALUATION, MONITOR, BETWEEN = range(7)
#: Marks that wait at most: a training of forwards alone ends no step.
MOST_MARKS: Final = 64


class StepTime:
    """Seconds by phase since the monitor began; a mark begins a phase and ends the one before it.

    After a backward pass the time belongs to the optimizer (clipping, unscaling) if a step comes next, and to the data
    if another forward does.

    Attributes:
        clock: Seconds; only differences count.
        is_running: Whether marks count. Who marks a moment of every step asks this and appends to `marks` itself: a
            call of `enter` would cost more than the mark.
        marks: Phases that began since the last sum, with their times.
        ended: Steps whose time was taken until now; while the clock is paused, none is.
        communication: Seconds inside collectives, which are part of the phases.
        background: Returns the processor time that other threads have spent for the monitor.
        samples, tokens: What the model was called with in the steps that were read.
        steps: Their number.
    """

    __slots__ = (
        "_phase", "_seconds", "_since", "background", "clock", "communication", "ended", "is_running", "marks",
        "samples", "steps", "tokens",
    )  # fmt: skip

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._seconds = [0.0] * (len(PHASES) + 1)
        self._phase, self._since = DATA, clock()
        self.is_running = True
        self.marks: list[tuple[int, float]] = []
        self.communication = 0.0
        self.background: Callable[[], float] = float
        self.ended = 0
        self.samples = self.tokens = self.steps = 0

    def enter(self, phase: int) -> None:
        """Begin this phase and end the one before."""
        if self.is_running:
            self.marks.append((phase, self.clock()))
            if len(self.marks) > MOST_MARKS:
                self.add_up()

    def add_up(self) -> None:
        """Add the time between the marks to the phases."""
        seconds, before, since = self._seconds, self._phase, self._since
        for phase, now in self.marks:
            if before == BETWEEN:
                before = DATA if phase in (FORWARD, EVALUATION) else OPTIMIZER
            seconds[before] += now - since
            before, since = phase, now
        self._phase, self._since = before, since
        self.marks.clear()

    def pause(self, is_paused: bool) -> None:
        """Pause or resume the clock; paused time belongs to no step, and data follows a pause."""
        if is_paused and self.is_running:
            self.enter(DATA)
            self.add_up()
        if not is_paused and not self.is_running:
            self._phase, self._since = DATA, self.clock()
        self.is_running = not is_paused

    def enter_evaluation(self) -> None:
        """Begin a forward outside the training, where data would be waited for."""
        self.add_up()
        if self._phase in (DATA, EVALUATION):
            self.enter(EVALUATION)

    def seconds(self) -> tuple[float, ...]:
        """Return the seconds of each phase so far, and the communication behind them."""
        self.enter(self.marks[-1][0] if self.marks else self._phase)
        self.add_up()
        return (*self._seconds[: len(PHASES)], self.communication)
