"""The adapter of MindSpore: a cell and its optimizers, watched through the hooks of PyNative mode."""

import logging
from collections.abc import Mapping
from functools import partial
from operator import methodcaller
from pathlib import Path

import mindspore

from ....storage.run_info import Structure
from ...checks.padding_sides import PaddingSides
from ...errors import ConfigError, NotWatchable
from ...hooks.batch_hooks import BatchHooks
from ...hooks.output_hooks import OutputHooks
from ...recording.recorder import Recorder
from ...tensor_access import HookHandle
from ..call_order import CallOrder, structure_of
from ..parameter_selection import Selection
from .mindspore_hooks import CellEvents, MindSporeHooks, RetiringHooks, add_listener, remove_listener, watch_entrance
from .mindspore_tensors import ACCESS
from .mindspore_view import MindSporeView, describe, is_optimizer, optimizer_infos, stepping_groups


class MindSporeAdapter:
    """Watches one MindSpore model in PyNative mode.

    Gradients are those that the optimizer is called with; the loss is the result of the function that was
    differentiated, as it returned it. Compiled cells (`@jit`) call no hooks inside: they are seen from outside only.

    Args:
        model: The cell whose call is the model's.
        optimizers: Those that step its parameters, of `nn`, `mint.optim` or `experimental.optim`.

    Raises:
        NotWatchable: Something else was handed over, or MindSpore is in graph mode.
    """

    checkpoint_suffix = ".ckpt"

    def __init__(self, model: object, optimizers: tuple[object, ...] = ()) -> None:
        if not isinstance(model, mindspore.nn.Cell):
            raise NotWatchable(f"model must be a mindspore.nn.Cell, got {type(model).__name__}; pass the cell itself")
        for optimizer in optimizers:
            if not is_optimizer(optimizer):
                raise NotWatchable(f"optimizer must be a MindSpore optimizer, got {type(optimizer).__name__}")
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise NotWatchable(
                "a MindSpore model is watched in PyNative mode, got graph mode, whose compiled cells call no hooks; "
                "call mindspore.set_context(mode=mindspore.PYNATIVE_MODE) before"
            )
        self.model = model
        self.view = MindSporeView(self._report)
        self.framework = f"mindspore {mindspore.__version__}"
        self.structure_version = 0
        self._optimizers = optimizers
        self._cells: dict[str, mindspore.nn.Cell] = dict(model.cells_and_names())
        self._handles: list[HookHandle] = []

    def modules(self) -> Mapping[str, mindspore.nn.Cell]:
        """Return the cells by site."""
        return self._cells

    def attach(self, recorder: Recorder) -> None:
        """Attach every hook.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
            ConfigError: The configuration asks for what this framework cannot give.
        """
        _check(recorder)
        self._recorder, model, view = recorder, self.model, self.view
        named = dict(model.parameters_and_names())
        self._selection = Selection(self._cells, view, recorder)
        sites = self._selection.begin(named)
        following = RetiringHooks(recorder.guard)
        self._handles.append(following)
        children, known = methodcaller("name_cells"), self._structure_changes
        self._order = CallOrder(self._cells, ACCESS, register=following.register, children=children, known=known)
        output_hooks = OutputHooks(recorder, ACCESS, partial(getattr, model, "training"))
        self._hooks = hooks = MindSporeHooks(recorder, self._cells, output_hooks)
        self._events = events = CellEvents(view, recorder, output_hooks, self._order, following, self._cells)
        batches = BatchHooks(recorder, ACCESS, output_hooks.counts, PaddingSides())
        see_batch = batches.hook() if batches.is_wanted else None
        self._handles.append(watch_entrance(model, events.lifecycle.forward_begins, hooks, see_batch, recorder.guard))
        self._handles.append(hooks)
        hooks.watch(sites)
        hooks.watch_inside(named)
        for optimizer in self._optimizers:
            self._handles.append(events.steps.watch(optimizer))
        add_listener(events)
        report_compiled(self._cells, recorder)

    def detach(self) -> None:
        """Remove every hook."""
        if hasattr(self, "_events"):
            remove_listener(self._events)
        if hasattr(self, "_order"):
            self._order.stop()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def reselect(self) -> None:
        """Move the hooks to the cells and parameters that the configuration now selects.

        Raises:
            SiteNotFound: A pattern matches nothing; the hooks stay as they are.
        """
        self._hooks.watch(self._selection.change(dict(self.model.parameters_and_names())))

    def structure(self) -> Structure:
        """Return cells in the order of their first calls, all parameters, the optimizers."""
        named, optimizers = self.model.parameters_and_names(), self.view.optimizers
        return structure_of(
            self._order, named, optimizer_infos(optimizers), groups=stepping_groups(optimizers), describe=describe
        )

    def save_state(self, path: Path) -> None:
        """Save the parameters of the model and of its optimizers into the file."""
        cells = [self.model, *self.view.optimizers]
        parameters = {parameter.name: parameter for cell in cells for parameter in cell.get_parameters()}
        mindspore.save_checkpoint(
            [{"name": name, "data": parameter} for name, parameter in parameters.items()], str(path)
        )

    def step_done(self) -> None:
        """Close the step of a loop without a watched optimizer."""
        self._events.step_done()

    def _structure_changes(self) -> None:
        self.structure_version += 1

    def _report(self, site: str, reason: str) -> None:
        self._recorder.event("monitor_fault", site, collector="gradient", error=reason)


def _check(recorder: Recorder) -> None:
    if recorder.config.nan_trace:
        raise ConfigError("nan_trace follows operations of PyTorch and of the engine, not of MindSpore; leave it out")
    if recorder.refusal == "skip":
        raise ConfigError("on_finding: skip_step cannot keep an optimizer of MindSpore from stepping; use stop")


_log = logging.getLogger(__name__)
_COMPILED_CELL = "the cell is compiled by @jit: it is seen from outside, the cells inside it are not observed"


def report_compiled(cells: Mapping[str, mindspore.nn.Cell], recorder: Recorder) -> None:
    """Log a warning and record an event for each compiled cell."""
    for site, cell in cells.items():
        if getattr(cell.construct, "__wrapped_by_jit__", False):
            _log.warning("%s: %s", site or "(model)", _COMPILED_CELL)
            recorder.event("monitor_fault", site, collector="activation", error=_COMPILED_CELL)
