"""The adapter of our own engine: a cell and its optimizers, watched through the engine's hooks."""

from collections.abc import Mapping
from functools import partial
from operator import methodcaller
from pathlib import Path

from ....framework.nn.cell import Cell
from ....framework.optim import Optimizer
from ....framework.optim.loss_scaling import register_loss_scaled_hook
from ....framework.serialization import save_checkpoint
from ....framework.tape import register_backward_start_hook
from ....framework.train.training_state import save_training_state
from ....storage.run_info import Structure
from ...checks.padding_sides import PaddingSides
from ...errors import NotWatchable
from ...hooks.batch_hooks import BatchHooks
from ...hooks.output_hooks import OutputHooks
from ...recording.recorder import Recorder
from ...tensor_access import HookHandle
from ..call_order import CallOrder, check_belongs, groups_of, structure_of
from ..parameter_selection import NewParts, Selection
from .engine_facts import EngineFacts
from .engine_hooks import EngineCellHooks, EngineChanges
from .engine_parameters import ACCESS, EngineView, describe, optimizer_infos
from .engine_quantities import EngineTracer
from .engine_sites import CellSites, owners_of
from .engine_training import EngineTraining


class EngineAdapter:
    """Watches one engine model.

    Args:
        model: The cell whose call is the model's.
        optimizers: Those that step its parameters.
    """

    framework = "mindscope"
    checkpoint_suffix = ".safetensors"

    def __init__(self, model: object, optimizers: tuple[object, ...] = ()) -> None:
        if not isinstance(model, Cell):
            raise NotWatchable(f"model must be a Cell, got {type(model).__name__}; pass the cell itself")
        self._optimizers: list[Optimizer] = []
        for optimizer in optimizers:
            if not isinstance(optimizer, Optimizer):
                raise NotWatchable(f"optimizer must be an engine optimizer, got {type(optimizer).__name__}")
            self._optimizers.append(optimizer)
        self.model = model
        self.view = EngineView()
        self.structure_version = 0
        self._cell_sites = CellSites(model)
        self._handles: list[HookHandle] = []

    def modules(self) -> Mapping[str, Cell]:
        """Return the cells by site."""
        return self._cell_sites.modules

    def attach(self, recorder: Recorder) -> None:
        """Attach every hook.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
        """
        model, cell_sites, view, changed = self.model, self._cell_sites, self.view, self._structure_changes
        named = dict(model.parameters_and_names())
        guard = recorder.guard
        self._selection = Selection(cell_sites.modules, view, recorder)
        sites = self._selection.begin(named)
        self._order = order = CallOrder(
            cell_sites.modules,
            ACCESS,
            register=lambda cell, hook: cell.register_forward_hook(guard(hook)),
            children=methodcaller("name_cells"),
            known=changed,
        )
        output_hooks = OutputHooks(recorder, ACCESS, partial(getattr, model, "training"))
        facts = EngineFacts(model, cell_sites.modules, view, recorder, counts=output_hooks.counts, changed=changed)
        self._handles.append(facts)
        self._hooks = hooks = EngineCellHooks(recorder, cell_sites, output_hooks)
        parts = NewParts(cell_sites.modules, view, recorder, order, facts.facts)
        changes = EngineChanges(model, cell_sites, hooks, parts, changed)
        self._training = training = EngineTraining(
            cell_sites, view, recorder, output_hooks, facts=facts, order=order, changes=changes
        )
        self._handles.append(model.register_forward_pre_hook(guard(training.forward_begins)))
        batches = BatchHooks(recorder, ACCESS, output_hooks.counts, PaddingSides())
        if batches.is_wanted:
            self._handles.append(model.register_forward_pre_hook(guard(batches.hook())))
        if recorder.config.nan_trace:
            training.tracer = EngineTracer(model, recorder)
            self._handles.append(training.tracer)
        self._handles.append(hooks)
        hooks.watch(sites)
        hooks.watch_inside(sites, named)
        self._handles.append(register_backward_start_hook(guard(training.backward_begins)))
        self._handles.append(register_loss_scaled_hook(guard(training.roots.scaled)))
        for optimizer in self._optimizers:
            check_belongs(optimizer, named.values(), model)
            self._handles.append(training.steps.watch(optimizer))

    def detach(self) -> None:
        """Remove every hook, the last one first, so that functions replaced twice are restored."""
        for handle in reversed(self._handles):
            handle.remove()
        self._handles = []
        if hasattr(self, "_order"):
            self._order.stop()

    def reselect(self) -> None:
        """Move the hooks to the cells and parameters that the configuration now selects.

        Raises:
            SiteNotFound: A pattern matches nothing; the hooks stay as they are.
        """
        self._hooks.watch(self._selection.change(dict(self.model.parameters_and_names())))

    def structure(self) -> Structure:
        """Return the cells in the order of their first calls, all parameters, and the optimizers."""
        named = ((site, getattr(cell, name)) for site, cell, name in owners_of(self._cell_sites.modules))
        optimizers = self.view.optimizers
        return structure_of(
            self._order, named, optimizer_infos(optimizers), groups=groups_of(optimizers), describe=describe
        )

    def save_state(self, path: Path) -> None:
        """Save a file for `load_training_state`; only the parameters unless there is exactly one optimizer."""
        if len(self.view.optimizers) == 1:
            save_training_state(path, self.model, self.view.optimizers[0])
        else:
            save_checkpoint(self.model, path)

    def step_done(self) -> None:
        """Close the step of a loop without a watched optimizer."""
        self._training.step_done()

    def _structure_changes(self) -> None:
        self.structure_version += 1
