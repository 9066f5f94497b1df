"""A torch training from forward to step, reported to the lifecycle of the step."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from threading import get_ident
from typing import Any
from weakref import ref

import torch

from ...aside import is_aside
from ...device_results import LateScalar
from ...hooks.output_hooks import OutputHooks
from ...recording.recorder import Recorder
from ...tensor_access import Tensor
from ..call_order import CallOrder
from ..parameter_selection import NewParts
from ..step_lifecycle import StepLifecycle
from . import torch_tensors as tensors
from .torch_facts import TorchFacts
from .torch_hooks import OpeningHook
from .torch_module_hooks import TorchModuleHooks
from .torch_operators import TorchTracer
from .torch_parameters import TorchView
from .torch_patches import current_graph_task_id, is_first_of_two
from .torch_ranks import TorchRanks
from .torch_sites import ModuleSites, parameters_of
from .torch_tensors import is_remote, remote

#: What an optimizer's `step` is called with, itself the first of them.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def closure_of(arguments: Sequence[Any], options: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Return the closure that an optimizer's `step` is called with; None if it has none."""
    return arguments[1] if len(arguments) > 1 else options.get("closure")


def with_report(arguments: tuple[Any, ...], options: dict[str, Any], report: Callable[[], object]) -> Arguments:
    """Return arguments with a closure that calls `report` after its first evaluation; they have a closure."""
    closure = closure_of(arguments, options)
    assert closure is not None, "asked for where there is a closure"
    reporting = _reporting_once(closure, report)
    if len(arguments) > 1:
        return (arguments[0], reporting, *arguments[2:]), options
    return arguments, {**options, "closure": reporting}


def _reporting_once(closure: Callable[[], Any], report: Callable[[], object]) -> Callable[[], Any]:
    is_first = True

    @wraps(closure)
    def evaluate() -> Any:
        nonlocal is_first
        loss = closure()
        if is_first:
            is_first = False
            report()
        return loss

    return evaluate


def without_wrapper(optimizer: Any) -> Any:
    """Return the optimizer that steps: inside of the one that Hugging Face's Accelerate, for one, puts around it."""
    inner = getattr(optimizer, "optimizer", None)
    return without_wrapper(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


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
        self._is_away = False
        self.count = 0
        self.is_inside = False
        self._removed_gradients: list[tuple[Tensor, Tensor]] = []

    def before(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Arguments | None:
        """Record what the optimizer is about to use, or return arguments with a closure that has it recorded."""
        self.is_inside = True
        if self._current.is_idle and len(self._view.optimizers) == 1:
            return None
        if (len(arguments) > 1 or options) and closure_of(arguments, options) is not None:
            self._lifecycle.step_begins(optimizer)
            return with_report(arguments, options, lambda: self.evaluated(optimizer))
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

    def after(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        """Note that the optimizer has stepped, or that a loss scaler has had it leave the weights as they are."""
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
        if self._is_away:
            self._is_away = False
            self._due.look_again()

    def _remove_gradients(self, optimizer: Any) -> None:
        """Remove the gradients until the step is over: an optimizer leaves parameters without gradient alone."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._removed_gradients = [
            (parameter, parameter.grad) for parameter in parameters if parameter.grad is not None
        ]
        for parameter, _ in self._removed_gradients:
            parameter.grad = None


class TorchLosses:
    """Reads the values that the backward passes of one model start from."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._unscaled: tuple[Any, float | LateScalar, float | LateScalar] | None = None

    def forget(self) -> None:
        """Forget the loss that was scaled last."""
        self._unscaled = None

    def scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Remember what the loss was before a scaler multiplied it."""
        if isinstance(loss, torch.Tensor) and loss.numel() == 1 and scaler.is_enabled():
            scale = scaler._get_scale_async()
            self._unscaled = (ref(scaled), self._value_of(loss), 1.0 if scale is None else self._value_of(scale))

    def loss_of(self, roots: Any) -> float | LateScalar | None:
        """Return the value of the only root of a backward pass, if it has one element; late on a device."""
        is_plain = type(roots) is torch.Tensor and roots.is_cpu and not tensors.is_any_taken_for_remote
        if is_plain and self._unscaled is None and roots.numel() == 1:
            return float(roots.item())
        root = _only(roots)
        if root is None or (is_remote(root) and "loss" not in self._recorder.current.due):
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            self._recorder.current.loss_scale = self._unscaled[2]
            return self._unscaled[1]
        return self._value_of(root)

    def known(self, roots: Any) -> float | None:
        """Return the loss for who reads every value anyway: a device is waited for."""
        loss = self.loss_of(roots)
        return float(_only(roots).detach()) if callable(loss) else loss

    def _value_of(self, scalar: Tensor) -> float | LateScalar:
        away = remote(scalar)
        device_results = self._recorder.device_results
        return (
            device_results.request_value(away)
            if away is not None and device_results.accepts_requests
            else float(scalar.item())
        )


def _only(roots: Any) -> Any:
    root = roots if isinstance(roots, torch.Tensor) else roots[0] if len(roots) == 1 else None
    return None if root is None or root.numel() != 1 else root


#: Due steps between two looks for changed modules when no forward was seen to begin.
_LOOK_EVERY = 10
#: Parameters of the model and of its optimizers, before the first look.
_NEVER_COUNTED = (-1, -1)


class TorchChanges:
    """Looks for modules and parameters that a model has gained, and watches them.

    Args:
        changed: Called when it has, unless that is how the training began.

    Attributes:
        named: All parameters by their sites, as they were seen last.
    """

    def __init__(
        self,
        model: Any,
        module_sites: ModuleSites,
        view: TorchView,
        hooks: TorchModuleHooks,
        parts: NewParts,
        changed: Callable[[], None],
    ) -> None:
        self._model, self._module_sites, self._view = model, module_sites, view
        self._hooks, self._parts, self._changed = hooks, parts, changed
        self.named: dict[str, Any] = dict(parameters_of(model))
        self._counts, self._looks = _NEVER_COUNTED, 0

    def modules_changed(self) -> None:
        """Watch new modules before the forward that begins reaches them."""
        self._take_in(self._counts[1])

    def before_step(self) -> None:
        """Watch modules and parameters that have joined since the previous step."""
        total = 0
        for optimizer in self._view.optimizers:
            for group in optimizer.param_groups:
                total += len(group["params"])
        self._looks += 1
        is_due = not self._looks % _LOOK_EVERY and self._module_sites.has_changed()
        if is_due or (len(self.named), total) != self._counts:
            self._take_in(total)

    def _take_in(self, total: int) -> None:
        """Look at all modules and parameters again; `total` counts the parameters of all optimizers."""
        self.named = dict(parameters_of(self._model))
        changed = self._module_sites.look() if self._module_sites.has_changed() else frozenset()
        sites = self._parts.record(self.named)
        if self._counts != _NEVER_COUNTED:
            self._changed()
        if changed:
            self._hooks.exchange(sites, changed, self.named)
            self._parts.report_changes(changed)
        self._counts = (len(self.named), total)


class TorchTraining:
    """Listens to the process for what no hook of one model reports: a `TrainingListener`.

    A training is in the thread in which its model was called last: backward passes of others are none of its.

    Attributes:
        lifecycle: Lifecycle of the training's steps.
        opening: The hook that sees forwards of the model begin.
        steps: The hooks of the optimizers.
        ranks: Compares this process with the others, if that is asked for.
        wraps_backward: Whether backward passes run inside a tracer.
    """

    def __init__(
        self,
        model: Any,
        module_sites: ModuleSites,
        view: TorchView,
        recorder: Recorder,
        output_hooks: OutputHooks,
        *,
        facts: TorchFacts,
        order: CallOrder,
        changes: TorchChanges,
    ) -> None:
        self._model, self._module_sites, self._view, self._recorder = model, module_sites, view, recorder
        self._current, self._order, self._changes = recorder.current, order, changes
        self._facts, self._counts = facts.facts, output_hooks.counts
        self._is_usual = recorder.config.record == "training"
        self._losses = TorchLosses(recorder)
        self.lifecycle = StepLifecycle(
            recorder, view, output_hooks, before_step=self._before_step, at_end=self._step_ends
        )
        self.steps = TorchStepHooks(self.lifecycle, view, recorder)
        self.opening = OpeningHook(self._forward_opens)
        self._tracer: TorchTracer | None = None
        self.wraps_backward = False
        self.ranks: tuple[TorchRanks, ...] = ()
        self._steps_before = 0

    def trace(self, tracer: TorchTracer) -> None:
        """Have this tracer follow the operations of the model."""
        self._tracer, self.wraps_backward = tracer, True

    def forget(self) -> None:
        """Forget the loss that was scaled last."""
        self._losses.forget()

    def forward_begins(self) -> None:
        """Note that the model is called."""
        is_recording = torch.is_grad_enabled()  # outside of a backward pass, where nothing is computed again
        if not self._current.is_idle and self._facts.is_listening and not is_aside():
            self._facts.modes.forward_begins(is_recording)
        is_training = is_recording and self._model.training and not is_aside()
        self.lifecycle.forward_opens(counts=is_training if self._is_usual else self._counts())
        for ranks in self.ranks:
            ranks.forward_begins()
        if not self._current.is_idle and self._module_sites.has_changed():
            self._changes.modules_changed()

    def backward_begins(self, roots: Any) -> None:
        """Note that a backward pass of the process starts from these tensors."""
        current = self._current
        if current.is_idle:
            return
        if self.opening.was_compiled:  # of that forward only this is known
            self._module_sites.is_compiled = True
            self.opening.was_compiled = self._recorder.expects_activations = False
            self.lifecycle.forward_begins()
        if current.thread != get_ident():  # whose gradients may come and go while they are read
            return
        if self.lifecycle.backward_begins(partial(self._losses.loss_of, roots)) and self._facts.is_listening:
            self._facts.accumulation.backward_begins(current.root)

    def backward_ends(self) -> None:
        """Note that the backward pass is over."""
        if not self._current.is_idle and self._current.thread == get_ident():
            self._recorder.backward_ends()

    def around_backward(self, roots: Any) -> Sequence[AbstractContextManager[Any]]:
        """Return the contexts that the backward pass runs inside of."""
        if self._tracer is None or not self._current.is_open or self._current.thread != get_ident():
            return ()
        return (self._tracer.backward(roots, self._losses.known(roots)),)

    def loss_scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Remember what the loss was before it was scaled."""
        if not self._current.is_idle:
            self._losses.scaled(loss, scaled, scaler)

    def scaler_steps(self, _optimizer: Any) -> None:
        """Note how often optimizers have stepped, before a scaler may keep one of them from that."""
        self._steps_before = self.steps.count

    def scaler_stepped(self, optimizer: Any, scale: Callable[[], float]) -> None:
        """Close the step as skipped if the scaler has kept the optimizer from stepping."""
        is_watched = any(optimizer is watched for watched in self._view.optimizers)
        if is_watched and self.steps.count == self._steps_before:
            self.lifecycle.step_skipped(optimizer, float(scale()))

    def _forward_opens(self, module: Any, _inputs: Any) -> None:
        """Note a forward of the model, unless a backward pass computes it again, or it makes frozen targets."""
        if current_graph_task_id() != -1:
            return
        if module is not self._model and not torch.is_grad_enabled() and _is_frozen(module):
            return
        self.forward_begins()
        if not torch.is_grad_enabled() and self._model.training and is_first_of_two():
            self._recorder.forward_begins()

    def _before_step(self) -> None:
        if self._tracer is not None:
            self._tracer.rest()
        self._facts.before_step()
        for ranks in self.ranks:
            ranks.before_step()
        self._changes.before_step()

    def _step_ends(self, passes: int) -> None:
        self._facts.step_ends(passes)
        for ranks in self.ranks:
            ranks.step_ends()
        if not self._order.is_known:
            self._order.finish()
            self._order.step_ends()


def _is_frozen(module: Any) -> bool:
    return not any(parameter.requires_grad for parameter in module.parameters())
