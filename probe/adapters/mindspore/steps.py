"""The hooks around a call of an optimizer of MindSpore, which is handed its gradients."""

from collections.abc import Sequence
from typing import Any

from ...recording.recorder import Recorder
from ...taps.handles import Several
from ..course import Course
from .hooks import Hook
from .view import MindSporeView


class StepHooks:
    """Tells the course of a training what its optimizers do."""

    def __init__(self, course: Course, view: MindSporeView, recorder: Recorder) -> None:
        self._course, self._view, self._recorder = course, view, recorder

    def watch(self, optimizer: Any) -> Several:
        """The handle of the hooks that are put on the optimizer, which is one of the model's from now on."""
        self._view.optimizers.append(optimizer)
        before = optimizer.register_forward_pre_hook(Hook(self._before))
        return Several([before, optimizer.register_forward_hook(Hook(self._after))])

    def _before(self, optimizer: Any, arguments: Sequence[Any]) -> None:
        try:
            self._view.given = tuple(arguments[0])
            self._course.update_begins(optimizer)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("gradient", error)

    def _after(self, optimizer: Any, _arguments: Sequence[Any], _result: Any) -> None:
        try:
            self._course.after_step(optimizer)
        except Exception as error:  # noqa: BLE001  as above
            self._recorder.fail("weight", error)
