"""The adapter of MindSpore: a cell and its optimizers, watched through the hooks of PyNative mode."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mindspore

from ....storage.run import ParameterInfo, Structure
from ...collectors.collector import COLLECTORS
from ...configuration.select import choose_sites
from ...errors import ConfigError, NotWatchable
from ...recording.recorder import Recorder
from ...taps.batch_hooks import BatchTaps
from ...taps.forward import ForwardTaps
from ...taps.handles import Several
from ...taps.inputs import InputTaps
from ...taps.local_gradients import watch_local_gradients
from ..course import Course
from ..trace import CallTrace
from .backward import add_listener, loss_in, remove_listener
from .memory import ACCESS
from .optimizers import groups_of, is_optimizer, optimizer_infos
from .view import MindSporeView

_log = logging.getLogger(__name__)

_Cell = mindspore.nn.Cell


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

    def __init__(self, model: Any, optimizers: tuple[Any, ...] = ()) -> None:
        if not isinstance(model, _Cell):
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
        self._sites: dict[str, Any] = {}
        self._knows_order = False
        self._retired: list[Any] = []

    def modules(self) -> Mapping[str, Any]:
        """The cells by site."""
        return self._cells

    def attach(self, recorder: Recorder) -> None:
        """Puts every hook on.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
            ConfigError: The configuration asks for what this framework cannot give.
        """
        if recorder.config.nan_trace:
            raise ConfigError(
                "nan_trace follows operations of PyTorch and of the engine, not of MindSpore; leave it out"
            )
        if recorder.refusal == "skip":
            raise ConfigError("on_finding: skip_step cannot keep an optimizer of MindSpore from stepping; use stop")
        self._recorder = recorder
        named = dict(self.model.parameters_and_names())
        sites, names = choose_sites(self._cells, list(named), recorder.config)
        self.view.add((name, named[name]) for name in names)
        self._trace = CallTrace(self._cells, ACCESS, self._register_for_a_while)
        self._taps = ForwardTaps(recorder, ACCESS, lambda: self.model.training)
        self.course = Course(recorder, self.view, self._taps, before_step=_nothing, at_end=self._at_end)
        self._inputs = InputTaps(recorder, ACCESS, self._taps.counts)
        self._inputs_of_model = self._inputs.hook("") if self._inputs.is_wanted else None
        batches = BatchTaps(recorder, ACCESS, self._taps.counts)
        self._see_batch = batches.hook() if batches.is_wanted else None
        self._handles.append(self.model.register_forward_pre_hook(_Hook(self._forward_begins), with_kwargs=True))
        self._watch(sites)
        self._handles += watch_local_gradients(named.items(), ACCESS, recorder)
        for optimizer in self._given:
            self.view.optimizers.append(optimizer)
            self._handles.append(optimizer.register_forward_pre_hook(_Hook(self._before_step)))
            self._handles.append(optimizer.register_forward_hook(_Hook(self._after_step)))
        add_listener(self)
        self._tell_what_is_compiled()

    def detach(self) -> None:
        """Takes every hook off."""
        remove_listener(self)
        if hasattr(self, "_trace"):
            self._trace.stop()
        for handle in (*self._handles, *self._sites.values(), *self._retired):
            handle.remove()
        self._handles, self._retired = [], []
        self._sites = {}

    def reselect(self) -> None:
        """Nothing; hooks are on the cells that the configuration now picks, and of the parameters those are recorded.

        Raises:
            SiteNotFound: A pattern matches nothing; the hooks stay as they are.
        """
        named = dict(self.model.parameters_and_names())
        sites, names = choose_sites(self._cells, list(named), self._recorder.config, is_under_way=True)
        self._watch(sites)
        self.view.choose((name, named[name]) for name in names)

    def structure(self) -> Structure:
        """Cells in the order of their first calls, all parameters, the optimizers."""
        return Structure(
            self._trace.modules(lambda cell: cell.name_cells()),
            self._parameters(),
            optimizer_infos(self.view.optimizers),
            tuple(name for name, entry in COLLECTORS.items() if entry.columns),
        )

    checkpoint_suffix = ".ckpt"

    def save_state(self, path: Path) -> None:
        """Nothing; the file holds the parameters of the model and of its optimizers."""
        cells = [self.model, *self.view.optimizers]
        parameters = {one.name: one for cell in cells for one in cell.get_parameters()}
        mindspore.save_checkpoint([{"name": name, "data": one} for name, one in parameters.items()], str(path))

    def step_done(self) -> None:
        """Closes the step of a loop without a watched optimizer."""
        self.view.given = ()
        self.course.step_done()

    def backward_begins(self, result: Any) -> None:
        """A gradient function of the process is about to walk back from this result."""
        self.course.backward_begins(lambda: _number(loss_in(result)))

    def _watch(self, sites: Sequence[str]) -> None:
        for site in [site for site in self._sites if site not in set(sites)]:
            self._sites.pop(site).remove()
        for site in sites:
            if site not in self._sites:
                cell = self._cells[site]
                handles = [cell.register_forward_hook(_Hook(self._taps.hook(site)))]
                if self._inputs.is_wanted and site:
                    hook = _Hook(self._inputs.hook(site))
                    handles.append(cell.register_forward_pre_hook(hook, with_kwargs=True))
                self._sites[site] = Several(handles)

    def _forward_begins(self, model: Any, inputs: Any, options: Mapping[str, Any]) -> None:
        self.course.forward_begins()  # may put hooks on and off, but none before the model's own call, which runs now
        if self._inputs_of_model is not None and "" in self._sites:
            self._inputs_of_model(model, inputs, options)
        if self._see_batch is not None:
            self._see_batch(model, inputs, options)

    def _before_step(self, optimizer: Any, arguments: Sequence[Any]) -> None:
        try:
            self.view.given = tuple(arguments[0])
            self.course.update_begins(optimizer)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("gradient", error)

    def _after_step(self, optimizer: Any, _arguments: Sequence[Any], _result: Any) -> None:
        try:
            self.course.after_step(optimizer)
        except Exception as error:  # noqa: BLE001  as above
            self._recorder.fail("weight", error)

    def _at_end(self) -> None:
        for handle in self._retired:
            handle.remove()
        self._retired = []
        if self._trace.is_complete and not self._knows_order:
            self._knows_order = True
            self.structure_version += 1

    def _register_for_a_while(self, cell: Any, hook: Callable[[Any, Any, Any], None]) -> Any:
        """The handle of a forward hook that sees keyword arguments and may be removed while it is called."""
        called = _Hook(lambda one, inputs, options, output: hook(one, (inputs, options), output))
        return _Retiring(called, cell.register_forward_hook(called, with_kwargs=True), self._retired)

    def _tell_what_is_compiled(self) -> None:
        for site, cell in self._cells.items():
            if getattr(cell.construct, "__wrapped_by_jit__", False):
                message = "the cell is compiled by @jit: it is seen from outside, the cells inside it are not observed"
                _log.warning("%s: %s", site or "(model)", message)
                self._recorder.event("monitor_fault", site, collector="activation", error=message)

    def _parameters(self) -> tuple[ParameterInfo, ...]:
        groups = {
            id(parameter): (number, group_number)
            for number, optimizer in enumerate(self.view.optimizers)
            for group_number, group in enumerate(groups_of(optimizer))
            for parameter in group.parameters
        }
        storages: dict[int, int] = {}
        return tuple(
            ParameterInfo(
                name,
                tuple(one.shape),
                str(one.dtype).lower(),
                one.requires_grad,
                groups.get(id(one)),
                storages.setdefault(one.data_ptr() or id(one), len(storages)),
            )
            for name, one in self.model.parameters_and_names()
        )

    def _report(self, site: str, reason: str) -> None:
        self._recorder.event("monitor_fault", site, collector="gradient", error=reason)


def _seen_by_the_compiler(_self: object, *_arguments: object) -> None:
    return None


class _Hook:
    """A hook as an object with two faces.

    PyNative mode calls it. The compiler of `@jit` takes the source of hooks into the graph, and fails on what it cannot
    parse; it reads the source where `inspect` finds it, behind `__wrapped__`, and there is nothing to do.
    """

    __slots__ = ("work",)

    def __init__(self, work: Callable[..., None]) -> None:
        self.work = work

    def __call__(self, *arguments: Any) -> None:
        self.work(*arguments)

    __call__.__wrapped__ = _seen_by_the_compiler  # type: ignore[attr-defined]  # functions take any attribute


class _Retiring:
    """A handle that silences its hook and leaves the removal for later: MindSpore loops over the hooks' own dict."""

    def __init__(self, hook: _Hook, handle: Any, retired: list[Any]) -> None:
        self._hook, self._handle, self._retired = hook, handle, retired

    def remove(self) -> None:
        """Nothing; the hook does nothing from now on and is taken off as the step ends."""
        self._hook.work = _ignore
        self._retired.append(self._handle)


def _number(loss: Any) -> float | None:
    return None if loss is None else float(loss.asnumpy().item())


def _nothing() -> None:
    return None


def _ignore(*_: Any) -> None:
    return None
