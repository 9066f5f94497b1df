"""The hooks around an optimizer's step, whichever way it is called: plainly, with a closure, or by a loss scaler."""

from typing import Any

import torch

from ...recording.recorder import Recorder
from ..course import Course
from .closures import Call, telling
from .view import TorchView


def without_wrapper(optimizer: Any) -> Any:
    """The optimizer that steps: inside of the one that Hugging Face's Accelerate, for one, puts around it."""
    inner = getattr(optimizer, "optimizer", None)
    return without_wrapper(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


class StepHooks:
    """Tells the course of a training what its optimizers do.

    An optimizer that is given a closure finds its gradients only inside of its step: they are recorded when the closure
    has been evaluated for the first time, with the weights as they were. What the closure evaluates after that, in the
    search along a line, is not recorded.

    Attributes:
        count: Calls of optimizers so far that were not kept from stepping by a loss scaler.
        is_inside: Whether a watched optimizer is stepping, which may have others step for it.
    """

    def __init__(self, course: Course, view: TorchView, recorder: Recorder) -> None:
        self._course, self._view, self._current, self._due = course, view, recorder.current, recorder.due
        self._is_away = False
        self.count = 0
        self.is_inside = False
        self._aside: list[tuple[Any, Any]] = []

    def before(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Call | None:
        """Nothing, or the arguments with a closure that tells when it has been evaluated."""
        self.is_inside = True
        if self._current.is_idle and len(self._view.optimizers) == 1:
            return None
        told = telling(arguments, options, lambda: self.evaluated(optimizer))
        if told is None:
            self._update_begins(optimizer)
        else:
            self._course.step_begins(optimizer)
        return told

    def evaluated(self, optimizer: Any) -> None:
        """Nothing; the closure that the optimizer was given has been evaluated for the first time in its step."""
        self._view.gradient_scale = getattr(optimizer, "grad_scale", None)
        self._course.update_begins(optimizer)
        self._is_away = True
        self._due.look_away()

    def after(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        """Nothing; the optimizer has stepped, or a loss scaler has told it to leave the weights as they are."""
        self.count += 1
        self.is_inside = False
        if self._aside:
            for parameter, gradient in self._aside:
                parameter.grad = gradient
            self._aside = []
        found = getattr(optimizer, "found_inf", None)  # of a fused optimizer, which skips a step by itself
        if found is not None and bool(found):
            scale = self._current.loss_scale
            self._course.note_skipped(None if callable(scale) else scale)
        self._view.gradient_scale = None
        self._course.after_step(optimizer)
        if self._is_away:
            self._is_away = False
            self._due.look_again()

    def _update_begins(self, optimizer: Any) -> None:
        self._view.gradient_scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which divides by it
        if getattr(optimizer, "found_inf", None) is not None:  # a fused optimizer that skips overflows by itself
            self._course.update_begins(optimizer)
        elif self._course.before_step(optimizer):
            self._set_aside(optimizer)

    def _set_aside(self, optimizer: Any) -> None:
        """Nothing; until the step is over no parameter has a gradient, and an optimizer leaves those as they are."""
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        self._aside = [(one, one.grad) for one in parameters if one.grad is not None]
        for parameter, _ in self._aside:
            parameter.grad = None
