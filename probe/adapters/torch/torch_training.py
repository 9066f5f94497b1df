"""A torch training from forward to step, reported to the lifecycle of the step."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import get_ident
from typing import Any

import torch

from ...aside import is_aside
from ...guard import Guard
from ...hooks.output_hooks import OutputHooks
from ...late_scalars import LateScalar
from ...recording.recorder import Recorder
from ..call_order import CallOrder
from ..parameter_selection import NewParts
from ..step_lifecycle import StepLifecycle
from .torch_checks import TorchChecks
from .torch_facts import TorchFacts
from .torch_fast_path import FastPath
from .torch_hand_steps import HandSteps
from .torch_hooks import OpeningHook, TrainingMode
from .torch_kind import TorchKind
from .torch_learners import Learners
from .torch_losses import TorchLosses
from .torch_module_hooks import TorchModuleHooks
from .torch_operators import TorchTracer
from .torch_parameters import TorchView
from .torch_patches import calling_place, current_graph_task_id, is_first_of_two
from .torch_ranks import TorchRanks
from .torch_raw_tensors import FirstStep, renew
from .torch_resting import CopyGlances
from .torch_sites import ModuleSites, parameters_of
from .torch_step_hooks import TorchStepHooks
from .torch_targets import TorchTargets
from .torch_tensors import only_plain, only_scalar

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

    def weights_may_be_others(self) -> None:
        """Watch the tensors that stand in for the parameters now, as in `functional_call`."""
        first = next(iter(self.named.values()), None)
        now = next((one for _, one in parameters_of(self._model)), None)
        if first is not None and now is not None and now is not first and now.is_leaf:
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
        guard: Takes what its methods raise.
        lifecycle: Lifecycle of the training's steps.
        opening: The hook that sees forwards of the model begin.
        steps: The hooks of the optimizers.
        learners: Tells the losses of several optimizers apart.
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
        checks: Sequence[TorchChecks | TorchTargets | CopyGlances],
        fast_path: FastPath,
        mode: TrainingMode,
        has_optimizer: bool | None,
        is_called_unseen: bool,
        guard: Guard,
    ) -> None:
        self._checks, self._fast_path, self._mode = checks, fast_path, mode
        self.guard = guard
        self._unopened: float | LateScalar | None = None
        self._model, self._module_sites, self._view, self._recorder = model, module_sites, view, recorder
        self._current, self._order, self._changes, self._unseen = recorder.current, order, changes, is_called_unseen
        self._facts, self._counts = facts.facts, output_hooks.counts
        self._is_usual = recorder.config.record == "training"
        self._losses = TorchLosses(recorder)
        modules = module_sites.modules
        self.lifecycle = StepLifecycle(
            recorder, view, output_hooks, modules=modules, before_step=self._before_step, at_end=self._step_ends
        )
        self.learners = Learners(recorder, view, self.lifecycle)
        self.kind = TorchKind(recorder, view, self.learners)
        facts.kind = self.kind
        self.learners.changed = self.kind.learners_changed
        self._hand_steps = HandSteps(recorder, view, self.lifecycle, modules, has_optimizer=has_optimizer)
        self.steps = TorchStepHooks(self.lifecycle, view, recorder)
        self.opening = OpeningHook(self._forward_opens, guard)
        self._tracer: TorchTracer | None = None
        self.wraps_backward = False
        self.ranks: tuple[TorchRanks, ...] = ()
        self._steps_before = 0
        self.take_scaled: Callable[[Any], None] = lambda _: None  # until optimizers are taken up

    def trace(self, tracer: TorchTracer) -> None:
        """Have this tracer follow the operations of the model."""
        self._tracer, self.wraps_backward = tracer, True

    def forget(self) -> None:
        """Forget the loss that was scaled last."""
        self._losses.forget()

    def end(self) -> None:
        """Close the last step of a training that writes its weights itself."""
        self.kind.remove()
        if not self._view.optimizers and self._hand_steps.is_watching:
            was_idle = self._current.is_idle
            self._hand_steps.end()
            if was_idle:
                self._recorder.record_last_loss()

    @property
    def writes_weights(self) -> bool:
        """Whether the script steps without an optimizer, so that its backward passes show where idle steps end."""
        return self._hand_steps.is_closing

    def forward_begins(self, called: Any = None) -> None:
        """Note that the model is called.

        Args:
            called: The part of it that is, where the model only lists its parts.
        """
        is_recording = torch.is_grad_enabled()  # outside of a backward pass, where nothing is computed again
        if self._fast_path.has_layers:
            self._fast_path.forward_begins(is_recording=is_recording, is_training=self._model.training)
        if not self._view.optimizers and is_recording and not is_aside():
            self._look_at_weights()
        if not self._current.is_idle and self._facts.is_listening and not is_aside():
            part = "" if called is None or called is self._model else self._module_sites.part(called)
            self._facts.modes.forward_begins(is_recording, part)
            if is_recording:
                self._facts.accumulation.is_after_forward = True
        is_training = is_recording and not is_aside()
        if self._model.training:
            self._mode.is_evaluation = self._mode.is_evaluation and not is_training
        else:
            is_training = is_training and self._mode.is_evaluation
        self.lifecycle.forward_opens(counts=is_training if self._is_usual else self._counts())
        for ranks in self.ranks:
            ranks.forward_begins()
        if not self._current.is_idle and self._module_sites.has_changed():
            self._changes.modules_changed()

    def forward_came_before(self) -> None:
        """Open the step of a forward that ended before its hooks were attached."""
        self._mode.is_evaluation = not self._model.training
        self._look_at_weights()
        self.lifecycle.forward_opens(counts=True)

    def first_step_came_before(self, first: FirstStep) -> None:
        """Record a step that was over before the hooks were attached."""
        self._hand_steps.repeat(first)

    def _look_at_weights(self) -> None:
        """Close the step before if the training has moved the weights itself, and take in tensors that replace them."""
        if self._hand_steps.is_watching:
            self._changes.weights_may_be_others()
            self._hand_steps.forward_begins()

    def backward_begins(self, roots: Any) -> None:
        """Note that a backward pass of the process starts from these tensors."""
        self._look_at_tensors(roots)
        if (current := self._current).is_idle:
            self._idle_pass(roots)
            return
        if self.opening.was_compiled:  # of that forward only this is known
            self._module_sites.is_compiled = True
            self.opening.was_compiled = self._recorder.expects_activations = False
            self.lifecycle.forward_begins()
        if current.thread != get_ident():  # whose gradients may come and go while they are read
            return
        if self._unseen and not current.is_open and not is_aside():  # of that forward nothing was seen
            self._recorder.expects_activations = False
            self.lifecycle.forward_opens(counts=True)
        elif not current.is_open and not is_aside():
            self._unopened = self._losses.loss_of(roots)  # of a model in evaluation mode; a step will tell
            self.learners.backward_begins(is_opened=False)
        if not self.lifecycle.backward_begins(partial(self._losses.loss_of, roots)):
            return
        if self._facts.is_listening:
            accumulation = self._facts.accumulation
            accumulation.backward_begins(current.root, place=calling_place() if accumulation.asks_for_places else None)
        if self.kind.is_looking:
            self.kind.backward_begins(only_scalar(roots))
        self.learners.backward_begins()

    def _look_at_tensors(self, roots: Any) -> None:
        """Do what a forward does of a training without an optimizer, of which no forward is seen."""
        if self._unseen and not self._view.optimizers and not is_aside():
            renew(self._model, roots)
            self._look_at_weights()

    def _idle_pass(self, roots: Any) -> None:
        """Count a pass that is not recorded, where the weights that it moves show the end of its step."""
        if self.writes_weights:
            self._hand_steps.idle_pass()
            self.backward_unrecorded(roots)

    def backward_unrecorded(self, roots: Any) -> None:
        """Keep the loss of an idle step until the next one; a run ends with the loss of its last step."""
        current, last = self._current, self._recorder.last_loss
        is_again = self.steps.is_inside and last.step == current.step  # of a closure the first pass counts
        if current.thread == get_ident() and not is_again and not is_aside():
            last.add(current.step, self._losses.kept(roots))

    def backward_ends(self) -> None:
        """Note that the backward pass is over."""
        if not self._current.is_idle and self._current.thread == get_ident():
            self._recorder.backward_ends()
            if len(self._view.optimizers) > 1:
                self.learners.backward_ends(self._current.root, unopened=self._unopened)
            elif not self._view.optimizers and self._current.saw_backward and self._hand_steps.is_watching:
                self._hand_steps.backward_ends()
            if not self._current.has_recorded:
                self._hand_steps.unstepped_pass()

    def gradients_asked(self, roots: Any, inputs: Any, create_graph: bool = False) -> None:
        """Note that gradients of a value are asked for, without a backward pass that adds them to the parameters'."""
        given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
        current = self._current
        if self.kind.is_looking:
            self.kind.gradients_asked(given, create_graph=create_graph)
        is_idle = current.is_idle and not self.writes_weights
        if is_idle or is_aside() or current.thread != get_ident() or only_plain(roots) is None:
            return
        if not self._view.optimizers and self._hand_steps.is_watching:
            self._look_at_tensors(given)
            if self._hand_steps.concerns(given):
                self.backward_begins(roots)
        elif not current.saw_backward and any(
            one is parameter for one in given[:1] for parameter in self._view.parameters
        ):
            self._unopened = self._losses.loss_of(roots)

    def gradients_given(self, inputs: Any, gradients: Any) -> None:
        """Note that the gradients that were asked for are there."""
        if self._view.optimizers or not self._current.saw_backward:
            return
        given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
        if self._hand_steps.is_watching and self._hand_steps.concerns(given):
            self.backward_ends()

    def around_backward(self, roots: Any) -> Sequence[AbstractContextManager[Any]]:
        """Return the contexts that the backward pass runs inside of."""
        if self._tracer is None or not self._current.is_open or self._current.thread != get_ident():
            return ()
        return (self._tracer.backward(roots, self._losses.known(roots)),)

    def loss_scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Remember what the loss was before it was scaled."""
        if self._current.is_idle:
            self._losses.scaled_unrecorded(loss, scaled)
        else:
            self._losses.scaled(loss, scaled, scaler)

    def scaler_steps(self, optimizer: Any) -> None:
        """Note how often optimizers have stepped, before a scaler may keep one of them from that."""
        self.take_scaled(optimizer)
        self._steps_before = self.steps.count

    def scaler_stepped(self, optimizer: Any, scale: Callable[[], float]) -> None:
        """Close the step as skipped if the scaler has kept the optimizer from stepping."""
        is_watched = any(optimizer is watched for watched in self._view.optimizers)
        if is_watched and self.steps.count == self._steps_before:
            self.lifecycle.step_skipped(optimizer, float(scale()))

    def _forward_opens(self, module: Any, inputs: Any, keywords: Mapping[str, Any]) -> None:
        """Note a forward of the model, unless a backward pass computes it again, or it makes frozen targets."""
        if current_graph_task_id() != -1:
            return
        is_a_target = module is not self._model and not torch.is_grad_enabled()
        if is_a_target and not any(parameter.requires_grad for parameter in module.parameters()):
            return
        self.forward_begins(module)
        if self.kind.is_looking:
            self.kind.forward_begins((*inputs, *keywords.values()), is_recording=torch.is_grad_enabled())
        if not torch.is_grad_enabled() and self._model.training and is_first_of_two():
            self._recorder.forward_begins()

    def _before_step(self) -> None:
        if self._unopened is not None:
            self._take_unopened()
        if self._tracer is not None:
            self._tracer.rest()
        self._facts.before_step()
        for ranks in self.ranks:
            ranks.before_step()
        self._changes.before_step()

    def _take_unopened(self) -> None:  # a pass that came from no forward of the training, now that a step uses it
        loss, self._unopened = self._unopened, None
        if not self._current.saw_backward:
            self._recorder.backward_begins(loss)
            self._mode.is_evaluation = not self._model.training

    def _step_ends(self, passes: int) -> None:
        if len(self._view.optimizers) > 1:
            self.learners.step_ends()
        if self.kind.is_looking:
            self.kind.step_ends()
        self._facts.step_ends(passes)
        for check in self._checks:
            if self._current.step >= check.wants_end_of:
                check.step_ends(self._current.step)
        for ranks in self.ranks:
            ranks.step_ends(passes)
        if not self._order.is_known:
            self._order.finish()
            self._order.step_ends()
