"""The collectors that are due in a step are asked: before the optimizer moves the weights, and behind that."""

import math
import time
from collections.abc import Callable

from ..collectors.collector import Step, View
from ..device_results import LateScalar, Outbox
from ..kernels import More
from ..quantities.step_clock import StepTime
from .current import CurrentStep
from .draft import Draft
from .due_collectors import Due
from .first_step import initial_weights


class Survey:
    """Shows each collector the step in progress; what it finds is part of the draft.

    Args:
        due: Knows who is asked.
        more: Statistics on request.
        step_time: What the steps' wall time is spent on.
        refuses: Whether it must be known before the weights move that a gradient is not finite.
        failed: Told of a collector that raises.

    Attributes:
        ended: When the step before ended, by `time.perf_counter`.
    """

    def __init__(
        self,
        current: CurrentStep,
        due: Due,
        draft: Draft,
        outbox: Outbox,
        *,
        more: More,
        step_time: StepTime,
        refuses: bool,
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._current, self._due, self._draft, self._outbox = current, due, draft, outbox
        self._more, self._time, self._refuses, self._failed = more, step_time, refuses, failed
        self._seen: Step | None = None
        self.ended = time.perf_counter()

    def before(self, view: View) -> None:
        """Nothing; the weights may move. Of the first step it is told which they were."""
        current = self._current
        if not current.has_recorded:
            self._draft.events += initial_weights(self._step_of(view), current.micro_step, self._outbox)
        current.has_bad_gradient = False
        plan = self._due.plan
        if not (plan.before or plan.after):
            return
        step = self._seen = self._step_of(view)
        self._draft.ask(plan.before, step, self._failed)
        current.has_bad_gradient = self._refuses and self._is_bad(step.gradient_norm)
        for name, prepare in self._due.plan.prepare:  # which has no collector any more that has just failed
            try:
                prepare(step)
            except Exception as error:  # noqa: BLE001  as in `Draft.ask`
                self._failed(name, error)

    def after(self, view: View) -> None:
        """Nothing; the weights have moved."""
        self._draft.ask(self._due.plan.after, self._step_after(view), self._failed)

    def _step_of(self, view: View) -> Step:
        current, elapsed_s = self._current, time.perf_counter() - self.ended
        batches = current.micro_batches
        step = Step(
            view, current.step, current.loss, current.loss_scale, elapsed_s, micro_batches=batches, time=self._time
        )
        step.more, step.clip, step.outbox = self._more, current.clip, self._outbox
        step.bins, step.histogram_subjects = current.bins, self._due.config.histograms.subjects
        return step

    def _step_after(self, view: View) -> Step:
        """The step, whose weights have moved; what was seen before that is seen again."""
        step, self._seen = self._seen, None
        current = self._current
        if step is None or step.number != current.step:
            return self._step_of(view)
        step.weights_moved()
        step.loss, step.loss_scale, step.clip = current.loss, current.loss_scale, current.clip
        step.elapsed_s = time.perf_counter() - self.ended
        return step

    def _is_bad(self, norm: float | LateScalar | None) -> bool:
        """Whether a gradient is not finite; what an update depends on is waited for, on a device as well."""
        if callable(norm):
            self._outbox.wait()
            norm = norm() if self._outbox.takes_promises else None  # unless the device has just failed
        return norm is not None and not math.isfinite(norm)
