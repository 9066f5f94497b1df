"""Asks torch's own profiler for the operators of the steps in which that is due.

The profiler runs from the model's call to the end of the optimizer's step. Modules mark their calls in what it records;
an operator of the backward pass belongs to the module of the operator whose number in autograd's sequence it has.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile

from ...quantities.operators import Allocation, OperatorLog, Span
from ...recording.recorder import Recorder
from .hooks import Hook

__all__ = ["TorchOperators"]

_MARK = "mindscope::"
_BACKWARD = "autograd::engine::evaluate_function"
_OPTIMIZER = "Optimizer."


class TorchOperators:
    """Looks at the steps of one model from inside; `remove` takes everything off.

    Args:
        modules: All of the model, by site; the model itself under the empty one.
        counts: Whether a forward that runs now is to be recorded.
        hooked: Where the hooks of a module go.
    """

    def __init__(
        self, recorder: Recorder, modules: Mapping[str, Any], counts: Callable[[], bool], hooked: Callable[[Any], Any]
    ) -> None:
        self._recorder, self._counts = recorder, counts
        self._profiler: Any = None
        self._step = -1
        self._marks: list[Any] = []
        entrance = hooked(modules[""])
        self._handles = [entrance.register_forward_pre_hook(Hook(self._forward_begins))]
        for site, module in modules.items():
            place = hooked(module)
            self._handles.append(place.register_forward_pre_hook(Hook(self._entering(site))))
            self._handles.append(place.register_forward_hook(Hook(self._leave), always_call=True))
        self._handles.append(register_optimizer_step_post_hook(self._stepped))

    def remove(self) -> None:
        """Nothing; the step in progress is told, and the hooks are off."""
        self._end()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _forward_begins(self, _module: Any, _inputs: Any) -> None:
        current = self._recorder.current
        if self._profiler is not None and self._step != current.step:
            self._end()
        if self._profiler is not None or "operator" not in current.due or not self._counts():
            return
        try:
            self._profiler, self._step = _started(), current.step
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("operator", error)

    def _stepped(self, _optimizer: Any, _arguments: Any, _options: Any) -> None:
        if self._profiler is not None and self._recorder.current.step != self._step:
            self._end()

    def _entering(self, site: str) -> Any:
        def enter(_module: Any, _inputs: Any) -> None:
            if self._profiler is not None:
                mark = record_function(_MARK + site)
                mark.__enter__()
                self._marks.append(mark)

        return enter

    def _leave(self, _module: Any, _inputs: Any, _output: Any) -> None:
        if self._marks:
            self._marks.pop().__exit__(None, None, None)

    def _end(self) -> None:
        """What the profiler has seen becomes an event."""
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


def _started() -> Any:
    """A profiler that is running.

    Raises:
        RuntimeError: Another one is.
    """
    if torch.autograd._profiler_enabled():
        raise RuntimeError("another profiler of torch is running; look at other steps, or without it")
    found = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    found.start()
    return found


def _read(roots: list[Any], step: int) -> tuple[OperatorLog, float]:
    """The log of the profiler's tree of events, and how many seconds it spans."""
    first = min((event.start_time_ns for event in roots), default=0)
    last = max((event.start_time_ns + event.duration_time_ns for event in roots), default=0)
    log = OperatorLog(step, first / 1e9)
    places = _Places(first)
    for root in sorted(roots, key=lambda event: event.start_time_ns):
        places.walk(root, log, _Place("", "loss", ""))
    log.allocations.sort(key=lambda one: one.at_s)
    return log, (last - first) / 1e9


class _Place:
    """Where in the step an event lies: the operator around it, its phase, its module."""

    __slots__ = ("name", "phase", "site")

    def __init__(self, name: str, phase: str, site: str) -> None:
        self.name, self.phase, self.site = name, phase, site


class _Places:
    """The walk over a tree of events."""

    def __init__(self, first_ns: int) -> None:
        self._first = first_ns
        self._site_of: dict[int, str] = {}
        self._threads: dict[int, int] = {}

    def walk(self, event: Any, log: OperatorLog, around: _Place) -> None:
        """Nothing; the event and those inside of it are in the log."""
        kind = event.tag.name
        if kind == "Allocation":
            log.allocations.append(self._allocation(event, around))
            return
        here = self._place(event, around) if kind == "TorchOp" else around
        if here is not around and here.name:
            log.spans.append(self._span(event, here))
        for child in event.children:
            self.walk(child, log, here)

    def _place(self, event: Any, around: _Place) -> _Place:
        name, number = event.name, event.extra_fields.sequence_number
        if name.startswith(_MARK):
            return _Place("", "forward", name.removeprefix(_MARK))
        if name.startswith(_BACKWARD):
            return _Place("", "backward", self._site_of.get(number, ""))
        if name.startswith(_OPTIMIZER):
            return _Place("", "optimizer", "")
        if around.phase == "forward" and number >= 0:
            self._site_of[number] = around.site
        return _Place(name.removeprefix("aten::"), around.phase, around.site)

    def _span(self, event: Any, here: _Place) -> Span:
        inside = sum(child.duration_time_ns for child in event.children if child.tag.name == "TorchOp")
        thread = self._threads.setdefault(event.start_tid, len(self._threads))
        seconds, own = event.duration_time_ns / 1e9, max(0, event.duration_time_ns - inside) / 1e9
        return Span(here.name, here.phase, here.site, self._since(event), seconds, own, thread)

    def _allocation(self, event: Any, around: _Place) -> Allocation:
        told = event.extra_fields
        return Allocation(
            self._since(event), int(told.ptr), int(told.alloc_size), around.name, around.phase, around.site
        )

    def _since(self, event: Any) -> float:
        return float(event.start_time_ns - self._first) / 1e9
