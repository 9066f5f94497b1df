"""What a training's optimizers use and do, recorded before and behind each of their steps."""

import sys
from functools import partial
from types import FrameType
from typing import Any, Final

from torch.optim import optimizer as optimizers

from ...recording.recorder import Recorder
from ...tensor_access import Tensor
from ..step_lifecycle import StepLifecycle
from .torch_closures import Arguments, closure_of, with_reports
from .torch_parameters import TorchView

#: The file in which torch wraps the method `step` of each class of optimizers, to call the hooks around it.
_WRAPS: Final = optimizers.__file__


class TorchStepHooks:
    """The hooks of the optimizers of a training.

    An optimizer that is given a closure finds its gradients only inside of its step: they are recorded when the closure
    has been evaluated for the first time, with the weights as they were. What the closure evaluates after that, in the
    search along a line, is not recorded.

    Attributes:
        count: Calls of optimizers so far that were not kept from stepping by a loss scaler.
        is_inside: Whether a watched optimizer is stepping, which may have others step for it.
    """

    def __init__(self, lifecycle: StepLifecycle, view: TorchView, recorder: Recorder) -> None:
        self._lifecycle, self._view, self._current, self._due = lifecycle, view, recorder.current, recorder.due
        self._guard = recorder.guard
        self._is_away = False
        self.count = 0
        self.is_inside = False
        self._stepping = self._inner = 0  # id of the optimizer, and its steps inside of its step
        self._removed_gradients: list[tuple[Tensor, Tensor]] = []

    def before(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Arguments | None:
        """Record what the optimizer is about to use, or return arguments with a closure that has it recorded."""
        if self.is_inside and id(optimizer) == self._stepping and _steps_of(optimizer) > 1:
            self._inner += 1  # a class that calls `super().step()`, which torch has wrapped as well
            return None
        self.is_inside, self._stepping, self._inner = True, id(optimizer), 0
        if self._current.is_idle and len(self._view.optimizers) == 1:
            return None
        if (len(arguments) > 1 or options) and closure_of(arguments, options) is not None:
            self._lifecycle.step_begins(optimizer)
            reports = (self._guard(partial(report, optimizer)) for report in (self.evaluated, self.goes_on))
            return with_reports(arguments, options, *reports)
        self._view.gradient_scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which divides by it
        self._lifecycle.update_begins(optimizer)
        skips_overflows = getattr(optimizer, "found_inf", None) is not None  # as a fused optimizer does by itself
        if self._current.has_bad_gradient and not skips_overflows and self._lifecycle.refuses_update():
            self._remove_gradients(optimizer)
        return None

    def evaluated(self, optimizer: Any) -> None:
        """Record what the optimizer found when its closure was evaluated for the first time in its step."""
        self._view.gradient_scale = getattr(optimizer, "grad_scale", None)
        self._lifecycle.update_begins(optimizer)
        self._is_away = True
        self._due.look_away()

    def goes_on(self, optimizer: Any) -> None:
        """Close the step of the evaluation before, in a long search, as the next one begins."""
        self._look_again()
        self._lifecycle.after_step(optimizer)
        self._lifecycle.step_begins(optimizer)

    def _look_again(self) -> None:
        if self._is_away:
            self._is_away = False
            self._due.look_again()

    def after(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        """Note that the optimizer has stepped, or that a loss scaler has had it leave the weights as they are."""
        if self._inner and id(optimizer) == self._stepping:
            self._inner -= 1
            return
        self.count += 1
        self.is_inside = False
        if self._removed_gradients:
            for parameter, gradient in self._removed_gradients:
                parameter.grad = gradient
            self._removed_gradients = []
        found = getattr(optimizer, "found_inf", None)  # of a fused optimizer, which skips a step by itself
        if found is not None and bool(found):
            scale = self._current.loss_scale
            self._lifecycle.note_skipped(None if callable(scale) else scale)
        self._view.gradient_scale = None
        self._lifecycle.after_step(optimizer)
        self._look_again()

    def _remove_gradients(self, optimizer: Any) -> None:
        """Remove the gradients until the step is over: an optimizer leaves parameters without gradient alone."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._removed_gradients = [
            (parameter, parameter.grad) for parameter in parameters if parameter.grad is not None
        ]
        for parameter, _ in self._removed_gradients:
            parameter.grad = None


def _steps_of(optimizer: Any) -> int:
    """Return how many calls of the optimizer's `step` are running, one inside of the other.

    What raised has no hook behind it, so that the calls themselves are counted.
    """
    frame: FrameType | None = sys._getframe(1)
    found = 0
    while frame is not None:
        is_step = frame.f_code.co_name == "wrapper" and frame.f_code.co_filename == _WRAPS
        found += is_step and next(iter(frame.f_locals.get("args", ())), None) is optimizer
        frame = frame.f_back
    return found
