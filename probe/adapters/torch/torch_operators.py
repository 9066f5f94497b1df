"""Operators of a torch model: traced to find the origin of a NaN, or profiled."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.autograd.profiler import record_function
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from ....storage.records import Json
from ...guard import Guard
from ...hooks.idle_hooks import Several
from ...nan_trace import NanTrace
from ...quantities.operator_log import Allocation, OperatorLog, OperatorSpan
from ...recording.recorder import Recorder
from ...user_line import user_line
from .torch_hook_tables import hidden_in
from .torch_hooks import Hook
from .torch_sites import ModuleSites, takes_hooks
from .torch_tensors import place_of

__all__ = ["TorchOperators"]

_MOST_NODES = 64
_MOST_LINES = 100_000
# Nodes of autograd and events of the profiler are of classes that torch does not export: they are Any.
#: Private functions of torch; without them, lines of the forward pass stay unknown.
_node_at_work: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)
_next_number: Callable[[], int] = getattr(torch._C._autograd, "_get_sequence_nr", lambda: 0)


#: The module on which the hooks of a module go.
Hooked: TypeAlias = Callable[[torch.nn.Module], torch.nn.Module]


class _Mode(TorchDispatchMode):  # type: ignore[misc]  # torch's types are not looked at
    """A dispatch mode that traces the inputs and outputs of every operation and changes none."""

    def __init__(self, trace: NanTrace, lines: "_NodeLines", guard: Guard) -> None:
        super().__init__()
        self._trace, self._node_lines, self._look = trace, lines, guard(self._trace_operation)

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Run the operation, trace it and return its result."""
        options = kwargs or {}
        result = func(*args, **options)
        self._look(func, (*args, *options.values()), result)
        return result

    def _trace_operation(self, func: Callable[..., object], given: tuple[object, ...], result: object) -> None:
        if self._trace.is_looking:
            if self._trace.phase != "backward":
                self._node_lines.note(str(func))
            inputs = (tensor for value in given for tensor in _floating(value))
            self._trace.operation(str(func), inputs, _floating(result), behind=self._node_lines.behind)


class _NodeLines:
    """The line of the forward pass that made each node of autograd, by the node's sequence number."""

    def __init__(self, trace: NanTrace, foreign: str) -> None:
        self._trace, self._foreign = trace, foreign
        self._known: dict[int, tuple[str, str, str, int]] = {}
        self._first = 0

    def begin(self) -> None:
        """Ignore nodes that were made before now."""
        self._first = _next_number()
        if len(self._known) > _MOST_LINES:
            self._known.clear()

    def note(self, operation: str) -> None:
        """Remember the line of an operation under the newest node of autograd, which is its own if it has one."""
        number = _next_number() - 1
        if number >= self._first and number not in self._known and torch.is_grad_enabled():
            site = self._trace.sites[-1] if self._trace.sites else ""
            self._known[number] = (_plain(operation.split(".")[1]), site, *user_line(self._foreign))

    def behind(self) -> dict[str, Json]:
        """Return name, site and line of the node whose backward pass is running; empty outside of one."""
        node = _node_at_work()
        if node is None:
            return {}
        name = node.name().rpartition("::")[2]
        operation, site, file, line = self._known.get(node._sequence_nr(), ("", "", "", 0))
        if operation != _plain(name.partition("Backward")[0]):
            return {"node": name}
        return {"node": name, "site": site, "file": file, "line": line}

    def forget(self) -> None:
        """Forget the nodes of the pass that has ended."""
        self._known.clear()


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


class TorchTracer:
    """Traces every operation of a model for NaN and infinity until it is removed.

    Traced are the model's forward, the operations between a forward with gradients and its backward pass, and
    `backward` itself. The tracer does not nest with the user's own dispatch modes: if one is open when the forward
    begins, nothing is traced between forward and backward, and a bad loss is described by the operations that autograd
    has recorded for it. If one was entered later, the tracer's mode stays open.
    """

    def __init__(self, model: torch.nn.Module, recorder: Recorder) -> None:
        foreign = f"{Path(torch.__file__).parent}{os.sep}"
        self.trace = NanTrace(recorder, place_of, model.parameters, (foreign,))
        self._node_lines = _NodeLines(self.trace, foreign)
        self._guard = guard = recorder.guard
        self._mode = _Mode(self.trace, self._node_lines, guard)
        self._is_open = self._is_alone = False
        self._module_sites = ModuleSites(model)
        self._sites: dict[str, Several] = {}
        self._follow(self._module_sites.modules)
        begin = hidden_in(model).register_forward_pre_hook(Hook(self._begin, guard))
        self._model = Several([begin, model.register_forward_hook(Hook(self._end, guard), always_call=True)])

    def remove(self) -> None:
        """Remove the hooks and stop tracing."""
        for handle in (self._model, *self._sites.values()):
            handle.remove()
        self.rest()

    def rest(self) -> None:
        """Pause tracing until the next forward."""
        if self._is_open and _get_current_dispatch_mode() is self._mode:
            self._is_open = False
            self._mode.__exit__(None, None, None)

    @contextmanager
    def backward(self, roots: object, loss: float | None) -> Iterator[None]:
        """Trace the operations of a backward pass that runs inside the block."""
        if loss is not None and loss - loss != 0.0:  # NaN or infinite
            self.trace.loss_is_bad(list(_operations(roots)))
        self.trace.phase = "backward"
        self.trace.sites.clear()
        self._look()
        try:
            yield
        finally:
            self.rest()

    def _follow(self, changed: Iterable[str]) -> None:
        """Move the hooks of these sites to the modules that the model has there now."""
        modules = self._module_sites.modules
        for site in changed:
            if site in self._sites:
                self._sites.pop(site).remove()
            if site in modules and self._module_sites.is_visible(modules[site]):
                module = self._module_sites.hooked(modules[site])
                enter, leave = Hook(self._entering(site), self._guard), Hook(self._left, self._guard)
                before = hidden_in(module).register_forward_pre_hook(enter, prepend=True)
                self._sites[site] = Several([before, module.register_forward_hook(leave, always_call=True)])

    def _entering(self, site: str) -> Callable[[object, object], None]:
        def enter(_module: object, _inputs: object) -> None:
            self.trace.sites.append(site)

        return enter

    def _left(self, _module: object, _inputs: object, _output: object) -> None:
        if self.trace.sites:
            self.trace.sites.pop()

    def _begin(self, _module: object, _inputs: object) -> None:
        if self._module_sites.has_changed():
            self._follow(self._module_sites.look())
        if self.trace.phase == "backward":
            self._node_lines.forget()
        self.trace.phase = "forward"
        self._look()

    def _end(self, _module: object, _inputs: object, _output: object) -> None:
        if torch.is_grad_enabled() and self._is_alone:
            self.trace.phase = "loss"
        else:
            self.rest()

    def _look(self) -> None:
        if not self._is_open:
            self._node_lines.begin()
            self._is_open, self._is_alone = True, _get_current_dispatch_mode() is None
            self._mode.__enter__()


def _floating(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _floating(part)


def _operations(root: object) -> Iterator[str]:
    """Return the names of the operations that made a tensor, nearest last, from the nodes of autograd."""
    node = root.grad_fn if isinstance(root, torch.Tensor) else None
    seen: list[str] = []
    waiting = [node] if node is not None else []
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop(0)
        seen.append(type(node).__name__.removesuffix("0").removesuffix("Backward"))
        waiting += [before for before, _ in node.next_functions if before is not None]
    return reversed(seen)


_MARK = "mindscope::"
_BACKWARD = "autograd::engine::evaluate_function"
_OPTIMIZER = "Optimizer."


class TorchOperators:
    """Profiles the operators of due steps of one model; `remove` takes everything off.

    Args:
        modules: All of the model, by site; the model itself under the empty one.
        counts: Whether a forward that runs now is to be recorded.
        hooked: Where the hooks of a module go.
    """

    def __init__(
        self, recorder: Recorder, modules: Mapping[str, torch.nn.Module], counts: Callable[[], bool], hooked: Hooked
    ) -> None:
        self._recorder, self._counts = recorder, counts
        guard = recorder.guard
        self._profiler: profile | None = None
        self._step = -1
        self._marks: list[record_function] = []
        entrance = hooked(modules[""])
        self._handles: list[Any] = []
        if takes_hooks(entrance):
            self._handles.append(hidden_in(entrance).register_forward_pre_hook(Hook(self._forward_begins, guard)))
        for site, module in modules.items():
            hooked_module = hooked(module)
            if not takes_hooks(hooked_module):
                continue
            self._handles.append(hidden_in(hooked_module).register_forward_pre_hook(Hook(self._entering(site), guard)))
            self._handles.append(hooked_module.register_forward_hook(Hook(self._leave, guard), always_call=True))
        self._handles.append(register_optimizer_step_post_hook(guard(self._stepped)))

    def remove(self) -> None:
        """Record the step in progress and remove the hooks."""
        self._end()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _forward_begins(self, _module: object, _inputs: object) -> None:
        current = self._recorder.current
        if self._profiler is not None and self._step != current.step:
            self._end()
        if self._profiler is not None or "operator" not in current.due or not self._counts():
            return
        try:
            self._profiler, self._step = _started(), current.step
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("operator", error)

    def _stepped(self, _optimizer: object, _arguments: object, _options: object) -> None:
        if self._profiler is not None and self._recorder.current.step != self._step:
            self._end()

    def _entering(self, site: str) -> Callable[[object, object], None]:
        def enter(_module: object, _inputs: object) -> None:
            if self._profiler is not None:
                mark = record_function(_MARK + site)
                mark.__enter__()
                self._marks.append(mark)

        return enter

    def _leave(self, _module: object, _inputs: object, _output: object) -> None:
        if self._marks:
            self._marks.pop().__exit__(None, None, None)

    def _end(self) -> None:
        """Stop the profiler and record what it saw as an event."""
        running, self._profiler = self._profiler, None
        if running is None:
            return
        try:
            while self._marks:
                self._marks.pop().__exit__(None, None, None)
            running.stop()
            roots = running.profiler.kineto_results.experimental_event_tree()
            log, seconds = _read(roots, self._step)
            self._recorder.event("operators", "", **log.data(seconds))
        except Exception as error:  # noqa: BLE001  as above
            self._recorder.fail("operator", error)


def _started() -> profile:
    """Start a profiler and return it.

    Raises:
        RuntimeError: Another one is.
    """
    if torch.autograd._profiler_enabled():
        raise RuntimeError("another profiler of torch is running; stop it, or record `operator` at other steps")
    found = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    found.start()
    return found


def _read(roots: list[Any], step: int) -> tuple[OperatorLog, float]:
    """Return the log of the profiler's tree of events, and how many seconds it spans."""
    first = min((event.start_time_ns for event in roots), default=0)
    last = max((event.start_time_ns + event.duration_time_ns for event in roots), default=0)
    log = OperatorLog(step, first / 1e9)
    walker = _EventWalk(first)
    for root in sorted(roots, key=lambda event: event.start_time_ns):
        walker.walk(root, log, _EventContext("", "loss", ""))
    log.allocations.sort(key=lambda allocation: allocation.at_s)
    return log, (last - first) / 1e9


class _EventContext:
    """The operator, phase and module that an event of the profiler belongs to."""

    __slots__ = ("name", "phase", "site")

    def __init__(self, name: str, phase: str, site: str) -> None:
        self.name, self.phase, self.site = name, phase, site


class _EventWalk:
    """A walk over the profiler's tree of events."""

    def __init__(self, first_ns: int) -> None:
        self._first = first_ns
        self._site_of: dict[int, str] = {}
        self._threads: dict[int, int] = {}

    def walk(self, event: Any, log: OperatorLog, around: _EventContext) -> None:
        """Add the event and those inside it to the log."""
        kind = event.tag.name
        if kind == "Allocation":
            log.allocations.append(self._allocation(event, around))
            return
        inner = self._context(event, around) if kind == "TorchOp" else around
        if inner is not around and inner.name:
            log.spans.append(self._span(event, inner))
        for child in event.children:
            self.walk(child, log, inner)

    def _context(self, event: Any, around: _EventContext) -> _EventContext:
        name, number = event.name, event.extra_fields.sequence_number
        if name.startswith(_MARK):
            return _EventContext("", "forward", name.removeprefix(_MARK))
        if name.startswith(_BACKWARD):
            return _EventContext("", "backward", self._site_of.get(number, ""))
        if name.startswith(_OPTIMIZER):
            return _EventContext("", "optimizer", "")
        if around.phase == "forward" and number >= 0:
            self._site_of[number] = around.site
        return _EventContext(name.removeprefix("aten::"), around.phase, around.site)

    def _span(self, event: Any, context: _EventContext) -> OperatorSpan:
        inside = sum(child.duration_time_ns for child in event.children if child.tag.name == "TorchOp")
        thread = self._threads.setdefault(event.start_tid, len(self._threads))
        seconds, own = event.duration_time_ns / 1e9, max(0, event.duration_time_ns - inside) / 1e9
        return OperatorSpan(
            context.name,
            context.phase,
            context.site,
            start_s=self._since(event),
            seconds=seconds,
            self_s=own,
            thread=thread,
        )

    def _allocation(self, event: Any, around: _EventContext) -> Allocation:
        fields = event.extra_fields
        return Allocation(
            self._since(event), int(fields.ptr), int(fields.alloc_size), around.name, around.phase, around.site
        )

    def _since(self, event: Any) -> float:
        return float(event.start_time_ns - self._first) / 1e9
