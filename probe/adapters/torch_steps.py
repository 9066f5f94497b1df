"""The hooks around an optimizer's step, whichever way it is called: plainly, with a closure, or by a loss scaler."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from ..recorder import Recorder
from .course import Course
from .torch_view import TorchView


def without_wrapper(optimizer: Any) -> Any:
    """The optimizer that steps: inside of the one that Hugging Face's Accelerate, for one, puts around it."""
    inner = getattr(optimizer, "optimizer", None)
    return without_wrapper(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


class StepHooks:
    """Tells the course of a training what its optimizers do.

    An optimizer that is given a closure finds its gradients only inside of its step: they are recorded when the closure
    has been evaluated for the first time, with the weights as they were. What the closure evaluates after that, in the
    search along a line, is not recorded.
    """

    def __init__(self, course: Course, view: TorchView, recorder: Recorder) -> None:
        self._course, self._view, self._recorder = course, view, recorder
        self._is_away = False

    def before(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Nothing, or the arguments with a closure that tells when it has been evaluated."""
        closure = arguments[1] if len(arguments) > 1 else options.get("closure")
        if closure is None:
            self._begin(optimizer)
            return None
        self._course.step_begins(optimizer)
        told = self._telling(closure, optimizer)
        if len(arguments) > 1:
            return (arguments[0], told, *arguments[2:]), options
        return arguments, {**options, "closure": told}

    def after(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        """Nothing; the optimizer has stepped, or a loss scaler has told it to leave the weights as they are."""
        found = getattr(optimizer, "found_inf", None)  # of a fused optimizer, which skips a step by itself
        if found is not None and bool(found):
            self._course.note_skipped(self._recorder.loss_scale)
        self._view.gradient_scale = None
        self._course.after_step(optimizer)
        if self._is_away:
            self._is_away = False
            self._recorder.look_again()

    def _begin(self, optimizer: Any) -> None:
        self._view.gradient_scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which divides by it
        self._course.before_step(optimizer)

    def _telling(self, closure: Callable[[], Any], optimizer: Any) -> Callable[[], Any]:
        is_first = True

        @wraps(closure)
        def evaluate() -> Any:
            nonlocal is_first
            loss = closure()
            if is_first:
                is_first = False
                self._begin(optimizer)
                self._is_away = True
                self._recorder.look_away()
            return loss

        return evaluate
