"""The hooks around an optimizer's step, whichever way it is called: with gradients, or by a loss scaler."""

from typing import Any

from ....framework.hooks import SKIP_STEP
from ...recording.recorder import Recorder
from ...taps.handles import Several
from ..course import Course
from .view import EngineView


class StepHooks:
    """Tells the course of a training what its optimizers do."""

    def __init__(self, course: Course, view: EngineView, recorder: Recorder) -> None:
        self._course, self._view, self._current = course, view, recorder.current

    def watch(self, optimizer: Any) -> Several:
        """The handle of the hooks that are put on the optimizer, which is one of the model's from now on."""
        self._view.optimizers.append(optimizer)
        return Several(
            [
                optimizer.register_step_pre_hook(self._before),
                optimizer.register_step_post_hook(self._after),
                optimizer.register_step_skipped_hook(self._skipped),
            ]
        )

    def _before(self, optimizer: Any, gradients: Any) -> object:
        if self._current.is_idle and len(self._view.optimizers) == 1:
            return None
        self._view.given = gradients
        return SKIP_STEP if self._course.before_step(optimizer) else None

    def _after(self, optimizer: Any, _: object) -> None:
        self._course.after_step(optimizer)

    def _skipped(self, optimizer: Any, loss_scale: float) -> None:
        self._view.given = optimizer.gradients()
        self._course.step_skipped(optimizer, loss_scale)
