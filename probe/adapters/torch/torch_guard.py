"""Stands between a torch training and the monitor: what the monitor raises ends the watching, never the training."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...errors import TrainingStopped
from ...recording.recorder import Recorder
from .torch_patches import TrainingListener


class Guard:
    """Calls the monitor's code for the training, until that raises for the first time.

    From then on hooks record nothing, and the run says so with the event `monitor_fault`. Hooks are not removed at
    once, since torch may be iterating over them.

    Attributes:
        is_off: Whether something was raised.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.is_off = False

    def __call__(self, work: Callable[..., Any], *, otherwise: Any = None) -> Callable[..., Any]:
        """Return the function with every exception kept from its caller, but the one that asks for the training's end.

        Args:
            otherwise: What the function returns once something was raised.
        """

        def call(*arguments: Any, **options: Any) -> Any:
            if self.is_off:
                return otherwise
            try:
                return work(*arguments, **options)
            except TrainingStopped:
                raise
            except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
                self._give_up(error)
                return otherwise

        return call

    def _give_up(self, error: Exception) -> None:
        self.is_off = True
        with suppress(Exception):
            self._recorder.fail("monitor", error)
        with suppress(Exception):
            self._recorder.due.look_away()


class GuardedListener:
    """A `TrainingListener` whose exceptions do not reach the training."""

    def __init__(self, listener: TrainingListener, guard: Guard) -> None:
        self._listener = listener
        self.backward_begins, self.backward_ends = guard(listener.backward_begins), guard(listener.backward_ends)
        self.backward_unrecorded = guard(listener.backward_unrecorded)
        self.around_backward = guard(listener.around_backward, otherwise=())
        self.gradients_asked, self.gradients_given = guard(listener.gradients_asked), guard(listener.gradients_given)
        self.loss_scaled = guard(listener.loss_scaled)
        self.scaler_steps, self.scaler_stepped = guard(listener.scaler_steps), guard(listener.scaler_stepped)

    @property
    def wraps_backward(self) -> bool:
        """Whether backward passes run inside contexts."""
        return self._listener.wraps_backward
