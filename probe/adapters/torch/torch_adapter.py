"""The adapter of PyTorch: a module and its optimizers, watched through torch's own hooks."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import torch
import torch.distributed as distributed

from ....storage.run_info import Structure
from ...errors import ConfigError, NotWatchable
from ...hooks.batch_hooks import BatchHooks
from ...hooks.idle_hooks import Several
from ...hooks.output_hooks import OutputHooks
from ...kernels.device import DeviceQueue
from ...recording.recorder import Recorder
from ...tensor_access import ForwardHook, HookHandle
from ..call_order import CallOrder, groups_of, structure_of
from ..parameter_selection import NewParts, Selection
from .torch_adoption import Adoption
from .torch_collectives import CommunicationHooks
from .torch_facts import TorchFacts
from .torch_hooks import Hook, counts_of
from .torch_module_hooks import TorchModuleHooks, watch_entrances
from .torch_operators import TorchTracer
from .torch_parameters import TorchView, describe, optimizer_infos
from .torch_patches import add_listener, remove_listener, wake_listener
from .torch_ranks import watch_ranks
from .torch_sites import ModuleSites, owners_of, parameters_of
from .torch_tensors import ACCESS
from .torch_training import TorchChanges, TorchTraining, without_wrapper


def follow_calls(module_sites: ModuleSites, known: Callable[[], None]) -> CallOrder:
    """Follow the order of the modules from the next forward on; call `known` when it is known."""

    def register(module: torch.nn.Module, hook: ForwardHook) -> HookHandle:
        """Register a forward hook that sees keyword arguments among the inputs; none on a hidden module."""
        if not module_sites.is_visible(module):
            return Several(())
        handle: HookHandle = module_sites.hooked(module).register_forward_hook(
            Hook(lambda called, inputs, options, output: hook(called, (inputs, options), output)), with_kwargs=True
        )
        return handle

    return CallOrder(
        module_sites.modules, ACCESS, register=register, children=lambda module: module.children(), known=known
    )


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
    """

    checkpoint_suffix = SUFFIX

    def __init__(self, model: object, optimizers: tuple[object, ...] = ()) -> None:
        if not isinstance(model, torch.nn.Module):
            raise NotWatchable(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the module itself")
        if isinstance(model, torch.jit.ScriptModule):
            raise NotWatchable(
                f"model must be a torch.nn.Module that Python calls, got a {type(model).__name__} of torch.jit: "
                "nothing of its calls is seen; watch the module before torch.jit.trace or torch.jit.script, or the "
                "module around a traced one"
            )
        for optimizer in optimizers:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise NotWatchable(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        self.model = model
        self.view = TorchView(self._report)
        self.framework = f"torch {torch.__version__}"
        self.structure_version = 0
        self._optimizers = tuple(without_wrapper(optimizer) for optimizer in optimizers)
        self._module_sites = ModuleSites(model)
        self._handles: list[HookHandle] = []

    def modules(self) -> Mapping[str, torch.nn.Module]:
        """Return the modules by site."""
        return self._module_sites.modules

    def attach(self, recorder: Recorder) -> None:
        """Attach every hook.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
            NotWatchable: A part of the model takes no hooks.
        """
        _check_scripted(self._module_sites.modules)
        self._recorder, module_sites, view = recorder, self._module_sites, self.view
        recorder.device_results.device = DeviceQueue()
        self._check_refusal(recorder)
        named = dict(parameters_of(self.model))
        self._selection = Selection(module_sites.modules, view, recorder)
        sites = self._selection.begin(named)
        self._order = follow_calls(module_sites, self._structure_changes)
        for site, hidden in module_sites.compiled.items():
            recorder.event("compiled", site, modules=hidden)
        output_hooks = OutputHooks(recorder, ACCESS, partial(getattr, self.model, "training"), counts_of(self.model))
        changed = self._structure_changes
        facts = TorchFacts(
            self.model, module_sites.modules, view, recorder, counts=output_hooks.counts, changed=changed
        )
        self._handles.append(facts)
        self._hooks = hooks = TorchModuleHooks(recorder, module_sites, output_hooks, self.model)
        parts = NewParts(module_sites.modules, view, recorder, self._order, facts)
        changes = TorchChanges(self.model, module_sites, view, hooks, parts, changed)
        self._training = training = TorchTraining(
            self.model, module_sites, view, recorder, output_hooks, facts=facts, order=self._order, changes=changes
        )
        batches = BatchHooks(recorder, ACCESS, output_hooks.counts)
        see_batch = batches.hook() if batches.is_wanted else None
        self._handles.append(
            watch_entrances(recorder, module_sites, training.opening, see_batch, may_rest=not hooks.sees_inputs)
        )
        hooks.begin(sites)
        self._adoption = Adoption(self.model, view, training.steps, recorder, changed)
        self._handles.append(self._adoption)
        self._adoption.take(self._optimizers)
        self._optimizers = ()  # so that a replaced optimizer and its state can be freed
        if recorder.config.nan_trace:
            tracer = TorchTracer(self.model, recorder)
            training.trace(tracer)
            self._handles.append(tracer)
        hooks.watch_inside(sites, named)
        self._join_the_ranks(recorder)
        add_listener(training)
        recorder.due.subscribe(lambda: wake_listener(training, not recorder.current.is_idle), of=frozenset())

    def detach(self) -> None:
        """Remove every hook."""
        if hasattr(self, "_training"):
            remove_listener(self._training)
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
        named = ((site, getattr(module, name)) for site, module, name in owners_of(self._module_sites.modules))
        optimizers = self.view.optimizers
        return structure_of(
            self._order, named, optimizer_infos(optimizers), groups=groups_of(optimizers), describe=describe
        )

    def save_state(self, path: Path) -> None:
        """Save the model and its optimizers into a file for `torch.load`."""
        save_state(path, self.model, self.view.optimizers)

    def forward_begins(self) -> None:
        """Note a call of the model that began before its hooks were attached."""
        self._training.forward_begins()

    def closure_evaluated(self, optimizer: torch.optim.Optimizer) -> None:
        """Note the first closure evaluation of an optimizer step that began before `attach`."""
        self._adoption.closure_evaluated(optimizer)

    def step_done(self) -> None:
        """Close the step of a loop without an optimizer."""
        self._training.lifecycle.step_done()

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
            communication = CommunicationHooks(recorder)
            communication.attach()
            self._handles.append(communication)
        self._training.ranks = watch_ranks(recorder, self.view)
        self._handles += self._training.ranks

    def _structure_changes(self) -> None:
        self.structure_version += 1

    def _report(self, site: str, reason: str) -> None:
        self._recorder.event("monitor_fault", site, collector="gradient", error=reason)


def _check_scripted(modules: Mapping[str, torch.nn.Module]) -> None:
    """Raise NotWatchable where a part takes no hooks."""
    for site, part in modules.items():
        if isinstance(part, torch.jit.RecursiveScriptModule):
            raise NotWatchable(
                f"{site} of the model is made by torch.jit.script, which takes no hooks; watch the model before this "
                "part of it is scripted, or trace the part with torch.jit.trace"
            )
