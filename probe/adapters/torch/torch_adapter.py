"""The adapter of PyTorch: a module and its optimizers, watched through torch's own hooks."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import torch
import torch.distributed as distributed

from ....storage.run_info import Structure
from ...checks.check_result import CheckResult
from ...checks.padding_sides import PaddingSides
from ...checks.step_direction import StepDirection
from ...errors import ConfigError, NotWatchable
from ...guard import Guard
from ...hooks.batch_hooks import BatchHooks
from ...hooks.idle_hooks import Several
from ...hooks.output_hooks import OutputHooks
from ...kernels.device import DeviceQueue
from ...recording.recorder import Recorder
from ...tensor_access import ForwardHook, HookHandle
from ..call_order import CallOrder, groups_of, structure_of
from ..parameter_selection import NewParts, Selection
from .torch_adoption import Adoption
from .torch_backward_look import BackwardLook
from .torch_checks import ALL_CHECKS, OCCASIONS, TorchChecks
from .torch_closures import without_wrapper
from .torch_collectives import CommunicationHooks
from .torch_communication import TorchCommunication
from .torch_cuda_graphs import CaptureListener
from .torch_evaluated_weights import EvaluatedWeights
from .torch_facts import TorchFacts
from .torch_fast_path import FastPath
from .torch_hook_tables import hidden_in
from .torch_hooks import Hook, TrainingMode, counts_of
from .torch_later import LaterTrainings
from .torch_module_hooks import TorchModuleHooks, watch_entrances
from .torch_networks import Program
from .torch_operators import TorchTracer
from .torch_parameters import TorchView, describe, optimizer_infos
from .torch_patches import add_listener, remove_listener, wake_listener
from .torch_ranks import watch_ranks
from .torch_raw_tensors import FirstStep
from .torch_reached import ReachedParameters
from .torch_rehearsal import Rehearsal
from .torch_resting import CopyGlances, RestingNetworks
from .torch_sites import ModuleSites, owners_of, parameters_of, takes_hooks
from .torch_step_passes import CountedPasses
from .torch_targets import TorchTargets
from .torch_tensors import ACCESS
from .torch_training import TorchChanges, TorchTraining
from .torch_turns import TurnChecks


def follow_calls(module_sites: ModuleSites, known: Callable[[], None], guard: Guard) -> CallOrder:
    """Follow the order of the modules from the next forward on; call `known` when it is known."""

    def register(module: torch.nn.Module, hook: ForwardHook) -> HookHandle:
        """Register a forward hook that sees keyword arguments among the inputs; none on a hidden module."""
        if not module_sites.is_visible(module):
            return Several(())
        handle: HookHandle = hidden_in(module_sites.hooked(module)).register_forward_hook(
            Hook(lambda called, inputs, options, output: hook(called, (inputs, options), output), guard),
            with_kwargs=True,
        )
        return handle

    return CallOrder(
        module_sites.modules, ACCESS, register=register, children=lambda module: module.children(), known=known
    )


_log = logging.getLogger(__name__)
SUFFIX = ".pt"


def save_state(path: Path, model: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Save a file for `torch.load`: `model`, a list of `optimizers` (their state dictionaries), and `rng`."""
    state = {
        "model": model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "rng": torch.get_rng_state(),
    }
    waiting = path.with_suffix(".part")
    try:
        torch.save(state, waiting)
        waiting.replace(path)
    finally:
        waiting.unlink(missing_ok=True)


class TorchAdapter:
    """Watches one torch model.

    Args:
        model: The module whose forward is the model's.
        optimizers: Those that step its parameters; none at all means whichever turns out to do so.
        expected: Optimizers that will probably step its parameters, besides whichever turns out to do so.
        listed: Modules whose parts are called instead of themselves.
        has_optimizer: Whether it is known that an optimizer holds parameters of the model; None where it is not.
        joins_late: Whether the model has been trained for a while, alone: what was trained before rests.
        is_called_unseen: Whether backward passes come without a forward that a hook has seen.
        unseen: Name of a class of a listed module whose `forward` the script calls itself; empty for none.
    """

    checkpoint_suffix = SUFFIX
    communication: TorchCommunication | None = None  # of processes that train together

    def __init__(
        self,
        model: object,
        optimizers: tuple[object, ...] = (),
        *,
        expected: tuple[torch.optim.Optimizer, ...] = (),
        listed: tuple[torch.nn.Module, ...] = (),
        has_optimizer: bool | None = None,
        joins_late: bool = False,
        is_called_unseen: bool = False,
        unseen: str = "",
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise NotWatchable(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the module itself")
        for optimizer in optimizers:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise NotWatchable(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        self.model = model
        self.view = TorchView(self._report)
        self.framework = f"torch {torch.__version__}"
        self.structure_version = 0
        self._optimizers = tuple(without_wrapper(optimizer) for optimizer in optimizers)
        self._expected = tuple(without_wrapper(optimizer) for optimizer in expected)
        self._module_sites = ModuleSites(model, listed=listed)
        self._has_optimizer, self._unseen, self._joins_late = has_optimizer, unseen, joins_late
        self._is_called_unseen = is_called_unseen or self._module_sites.has_unseen_entrances()
        self._handles: list[HookHandle] = []

    @property
    def device(self) -> str:
        """The device of the first parameter; empty without any."""
        first = next(self.model.parameters(), None)
        return "" if first is None else str(first.device)

    def modules(self) -> Mapping[str, torch.nn.Module]:
        """Return the modules by site."""
        return self._module_sites.modules

    def attach(self, recorder: Recorder) -> None:
        """Attach every hook.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
        """
        self._recorder, module_sites, view = recorder, self._module_sites, self.view
        recorder.sees_first_weights = not self._joins_late
        self._tell_what_is_scripted(recorder)
        recorder.device_results.device = DeviceQueue()
        self._check_refusal(recorder)
        named = dict(parameters_of(self.model))
        self._selection = Selection(module_sites.modules, view, recorder)
        sites = self._selection.begin(named)
        self._order = follow_calls(module_sites, self._structure_changes, recorder.guard)
        for site, hidden in module_sites.compiled.items():
            recorder.event("compiled", site, modules=hidden)
        mode = TrainingMode()
        counts = counts_of(self.model, mode)
        output_hooks = OutputHooks(recorder, ACCESS, partial(getattr, self.model, "training"), counts)
        changed = self._structure_changes
        facts = TorchFacts(
            self.model, module_sites.modules, view, recorder, counts=output_hooks.counts, changed=changed
        )
        checks = self._checks_of(recorder)
        fast_path = FastPath(module_sites.modules.values(), module_sites.entrances())
        self._handles += [fast_path, facts, *checks]
        self._hooks = hooks = TorchModuleHooks(recorder, module_sites, output_hooks, self.model)
        parts = NewParts(module_sites.modules, view, recorder, self._order, facts)
        changes = TorchChanges(self.model, module_sites, view, hooks, parts, changed)
        self._guard = guard = recorder.guard
        self._training = training = TorchTraining(
            self.model,
            module_sites,
            view,
            recorder,
            output_hooks,
            facts=facts,
            order=self._order,
            changes=changes,
            checks=checks,
            fast_path=fast_path,
            mode=mode,
            has_optimizer=self._has_optimizer,
            is_called_unseen=self._is_called_unseen,
            guard=guard,
        )
        self._handles.append(self._join_checks(training))
        batches = BatchHooks(recorder, ACCESS, output_hooks.counts, PaddingSides())
        see_batch = batches.hook() if batches.is_wanted else None
        self._handles.append(
            watch_entrances(recorder, module_sites, training.opening, see_batch, may_rest=not hooks.sees_inputs)
        )
        hooks.begin(sites)
        self._adoption = Adoption(self.model, view, training.steps, recorder, changed, guard)
        self._handles.append(self._adoption)
        training.take_scaled = self._adoption.scaler_steps
        self._adoption.take(self._optimizers, expected=self._expected)
        self._optimizers = self._expected = ()  # so that a replaced optimizer and its state can be freed
        if recorder.config.nan_trace and takes_hooks(self.model):
            tracer = TorchTracer(self.model, recorder)
            training.trace(tracer)
            self._handles.append(tracer)
        hooks.watch_inside(sites, named)
        self._join_the_ranks(recorder)
        self._listen(training)

    def _listen(self, listener: TorchTraining) -> None:
        self._listener = listener
        add_listener(listener)
        self._handles.append(CaptureListener(self._guard, self._recorder))
        current = self._recorder.current
        self._recorder.due.subscribe(
            lambda: wake_listener(listener, listener.writes_weights or not current.is_idle), of=frozenset()
        )

    def detach(self) -> None:
        """Remove every hook."""
        if hasattr(self, "_listener"):
            self._training.end()
            remove_listener(self._listener)
            self._training.forget()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if hasattr(self, "_hooks"):
            self._hooks.remove()
        if hasattr(self, "_order"):
            self._order.stop()

    def reselect(self) -> None:
        """Move the hooks to the modules and parameters that the configuration now selects.

        Raises:
            SiteNotFound: A pattern matches nothing; the hooks stay as they are.
        """
        self._hooks.watch(self._selection.change(dict(parameters_of(self.model))))

    def structure(self) -> Structure:
        """Return the modules in the order of their first calls, all parameters, and the optimizers."""
        named = ((site, module._parameters[name]) for site, module, name in owners_of(self._module_sites.modules))
        optimizers = self.view.optimizers
        return structure_of(
            self._order, named, optimizer_infos(optimizers), groups=groups_of(optimizers), describe=describe
        )

    def rehearse(self, last: int, look: Callable[..., None], *, freezes: bool) -> Callable[[], bool]:
        """Repeat one of the steps up to `last` on copies; return what says whether that is over.

        Args:
            look: Called before each forward of the model, and after each backward pass.
            freezes: Whether the script speaks of frozen parameters.
        """
        sites = self._module_sites
        rehearsal = self._checks.rehearsal = Rehearsal(
            self.model,
            self.view,
            self._recorder,
            last=last,
            is_compiled=sites.is_compiled,
            freezes=freezes,
            kind=lambda: self._training.kind.name,
        )
        self._checks.wants_end_of = 0
        entrances = [one for one in sites.entrances() if type(one) is not Program]  # tensors alone are never called
        self._handles += [module.register_forward_pre_hook(Hook(look, self._guard)) for module in entrances]
        self._handles.append(BackwardLook(look, self._guard))
        return lambda: rehearsal.is_over

    def save_state(self, path: Path) -> None:
        """Save the model and its optimizers into a file for `torch.load`."""
        save_state(path, self.model, self.view.optimizers)

    def forward_begins(self) -> None:
        """Note a call of the model that began before its hooks were attached."""
        self._guard(self._training.forward_begins)()

    def backward_begins_late(self, roots: object) -> None:
        """Note a forward that came before the hooks were attached, and a backward pass that begins from these roots."""
        self._recorder.expects_activations = False
        self._guard(self._training.forward_came_before)()
        self._guard(self._training.backward_begins)(roots)

    def gradients_asked_late(self, roots: object, inputs: object) -> None:
        """Do what `backward_begins_late` does for `torch.autograd.grad`."""
        self._recorder.expects_activations = False
        self._guard(self._training.forward_came_before)()
        self._guard(self._training.gradients_asked)(roots, inputs)

    def first_step_came_before(self, first: FirstStep) -> None:
        """Record a step that was over before the hooks were attached."""
        self._recorder.expects_activations = False
        self._guard(self._training.first_step_came_before)(first)

    def closure_evaluated(self, optimizer: torch.optim.Optimizer) -> None:
        """Note a closure evaluation of an optimizer step that began before `attach`."""
        self._guard(self._adoption.closure_evaluated)(optimizer)

    def closure_goes_on(self, optimizer: torch.optim.Optimizer) -> None:
        """Note one more evaluation in a long search of such a step."""
        self._guard(self._training.steps.goes_on)(optimizer)

    def later_trainings(self) -> LaterTrainings | None:
        """Return what looks at networks that are trained behind this model; None if nobody watches it."""
        if not hasattr(self, "_listener"):
            return None
        return LaterTrainings(self.model, self._recorder, lambda: not self._module_sites.is_compiled)

    def tell_late(self, result: CheckResult) -> None:
        """Record the result of a check of what is trained beside or behind the model."""
        if hasattr(self, "_listener"):
            self._recorder.event("check", "", occasion=ALL_CHECKS, **result.data())

    def step_done(self) -> None:
        """Close the step of a loop without an optimizer."""
        self._training.lifecycle.step_done()

    def _checks_of(self, recorder: Recorder) -> tuple[TorchChecks, TorchTargets, CopyGlances]:
        sites, view = self._module_sites, self.view
        reached = ReachedParameters(self.model, lambda: view.optimizers)
        self._resting = resting = RestingNetworks(
            sites.modules, lambda: view.optimizers, recorder.guard, is_alone=self._joins_late
        )
        recorder.last_looks.append(partial(resting.training_ends, recorder, len(OCCASIONS) + 1))
        direction = StepDirection(lambda: view.optimizers)
        self._checks = TorchChecks(sites, recorder, reached=reached, resting=resting, direction=direction)
        evaluated = EvaluatedWeights(sites.entrances(), lambda: view.optimizers, recorder)
        resting.glances.join(evaluated.glance)
        self._handles.append(evaluated)
        return self._checks, TorchTargets(sites, recorder), resting.glances

    def _join_checks(self, training: TorchTraining) -> TurnChecks:
        """Let the kind of the training hear of copies, and optimizers that take turns have checks of their own."""
        self._resting.copied, learners = training.kind.copied, training.learners
        turns = TurnChecks(self.model, self._module_sites, self._recorder, self._checks, self.view.optimizers, learners)
        learners.turned = turns.step_ends
        return turns

    def _tell_what_is_scripted(self, recorder: Recorder) -> None:
        if self._unseen:
            parts = ", ".join(dict(self.model.named_children()))
            recorder.event("forward_called_directly", "", model=self._unseen, parts=parts)
        for site, hidden in self._module_sites.scripted.items():
            recorder.event("scripted", site, modules=hidden)
        if not takes_hooks(self.model):
            recorder.expects_activations = False
            _log.warning(
                "%s is made by torch.jit.script, whose calls are not seen: its parameters, gradients, updates and loss "
                "are recorded, its activations are not; for those, train the module that torch.jit.script was given",
                getattr(self.model, "original_name", "the model"),
            )

    def _check_refusal(self, recorder: Recorder) -> None:
        if recorder.refusal == "skip" and any(
            hasattr(parameter, "placements") for parameter in self.model.parameters()
        ):
            raise ConfigError(
                "on_finding: skip_step needs whole gradients on every rank, and this model's are sharded: each rank "
                "would decide for itself; use a GradScaler, or stop"
            )

    def _join_the_ranks(self, recorder: Recorder) -> None:
        if distributed.is_available() and distributed.is_initialized():
            if distributed.get_world_size() > 1:
                self.communication = TorchCommunication()
                counted = CountedPasses()
                counted.attach()
                self._handles.append(counted)
            communication = CommunicationHooks(recorder)
            communication.attach()
            self._handles.append(communication)
        self._training.ranks = watch_ranks(recorder, self.model, self.view)
        self._handles += self._training.ranks

    def _structure_changes(self) -> None:
        self.structure_version += 1

    def _report(self, site: str, reason: str) -> None:
        self._recorder.event("monitor_fault", site, collector="gradient", error=reason)
