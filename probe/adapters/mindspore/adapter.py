"""The adapter of MindSpore: a cell and its optimizers, watched through the hooks of PyNative mode."""

from collections.abc import Mapping
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import mindspore

from ....storage.run import Structure
from ...errors import ConfigError, NotWatchable
from ...recording.recorder import Recorder
from ...taps.batch_hooks import BatchTaps
from ...taps.forward import ForwardTaps
from ..order import CallOrder
from ..selection import Selection
from ..structure import structure_of
from .backward import add_listener, remove_listener
from .compiled import tell_compiled
from .entrances import watch_entrance
from .memory import ACCESS
from .module_hooks import ModuleHooks
from .moments import Moments
from .optimizers import is_optimizer, optimizer_infos
from .order import RetiringHooks
from .structure import describe, stepping_groups
from .view import MindSporeView


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

    def __init__(self, model: Any, optimizers: tuple[Any, ...] = ()) -> None:
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
        self._given = optimizers
        self._cells: dict[str, Any] = dict(model.cells_and_names())
        self._handles: list[Any] = []

    def modules(self) -> Mapping[str, Any]:
        """The cells by site."""
        return self._cells

    def attach(self, recorder: Recorder) -> None:
        """Puts every hook on.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
            ConfigError: The configuration asks for what this framework cannot give.
        """
        _check(recorder)
        self._recorder, model, view = recorder, self.model, self.view
        named = dict(model.parameters_and_names())
        self._selection = Selection(self._cells, view, recorder)
        sites = self._selection.begin(named)
        following = RetiringHooks()
        self._handles.append(following)
        children, known = methodcaller("name_cells"), self._structure_changes
        self._order = CallOrder(self._cells, ACCESS, register=following.register, children=children, known=known)
        taps = ForwardTaps(recorder, ACCESS, partial(getattr, model, "training"))
        self._hooks = hooks = ModuleHooks(recorder, self._cells, taps)
        self._moments = moments = Moments(view, recorder, taps, self._order, following)
        batches = BatchTaps(recorder, ACCESS, taps.counts)
        see_batch = batches.hook() if batches.is_wanted else None
        self._handles.append(watch_entrance(model, moments.course.forward_begins, hooks, see_batch))
        self._handles.append(hooks)
        hooks.watch(sites)
        hooks.watch_inside(named)
        for optimizer in self._given:
            self._handles.append(moments.steps.watch(optimizer))
        add_listener(moments)
        tell_compiled(self._cells, recorder)

    def detach(self) -> None:
        """Takes every hook off."""
        if hasattr(self, "_moments"):
            remove_listener(self._moments)
        if hasattr(self, "_order"):
            self._order.stop()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def reselect(self) -> None:
        """Nothing; hooks are on the cells that the configuration now picks, and of the parameters those are recorded.

        Raises:
            SiteNotFound: A pattern matches nothing; the hooks stay as they are.
        """
        self._hooks.watch(self._selection.change(dict(self.model.parameters_and_names())))

    def structure(self) -> Structure:
        """Cells in the order of their first calls, all parameters, the optimizers."""
        named, optimizers = self.model.parameters_and_names(), self.view.optimizers
        return structure_of(
            self._order, named, optimizer_infos(optimizers), groups=stepping_groups(optimizers), describe=describe
        )

    def save_state(self, path: Path) -> None:
        """Nothing; the file holds the parameters of the model and of its optimizers."""
        cells = [self.model, *self.view.optimizers]
        parameters = {one.name: one for cell in cells for one in cell.get_parameters()}
        mindspore.save_checkpoint([{"name": name, "data": one} for name, one in parameters.items()], str(path))

    def step_done(self) -> None:
        """Closes the step of a loop without a watched optimizer."""
        self._moments.step_done()

    def _structure_changes(self) -> None:
        self.structure_version += 1

    def _report(self, site: str, reason: str) -> None:
        self._recorder.event("monitor_fault", site, collector="gradient", error=reason)


def _check(recorder: Recorder) -> None:
    if recorder.config.nan_trace:
        raise ConfigError("nan_trace follows operations of PyTorch and of the engine, not of MindSpore; leave it out")
    if recorder.refusal == "skip":
        raise ConfigError("on_finding: skip_step cannot keep an optimizer of MindSpore from stepping; use stop")
