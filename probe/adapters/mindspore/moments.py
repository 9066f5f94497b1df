"""What happens in a training of MindSpore, from forward to step, told to all who follow it in their order."""

from functools import partial
from typing import Any

from ...recording.recorder import Recorder
from ...taps.forward import ForwardTaps
from ..course import Course
from ..order import CallOrder
from .backward import loss_of
from .order import RetiringHooks
from .steps import StepHooks
from .view import MindSporeView


class Moments:
    """Listens to the process for what no hook of one model tells: a `Listener`.

    Args:
        following: The hooks that the order of calls is followed by.

    Attributes:
        course: Of the training.
        steps: The hooks of the optimizers.
    """

    def __init__(
        self, view: MindSporeView, recorder: Recorder, taps: ForwardTaps, order: CallOrder, following: RetiringHooks
    ) -> None:
        self._view, self._order, self._following = view, order, following
        self.course = Course(recorder, view, taps, before_step=_nothing, at_end=self._step_ends)
        self.steps = StepHooks(self.course, view, recorder)

    def backward_begins(self, result: Any) -> None:
        """A gradient function of the process is about to walk back from this result."""
        self.course.backward_begins(partial(loss_of, result))

    def step_done(self) -> None:
        """The loop says that its step is done."""
        self._view.given = ()
        self.course.step_done()

    def _step_ends(self) -> None:
        if not self._order.is_known:
            self._following.remove()
            self._order.step_ends()


def _nothing() -> None:
    return None
