"""The hooks on the cells of an engine model; they follow the model as it changes."""

from collections.abc import Callable, Collection, Mapping, Sequence

from ....framework.compiler.observers import observe_cells
from ....framework.nn.cell import Cell
from ....framework.tensor import Parameter
from ...hooks.idle_hooks import Several, SiteHooks
from ...hooks.input_hooks import InputHooks
from ...hooks.output_hooks import OutputHooks
from ...hooks.parameter_hooks import watch_local_gradients, watch_micro_batches
from ...recording.recorder import Recorder
from ...tensor_access import HookHandle
from ..parameter_selection import NewParts
from .engine_parameters import ACCESS
from .engine_quantities import watch_quantities
from .engine_sites import CellSites


class EngineCellHooks:
    """Puts hooks on cells that the configuration picks."""

    def __init__(self, recorder: Recorder, cell_sites: CellSites, output_hooks: OutputHooks) -> None:
        self._recorder, self._cell_sites, self._output_hooks = recorder, cell_sites, output_hooks
        self._inputs = InputHooks(recorder, ACCESS, output_hooks.counts)
        self._sites = SiteHooks(recorder, self._register)
        self._inside: list[HookHandle] = []

    def watch(self, sites: Sequence[str]) -> None:
        """Watch these sites, and no others."""
        self._sites.watch(sites)

    def watch_inside(self, sites: Sequence[str], named: Mapping[str, Parameter]) -> None:
        """Attach the hooks on parameters, on special layers, and inside compiled functions.

        Args:
            named: All parameters by their sites.
        """
        for handle in self._inside:
            handle.remove()
        recorder, modules, output_hooks, watched = (
            self._recorder,
            self._cell_sites.modules,
            self._output_hooks,
            self._sites,
        )
        sites_of = {id(cell): site for site, cell in modules.items()}
        self._inside = [
            observe_cells(
                recorder.guard(lambda _, cell: sites_of.get(id(cell)) in watched, otherwise=False),
                recorder.guard(
                    lambda _, cell, call, index: output_hooks.gradient_hook(
                        sites_of[id(cell)], call, f"[{index}]" if index else ""
                    )
                ),
            ),
            *watch_local_gradients(named.items(), ACCESS, recorder),
            *watch_micro_batches(named.items(), ACCESS, recorder),
            *watch_quantities(recorder, output_hooks.counts, modules, sites),
        ]

    def exchange(self, sites: Sequence[str], changed: Collection[str], named: Mapping[str, Parameter]) -> None:
        """Attach hooks to new cells and parameters, and remove them from those that are gone.

        Args:
            changed: Sites where there is another cell than before, or none.
        """
        self.watch([site for site in sites if site not in changed])
        self.watch(sites)
        self.watch_inside(sites, named)

    def remove(self) -> None:
        """Remove all hooks for good."""
        for handle in (*self._inside, self._sites):
            handle.remove()
        self._inside = []

    def _register(self, site: str, _is_again: bool) -> Several:
        cell = self._cell_sites.modules[site]
        handles = [cell.register_forward_hook(self._recorder.guard(self._output_hooks.hook(site)))]
        if self._inputs.is_wanted:
            handles.append(cell.register_forward_pre_hook(self._recorder.guard(self._inputs.hook(site))))
        return Several(handles)


class EngineChanges:
    """Watches the cells and parameters that a model has gained since the last look.

    Args:
        changed: Called when it has got anything.
    """

    def __init__(
        self, model: Cell, cell_sites: CellSites, hooks: EngineCellHooks, parts: NewParts, changed: Callable[[], None]
    ) -> None:
        self._model, self._cell_sites, self._hooks, self._parts = model, cell_sites, hooks, parts
        self._changed = changed

    def take_in(self) -> None:
        """Watch what the configuration selects of the cells and parameters that the model has now."""
        changed, named = self._cell_sites.look(), dict(self._model.parameters_and_names())
        sites = self._parts.record(named)
        self._changed()
        self._hooks.exchange(sites, changed, named)
        if changed:
            self._parts.report_changes(changed)
