"""Operators, attention, routers and the user's quantities inside the forwards of an engine model."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from ....framework.nn.cell import Cell
from ....framework.primitive import PRIMITIVES
from ....framework.tape import register_backward_start_hook
from ...hooks.attention_hooks import AttentionCalls
from ...hooks.idle_hooks import Several
from ...hooks.quantity_hooks import QuantityHooks
from ...hooks.unit_hooks import unit_hooks
from ...nan_trace import NanTrace
from ...quantities.operator_log import Allocation, OperatorLog, OperatorSpan
from ...recording.recorder import Recorder
from ...tensor_access import ForwardHook, HookHandle
from .engine_parameters import ACCESS, place_of_array
from .engine_sites import CellSites

__all__ = ["EngineOperators"]

_Array: TypeAlias = NDArray[np.generic]
#: Evaluates a primitive: arrays and attributes to an array or a tuple of arrays.
Evaluate: TypeAlias = Callable[..., object]


class EngineOperators:
    """Times the operators and allocations of due steps; `remove` takes everything off.

    Args:
        cells: All of the model, by site; the model itself under the empty one.
        counts: Whether a forward that runs now is to be recorded.
    """

    def __init__(self, recorder: Recorder, cells: Mapping[str, Cell], counts: Callable[[], bool]) -> None:
        self._recorder, self._counts = recorder, counts
        self._log: OperatorLog | None = None
        self._originals: dict[str, tuple[Evaluate, Evaluate]] = {}
        self._alive: dict[int, tuple[ref[NDArray[np.generic]], Allocation]] = {}
        self._sites: list[str] = []
        self._phase = ""
        self._began = 0.0
        self._keys = 0
        guard = recorder.guard
        self._note = guard(self._ran)
        self._handles = [cells[""].register_forward_pre_hook(guard(self._forward_begins))]
        for site, cell in cells.items():
            self._handles.append(cell.register_forward_pre_hook(guard(partial(self._enter, site))))
            self._handles.append(cell.register_forward_hook(guard(self._leave)))
        self._handles.append(register_backward_start_hook(guard(self._backward_begins)))

    def remove(self) -> None:
        """Record the step in progress, then remove the hooks and restore the table of primitives."""
        self._end()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _forward_begins(self, _cell: object, _inputs: object) -> None:
        current = self._recorder.current
        if self._log is not None and self._log.step != current.step:
            self._end()
        if self._log is None and "operator" in current.due and self._counts():
            self._log = OperatorLog(current.step, time.time())
            self._began = time.perf_counter()
            self._phase = "forward"
            for name, primitive in PRIMITIVES.items():
                original = primitive.evaluate
                timed = self._timed(name, original)
                self._originals[name] = (original, timed)
                primitive.evaluate = timed

    def _backward_begins(self, _root: object) -> None:
        self._phase = "backward"
        self._sites.clear()

    def _enter(self, site: str, _cell: object, _inputs: object) -> None:
        if self._log is not None:
            self._phase = "forward"
            self._sites.append(site)

    def _leave(self, _cell: object, _inputs: object, _output: object) -> None:
        if self._sites:
            self._sites.pop()
            self._phase = "forward" if self._sites else "loss"

    def _end(self) -> None:
        """Record the log as an event, and restore the primitives that nobody else has replaced meanwhile."""
        log, self._log = self._log, None
        if log is None:
            return
        for name, (original, timed) in self._originals.items():
            if PRIMITIVES[name].evaluate is timed:
                PRIMITIVES[name].evaluate = original
        self._originals = {}
        self._alive = {}
        self._sites = []
        try:
            last = max((span.start_s + span.seconds for span in log.spans), default=0.0)
            self._recorder.event("operators", "", **log.data(last))
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("operator", error)

    def _timed(self, name: str, evaluate: Evaluate) -> Evaluate:
        def run(*inputs: object, **attributes: object) -> object:
            if self._log is None:
                return evaluate(*inputs, **attributes)
            began = time.perf_counter()
            result = evaluate(*inputs, **attributes)
            self._note(name, began, time.perf_counter() - began, result, inputs)
            return result

        return run

    def _ran(self, name: str, began: float, seconds: float, result: object, inputs: tuple[object, ...]) -> None:
        """Note an operator that has run; the first one of another step ends the log."""
        log = self._log
        if log is None or log.step != self._recorder.current.step:
            self._end()
            return
        site = self._sites[-1] if self._sites else ""
        # by position: this runs between two timed operators, and keywords take longer
        log.spans.append(OperatorSpan(name, self._phase, site, began - self._began, seconds, seconds, 0))
        self._follow(log, name, site, result, inputs)

    def _follow(self, log: OperatorLog, name: str, site: str, result: object, inputs: tuple[object, ...]) -> None:
        for array in _allocated(result, inputs):
            self._keys += 1
            now = time.perf_counter() - self._began
            came = Allocation(now, self._keys, array.nbytes, name, self._phase, site)
            log.allocations.append(came)
            self._alive[came.key] = (ref(array, partial(self._freed, came)), came)

    def _freed(self, came: Allocation, _reference: object) -> None:
        log = self._log
        if log is not None and self._alive.pop(came.key, None) is not None:
            now = time.perf_counter() - self._began
            log.allocations.append(came._replace(at_s=now, size_bytes=-came.size_bytes))


def _allocated(result: object, inputs: tuple[object, ...]) -> Iterator[NDArray[np.generic]]:
    """Yield the resulting arrays that own their memory and are not among the inputs."""
    for output in result if isinstance(result, tuple) else (result,):
        if isinstance(output, np.ndarray) and output.base is None and not any(output is input_ for input_ in inputs):
            yield output


_listeners: list["_Attention"] = []
_originals: list[tuple[str, Evaluate, Evaluate]] = []


def watch_quantities(
    recorder: Recorder, counts: Callable[[], bool], cells: Mapping[str, Cell], sites: Sequence[str]
) -> Iterator[HookHandle]:
    """Attach the hooks of all quantities and yield their handles.

    Args:
        cells: By site, all of them; `sites`: those that the configuration picks.
    """

    if recorder.config.schedule("operator").is_ever_due:
        yield EngineOperators(recorder, cells, counts)  # first, so that it is the first to restore the primitives

    guard = recorder.guard

    def register(cell: Cell, hook: ForwardHook) -> HookHandle:
        return cell.register_forward_hook(guard(hook))

    yield from QuantityHooks(recorder, ACCESS, counts, register).attach(cells)
    picked = {site: cells[site] for site in sites}
    for site, hook in unit_hooks(recorder, ACCESS, counts, picked):
        yield register(cells[site], hook)
    if recorder.config.schedule("attention").is_ever_due:
        calls = AttentionCalls(recorder, counts, lambda array, index: array[index])
        attending = calls.attending(picked)
        for site in attending:
            yield cells[site].register_forward_pre_hook(guard(calls.entering(site, cells[site])))
            yield cells[site].register_forward_hook(guard(calls.leaving(site)))
        if attending:
            yield _PrimitiveListener(_Attention(guard(calls.attention), guard(calls.softmax)))


class _Attention(NamedTuple):
    """What is told of attention and of softmax."""

    attention: Callable[..., None]
    softmax: Callable[..., None]


class _PrimitiveListener:
    """Reports attention to the calls by wrapping two entries of the table of primitives."""

    def __init__(self, calls: _Attention) -> None:
        self._calls = calls
        _listeners.append(calls)
        if len(_listeners) == 1:
            _replace("attention", _report_attention)
            _replace("softmax", _report_softmax)

    def remove(self) -> None:
        """Stop listening; after the last listener, restore the primitives that nobody else has replaced."""
        if self._calls in _listeners:
            _listeners.remove(self._calls)
        while not _listeners and _originals:
            name, original, replacement = _originals.pop()
            if PRIMITIVES[name].evaluate is replacement:
                PRIMITIVES[name].evaluate = original


def _replace(name: str, report: Callable[..., None]) -> None:
    original = PRIMITIVES[name].evaluate

    def evaluate(*inputs: object, **attributes: object) -> object:
        if _listeners:
            report(*inputs, **attributes)
        return original(*inputs, **attributes)

    _originals.append((name, original, evaluate))
    PRIMITIVES[name].evaluate = evaluate


def _report_attention(query: _Array, key: _Array, _value: _Array, *mask: _Array, causal: bool, scale: float) -> None:
    last_seen = key.shape[-2] - query.shape[-2] if causal else None
    for calls in tuple(_listeners):
        calls.attention(query, key, mask[0] if mask else None, scale=scale, last_seen=last_seen)


def _report_softmax(scores: object, *, scale: float, causal: bool) -> None:
    if isinstance(scores, np.ndarray) and scores.ndim > 2:
        last_seen = scores.shape[-1] - scores.shape[-2] if causal else None
        for calls in tuple(_listeners):
            calls.softmax(scores, scale=scale, last_seen=last_seen)


class EngineTracer:
    """Traces every operation of the process for NaN and infinity; `remove()` restores the table of primitives.

    Every primitive evaluated between the model's forward and the optimizer's step is seen, those of the loss included.
    Compiled functions run kernels of their own and are not seen from inside.
    """

    def __init__(self, model: Cell, recorder: Recorder) -> None:
        self.trace = NanTrace(
            recorder, place_of_array, lambda: (parameter.numpy() for parameter in model.trainable_params()), ()
        )
        self._recorder = recorder
        self._see = recorder.guard(self._evaluated)
        self._originals = {name: primitive.evaluate for name, primitive in PRIMITIVES.items()}
        for name, primitive in PRIMITIVES.items():
            primitive.evaluate = self._shown(name, primitive.evaluate)
        self._entry_hook = model.register_forward_pre_hook(recorder.guard(self._begin))
        self._cell_sites = CellSites(model)
        self._handles: dict[str, Several] = {}
        self._follow(self._cell_sites.modules)

    def remove(self) -> None:
        """Remove every hook and restore the primitives."""
        for name, evaluate in self._originals.items():
            PRIMITIVES[name].evaluate = evaluate
        self._entry_hook.remove()
        for handle in self._handles.values():
            handle.remove()

    def backward_begins(self, loss: float | None) -> None:
        """Note that the following operations belong to the backward pass."""
        if loss is not None and not np.isfinite(loss):
            self.trace.loss_is_bad(["the loss"])
        self.trace.phase = "backward"
        self.trace.sites.clear()

    def _shown(self, name: str, evaluate: Evaluate) -> Evaluate:
        trace, current, see = self.trace, self._recorder.current, self._see

        def run(*inputs: object, **attributes: object) -> object:
            result = evaluate(*inputs, **attributes)
            if current.is_open and trace.is_looking:
                see(name, inputs, result)
            return result

        return run

    def _evaluated(self, name: str, inputs: tuple[object, ...], result: object) -> None:
        outputs = result if isinstance(result, tuple) else (result,)
        self.trace.operation(name, _floating(inputs), _floating(outputs))

    def _begin(self, _cell: object, _inputs: object) -> None:
        if self._cell_sites.has_changed():
            self._follow(self._cell_sites.look())

    def _follow(self, changed: Iterable[str]) -> None:
        """Move the hooks of these sites to the cells that the model has there now."""
        cells, guard = self._cell_sites.modules, self._recorder.guard
        for site in changed:
            if site in self._handles:
                self._handles.pop(site).remove()
            if site in cells:
                before = cells[site].register_forward_pre_hook(guard(self._entering(site)))
                self._handles[site] = Several([before, cells[site].register_forward_hook(guard(self._left))])

    def _entering(self, site: str) -> Callable[[object, object], None]:
        def enter(_cell: object, _inputs: object) -> None:
            if not site or not self.trace.sites:
                self.trace.phase = "forward"
            self.trace.sites.append(site)

        return enter

    def _left(self, _cell: object, _inputs: object, _output: object) -> None:
        if self.trace.sites:
            self.trace.sites.pop()
        if not self.trace.sites:
            self.trace.phase = "loss"


def _floating(values: Iterable[object]) -> Iterator[_Array]:
    """Yield the floating-point arrays among the values; reductions give scalars."""
    for value in values:
        if isinstance(value, np.ndarray | np.generic) and (value.dtype.kind == "f" or value.dtype.name == "bfloat16"):
            yield np.asarray(value)
