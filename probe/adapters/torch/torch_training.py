"""A torch training from forward to step, told to the lifecycle of the step."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from threading import get_ident
from typing import Any
from weakref import ref

import torch

from ...device_results import LateScalar
from ...hooks.output_hooks import OutputHooks
from ...recording.recorder import Recorder
from ..call_order import CallOrder
from ..step_lifecycle import Course
from .torch_changes import TorchChanges
from .torch_facts import TorchFacts
from .torch_hooks import OpeningHook
from .torch_operators import TorchTracer
from .torch_parameters import TorchView
from .torch_patches import in_backward, is_first_of_two
from .torch_ranks import TorchRanks
from .torch_sites import ModuleSites
from .torch_tensors import is_remote, remote

#: What an optimizer's `step` is called with, itself the first of them.
Call = tuple[tuple[Any, ...], dict[str, Any]]


def telling(arguments: tuple[Any, ...], options: dict[str, Any], tell: Callable[[], object]) -> Call | None:
    """The same call with a closure that calls `tell` behind its first evaluation; None where it has no closure."""
    closure = arguments[1] if len(arguments) > 1 else options.get("closure")
    if closure is None:
        return None
    told = _told_once(closure, tell)
    if len(arguments) > 1:
        return (arguments[0], told, *arguments[2:]), options
    return arguments, {**options, "closure": told}


def _told_once(closure: Callable[[], Any], tell: Callable[[], object]) -> Callable[[], Any]:
    is_first = True

    @wraps(closure)
    def evaluate() -> Any:
        nonlocal is_first
        loss = closure()
        if is_first:
            is_first = False
            tell()
        return loss

    return evaluate


def without_wrapper(optimizer: Any) -> Any:
    """The optimizer that steps: inside of the one that Hugging Face's Accelerate, for one, puts around it."""
    inner = getattr(optimizer, "optimizer", None)
    return without_wrapper(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


class TorchStepHooks:
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


class TorchLosses:
    """Reads the values that the backward passes of one model start from."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._unscaled: tuple[Any, float | LateScalar, float | LateScalar] | None = None

    def forget(self) -> None:
        """Nothing; the loss that was scaled last is forgotten."""
        self._unscaled = None

    def scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Nothing; it is remembered what the loss was before a scaler multiplied it."""
        if isinstance(loss, torch.Tensor) and loss.numel() == 1 and scaler.is_enabled():
            scale = scaler._get_scale_async()
            self._unscaled = (ref(scaled), self._value_of(loss), 1.0 if scale is None else self._value_of(scale))

    def loss_of(self, roots: Any) -> float | LateScalar | None:
        """The value of the only tensor that a backward pass starts from, if it has one element; late on a device."""
        root = _only(roots)
        if root is None or (is_remote(root) and "loss" not in self._recorder.current.due):
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            self._recorder.current.loss_scale = self._unscaled[2]
            return self._unscaled[1]
        return self._value_of(root)

    def known(self, roots: Any) -> float | None:
        """The same for who looks at every value anyway: a device is waited for."""
        loss = self.loss_of(roots)
        return float(_only(roots).detach()) if callable(loss) else loss

    def _value_of(self, scalar: Any) -> float | LateScalar:
        away = remote(scalar)
        outbox = self._recorder.outbox
        return outbox.owe_value(away) if away is not None and outbox.takes_promises else float(scalar.item())


def _only(roots: Any) -> Any:
    root = roots if isinstance(roots, torch.Tensor) else roots[0] if len(roots) == 1 else None
    return None if root is None or root.numel() != 1 else root


class TorchTraining:
    """Listens to the process for what no hook of one model tells: a `TrainingListener`.

    A training is in the thread in which its model was called last: backward passes of others are none of its.

    Attributes:
        course: Of the training.
        opening: The hook that sees forwards of the model begin.
        steps: The hooks of the optimizers.
        tracer: Follows operations, where that is asked for.
        ranks: Compares this process with the others, where that is asked for.
    """

    def __init__(
        self,
        model: Any,
        places: ModuleSites,
        view: TorchView,
        recorder: Recorder,
        taps: OutputHooks,
        *,
        facts: TorchFacts,
        order: CallOrder,
        changes: TorchChanges,
    ) -> None:
        self._model, self._places, self._view, self._recorder = model, places, view, recorder
        self._current, self._facts, self._order, self._changes = recorder.current, facts, order, changes
        self._roots = TorchLosses(recorder)
        self.course = Course(recorder, view, taps, before_step=self._before_step, at_end=self._step_ends)
        self.steps = TorchStepHooks(self.course, view, recorder)
        self.opening = OpeningHook(self._opens)
        self.tracer: TorchTracer | None = None
        self.ranks: tuple[TorchRanks, ...] = ()
        self._steps_before = 0

    def forget(self) -> None:
        """Nothing; the loss that was scaled last is forgotten."""
        self._roots.forget()

    def forward_begins(self) -> None:
        """The model is called."""
        if not self._current.is_idle:
            self._facts.facts.forward_begins()
        self.course.forward_begins()
        for ranks in self.ranks:
            ranks.forward_begins()
        if not self._current.is_idle and self._places.has_changed():
            self._changes.modules_changed()

    def backward_begins(self, roots: Any) -> None:
        """A backward pass of the process starts from these tensors."""
        if self._current.is_idle:
            return
        if self.opening.was_compiled:  # of that forward only this is known
            self._places.is_compiled = True
            self.opening.was_compiled = self._recorder.expects_activations = False
            self.course.forward_begins()
        if self._current.thread != get_ident():  # whose gradients may come and go while they are looked at
            return
        if self.course.backward_begins(partial(self._roots.loss_of, roots)):
            self._facts.facts.backward_begins(self._current.root)

    def backward_ends(self) -> None:
        """The backward pass is over."""
        if not self._current.is_idle and self._current.thread == get_ident():
            self._recorder.backward_ends()

    def around_backward(self, roots: Any) -> Sequence[AbstractContextManager[Any]]:
        """What the backward pass runs inside of, if anything."""
        if self.tracer is None or not self._current.is_open or self._current.thread != get_ident():
            return ()
        return (self.tracer.backward(roots, self._roots.known(roots)),)

    def loss_scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Remembers what the loss was before it was scaled."""
        if not self._current.is_idle:
            self._roots.scaled(loss, scaled, scaler)

    def scaler_steps(self, _optimizer: Any) -> None:
        """Notes how often optimizers have stepped, before a scaler may keep one of them from that."""
        self._steps_before = self.steps.count

    def scaler_stepped(self, optimizer: Any, scale: Callable[[], float]) -> None:
        """Closes the step as skipped when the scaler has kept the optimizer from stepping."""
        if any(optimizer is one for one in self._view.optimizers) and self.steps.count == self._steps_before:
            self.course.step_skipped(optimizer, float(scale()))

    def _opens(self, module: Any, _inputs: Any) -> None:
        """A forward of the model begins, unless it is computed again in a backward pass, or frozen targets are made."""
        if in_backward() or (module is not self._model and not torch.is_grad_enabled() and _is_frozen(module)):
            return
        self.forward_begins()
        if not torch.is_grad_enabled() and self._model.training and is_first_of_two():
            self._recorder.forward_begins()

    def _before_step(self) -> None:
        if self.tracer is not None:
            self.tracer.rest()
        self._facts.facts.before_step()
        for ranks in self.ranks:
            ranks.before_step()
        self._changes.before_step()

    def _step_ends(self) -> None:
        self._facts.facts.step_ends(self.course.passes)
        for ranks in self.ranks:
            ranks.step_ends()
        if not self._order.is_known:
            self._order.finish()
            self._order.step_ends()


def _is_frozen(module: Any) -> bool:
    return not any(parameter.requires_grad for parameter in module.parameters())
