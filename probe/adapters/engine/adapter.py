"""The adapter of our own engine: a cell and its optimizers, watched through the engine's hooks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import ref

from ....framework.compiler.observers import observe_cells
from ....framework.hooks import SKIP_STEP, register_backward_start_hook, register_loss_scaled_hook
from ....framework.nn.cell import Cell
from ....framework.optim import Optimizer
from ....framework.serialization import save_checkpoint
from ....framework.tensor import Tensor
from ....framework.train.state import save_training_state
from ....storage.records import Json
from ....storage.run import OptimizerInfo, ParameterInfo, Structure
from ...collectors.collector import COLLECTORS
from ...configuration.select import choose_sites
from ...errors import NotWatchable
from ...recording.recorder import Recorder
from ...taps.batch_hooks import BatchTaps
from ...taps.forward import ForwardTaps
from ...taps.handles import Several
from ...taps.inputs import InputTaps
from ...taps.local_gradients import watch_local_gradients
from ...taps.noise_hooks import watch_micro_batches
from ..course import Course
from ..groups import check_belongs, groups_of
from ..trace import CallTrace
from .facts import EngineFacts
from .quantities import watch_quantities
from .sites import CellSites, owners_of
from .trace import EngineTracer
from .view import ACCESS, EngineView

#: Sites that an event names.
_MOST_NAMED = 16


class EngineAdapter:
    """Watches one engine model.

    Args:
        model: The cell whose call is the model's.
        optimizers: Those that step its parameters.
    """

    framework = "mindscope"
    checkpoint_suffix = ".safetensors"

    def __init__(self, model: Any, optimizers: tuple[Any, ...] = ()) -> None:
        if not isinstance(model, Cell):
            raise NotWatchable(f"model must be a Cell, got {type(model).__name__}; pass the cell itself")
        for optimizer in optimizers:
            if not isinstance(optimizer, Optimizer):
                raise NotWatchable(f"optimizer must be an engine optimizer, got {type(optimizer).__name__}")
        self.model = model
        self.view = EngineView()
        self.structure_version = 0
        self._given = optimizers
        self._places = CellSites(model)
        self._cells = self._places.cells
        self._handles: list[Any] = []
        self._inside: list[Any] = []  # handles on cells and parameters, made anew when the model gets others
        self._sites: dict[str, Any] = {}
        self._knows_order = False
        self._unscaled: tuple[Any, float, float] | None = None
        self._tracer: EngineTracer | None = None

    def modules(self) -> Mapping[str, Any]:
        """The cells by site."""
        return self._cells

    def attach(self, recorder: Recorder) -> None:
        """Puts every hook on.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
        """
        self._recorder, self._current = recorder, recorder.current
        named = dict(self.model.parameters_and_names())
        sites, names = choose_sites(self._cells, list(named), recorder.config)
        self.view.add((name, named[name]) for name in names)
        self._trace = self._traced()
        self._taps = ForwardTaps(recorder, ACCESS, lambda: self.model.training)
        self.course = Course(recorder, self.view, self._taps, before_step=self._look, at_end=self._at_end)
        self._facts = EngineFacts(
            self.model, self._cells, self.view, recorder, counts=self._taps.counts, changed=self._structure_changes
        )
        self._handles.append(self._facts)
        self._handles.append(self.model.register_forward_pre_hook(self._forward_begins))
        batches = BatchTaps(recorder, ACCESS, self._taps.counts)
        if batches.is_wanted:
            self._handles.append(self.model.register_forward_pre_hook(batches.hook()))
        if recorder.config.nan_trace:
            self._tracer = EngineTracer(self.model, recorder)
        self._inputs = InputTaps(recorder, ACCESS, self._taps.counts)
        self._watch(sites)
        self._watch_inside(sites, named)
        self._handles.append(register_backward_start_hook(self._backward_begins))
        self._handles.append(register_loss_scaled_hook(self._loss_scaled))
        for optimizer in self._given:
            check_belongs(optimizer, named.values(), self.model)
            self.view.optimizers.append(optimizer)
            self._handles.append(optimizer.register_step_pre_hook(self._before_step))
            self._handles.append(optimizer.register_step_post_hook(lambda one, _: self.course.after_step(one)))
            self._handles.append(optimizer.register_step_skipped_hook(self._step_skipped))

    def detach(self) -> None:
        """Takes every hook off."""
        for handle in (*self._handles, *self._inside, *self._sites.values()):
            handle.remove()
        self._handles, self._inside = [], []
        self._sites = {}
        if self._tracer is not None:
            self._tracer.remove()
            self._tracer = None
        if hasattr(self, "_trace"):
            self._trace.stop()

    def reselect(self) -> None:
        """Nothing; hooks are on the cells that the configuration now picks, and of the parameters those are recorded.

        Raises:
            SiteNotFound: A pattern matches nothing; the hooks stay as they are.
        """
        named = dict(self.model.parameters_and_names())
        sites, names = choose_sites(self._cells, list(named), self._recorder.config, is_under_way=True)
        self._watch(sites)
        self.view.choose((name, named[name]) for name in names)

    def _watch(self, sites: Sequence[str]) -> None:
        for site in [site for site in self._sites if site not in set(sites)]:
            self._sites.pop(site).remove()
        for site in sites:
            if site not in self._sites:
                cell = self._cells[site]
                handles = [cell.register_forward_hook(self._taps.hook(site))]
                if self._inputs.is_wanted:
                    handles.append(cell.register_forward_pre_hook(self._inputs.hook(site)))
                self._sites[site] = Several(handles)

    def _watch_inside(self, sites: Sequence[str], named: Mapping[str, Any]) -> None:
        """Puts on what looks at single parameters, at cells for what they are, and inside of compiled functions."""
        for handle in self._inside:
            handle.remove()
        sites_of = {id(cell): site for site, cell in self._cells.items()}
        taps, watched = self._taps, self._sites
        self._inside = [
            observe_cells(
                lambda _, cell: sites_of.get(id(cell)) in watched,
                lambda _, cell, call, index: taps.gradient_tap(sites_of[id(cell)], call, f"[{index}]" if index else ""),
            ),
            *watch_local_gradients(named.items(), ACCESS, self._recorder),
            *watch_micro_batches(named.items(), ACCESS, self._recorder),
            *watch_quantities(self._recorder, taps.counts, self._cells, sites),
        ]

    def structure(self) -> Structure:
        """Cells in the order of their first calls, all parameters, the optimizers."""
        return Structure(
            self._trace.modules(lambda cell: cell.name_cells()),
            self._parameters(),
            tuple(
                OptimizerInfo(type(one).__name__, tuple(_options(group) for group in one.param_groups))
                for one in self.view.optimizers
            ),
            tuple(name for name, entry in COLLECTORS.items() if entry.columns),
        )

    def save_state(self, path: Path) -> None:
        """Nothing; the file holds what `load_training_state` takes; the parameters where there is not one optimizer."""
        if len(self.view.optimizers) == 1:
            save_training_state(path, self.model, self.view.optimizers[0])
        else:
            save_checkpoint(self.model, path)

    def step_done(self) -> None:
        """Closes the step of a loop without a watched optimizer."""
        self.view.given = None
        self.course.step_done()

    def _forward_begins(self, *_: object) -> None:
        if not self._current.is_idle:
            self._facts.facts.forward_begins()
        self.course.forward_begins()

    def _look(self) -> None:
        """Takes in what joined since: parameters and cells that were put in later."""
        self._facts.facts.before_step()
        if not self._places.has_changed():
            return
        changed, named = self._places.look(), dict(self.model.parameters_and_names())
        sites, names = choose_sites(self._cells, list(named), self._recorder.config, is_late=True)
        self.view.exchange((name, named[name]) for name in names)
        self.view.add((name, named[name]) for name in names)
        self._structure_changes()
        self._take_in(sites, named, changed)

    def _take_in(self, sites: Sequence[str], named: Mapping[str, Any], changed: Collection[str]) -> None:
        """Hooks go on cells that are new, and off those that are gone; the next forward tells who feeds whom."""
        self._watch([site for site in sites if site not in changed])
        self._watch(sites)
        self._watch_inside(sites, named)
        if not changed:
            return
        self._facts.facts.modules_changed()
        self._trace.stop()
        self._trace, self._knows_order = self._traced(), False
        told: list[Json] = [*sorted(changed)[:_MOST_NAMED]]
        self._recorder.event("modules_changed", sites=told, count=len(changed))

    def _traced(self) -> CallTrace:
        return CallTrace(self._cells, ACCESS, lambda cell, hook: cell.register_forward_hook(hook))

    def _structure_changes(self) -> None:
        self.structure_version += 1

    def _backward_begins(self, root: Tensor) -> None:
        if self._current.is_idle:
            return
        if self._tracer is not None:
            self._tracer.backward_begins(self._loss_of(root))
        if self.course.backward_begins(lambda: self._loss_of(root)):
            self._facts.backward_begins(root)

    def _loss_scaled(self, loss: Tensor, scaled: Tensor, scale: float) -> None:
        if loss.size == 1 and not self._current.is_idle:
            self._unscaled = (ref(scaled), float(loss.numpy().item()), scale)

    def _loss_of(self, root: Tensor) -> float | None:
        if root.size != 1:
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            self._current.loss_scale = self._unscaled[2]
            return self._unscaled[1]
        return float(root.numpy().item())

    def _before_step(self, optimizer: Any, gradients: Any) -> object:
        if self._current.is_idle and len(self.view.optimizers) == 1:
            return None
        self.view.given = gradients
        return SKIP_STEP if self.course.before_step(optimizer) else None

    def _step_skipped(self, optimizer: Any, loss_scale: float) -> None:
        self.view.given = optimizer.gradients()
        self.course.step_skipped(optimizer, loss_scale)

    def _at_end(self) -> None:
        self.view.given = None
        self._facts.facts.step_ends(self.course.passes)
        if self._trace.is_complete and not self._knows_order:
            self._knows_order = True
            self._structure_changes()

    def _parameters(self) -> tuple[ParameterInfo, ...]:
        groups = groups_of(self.view.optimizers)
        named = ((site, getattr(cell, name)) for site, cell, name in owners_of(self._cells))
        storages: dict[int, int] = {}
        return tuple(
            ParameterInfo(
                name,
                one.shape,
                one.dtype.name,
                one.requires_grad,
                next(iter(groups.get(id(one), ())), None),
                storages.setdefault(one.numpy().ctypes.data, len(storages)),
                groups.get(id(one), ())[1:],
            )
            for name, one in named
        )


def _options(group: Mapping[str, Any]) -> dict[str, Json]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in _plain(group.items())}


def _plain(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    return (one for one in items if one[0] != "params" and isinstance(one[1], bool | int | float | str | tuple | None))
