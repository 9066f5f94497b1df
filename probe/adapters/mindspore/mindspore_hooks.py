"""The hooks on a MindSpore model, its optimizers and its gradient functions, and what they report.

`value_and_grad`, `grad`, `GradOperation` and the training cells of `Model.train` all ask one executor: it is told the
result of the function when that ends, and asked for the gradients next. There is no public hook at either place, so
the two methods are patched while a monitor listens, and restored when the last one leaves.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

import mindspore
from mindspore.graph.api import _pynative_executor as executor

from ...guard import Guard
from ...hooks.idle_hooks import Several, SiteHooks
from ...hooks.input_hooks import InputHooks
from ...hooks.output_hooks import OutputHooks
from ...hooks.parameter_hooks import watch_local_gradients
from ...recording.recorder import Recorder
from ...tensor_access import ForwardHook, HookHandle, Tensor
from ..call_order import CallOrder
from ..step_lifecycle import StepLifecycle
from .mindspore_tensors import ACCESS
from .mindspore_view import MindSporeView


def _seen_by_the_compiler(_self: object, *_arguments: object) -> None:
    return None


class CellHook:
    """A hook as an object with two faces; what it raises goes to the guard.

    PyNative mode calls it. The compiler of `@jit` takes the source of hooks into the graph, and fails on what it cannot
    parse; it reads the source where `inspect` finds it, behind `__wrapped__`, and there is nothing to do.
    """

    __slots__ = ("_guard", "work")

    def __init__(self, work: Callable[..., None], guard: Guard) -> None:
        self.work, self._guard = work, guard

    def __call__(self, *arguments: object) -> None:
        """Run the hook, unless something of the monitor has raised before."""
        try:
            if not self._guard.is_off:
                self.work(*arguments)
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._guard.failed(error)

    __call__.__wrapped__ = _seen_by_the_compiler  # type: ignore[attr-defined]  # functions take any attribute


class MindSporeHooks:
    """The hooks on the cells that the configuration selects; the model's own inputs are seen by its entrance hook.

    Args:
        cells: By site.
    """

    def __init__(self, recorder: Recorder, cells: Mapping[str, mindspore.nn.Cell], output_hooks: OutputHooks) -> None:
        self._recorder, self._cells, self._output_hooks = recorder, cells, output_hooks
        self._inputs = InputHooks(recorder, ACCESS, output_hooks.counts)
        self._inputs_of_model = self._inputs.hook("") if self._inputs.is_wanted else None
        self._sites = SiteHooks(recorder, self._register)
        self._inside: list[HookHandle] = []

    def watch(self, sites: Sequence[str]) -> None:
        """Watch these sites, and no others."""
        self._sites.watch(sites)

    def watch_inside(self, named: Mapping[str, object]) -> None:
        """Hook single parameters.

        Args:
            named: All parameters by their sites.
        """
        self._inside = [*watch_local_gradients(named.items(), ACCESS, self._recorder)]

    def enter_model(self, model: object, inputs: object, options: Mapping[str, object]) -> None:
        """Observe what the model is called with."""
        if self._inputs_of_model is not None and "" in self._sites:
            self._inputs_of_model(model, inputs, options)

    def remove(self) -> None:
        """Remove all hooks for good."""
        for handle in (*self._inside, self._sites):
            handle.remove()
        self._inside = []

    def _register(self, site: str, _is_again: bool) -> Several:
        cell = self._cells[site]
        handles = [cell.register_forward_hook(CellHook(self._output_hooks.hook(site), self._recorder.guard))]
        if self._inputs.is_wanted and site:
            hook = CellHook(self._inputs.hook(site), self._recorder.guard)
            handles.append(cell.register_forward_pre_hook(hook, with_kwargs=True))
        return Several(handles)


def watch_entrance(
    model: mindspore.nn.Cell,
    opens: Callable[[], None],
    hooks: MindSporeHooks,
    batches: Callable[..., None] | None,
    guard: Guard,
) -> HookHandle:
    """Register the hook before the model's forward and return its handle.

    Args:
        opens: Called first; may add and remove hooks, but none before the call of the model itself, which is running.
        hooks: Get the model's own inputs, if these are watched.
        batches: Called with the model's arguments; None if batches are not recorded.
        guard: Takes what any of them raises.
    """

    def enter(called: object, inputs: object, options: Mapping[str, object]) -> None:
        opens()
        hooks.enter_model(called, inputs, options)
        if batches is not None:
            batches(called, inputs, options)

    handle: HookHandle = model.register_forward_pre_hook(CellHook(enter, guard), with_kwargs=True)
    return handle


class RetiringHooks:
    """Forward hooks that come off only as the step ends: MindSpore loops over the hooks' own dict."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._retired: list[HookHandle] = []

    def register(self, cell: mindspore.nn.Cell, hook: ForwardHook) -> "_Retiring":
        """Register a forward hook that sees keyword arguments among the inputs; return its handle."""
        called = CellHook(lambda module, inputs, options, output: hook(module, (inputs, options), output), self._guard)
        return _Retiring(called, cell.register_forward_hook(called, with_kwargs=True), self._retired)

    def remove(self) -> None:
        """Remove the hooks whose handles were removed from the cells."""
        for handle in self._retired:
            handle.remove()
        self._retired.clear()


class _Retiring:
    """A handle that silences its hook and leaves the removal for later."""

    def __init__(self, hook: CellHook, handle: HookHandle, retired: list[HookHandle]) -> None:
        self._hook, self._handle, self._retired = hook, handle, retired

    def remove(self) -> None:
        """Silence the hook from now on."""
        self._hook.work = _ignore
        self._retired.append(self._handle)


def _ignore(*_: object) -> None:
    return None


class OptimizerHooks:
    """The hooks on the optimizers of a training, which report to its lifecycle."""

    def __init__(self, lifecycle: StepLifecycle, view: MindSporeView, recorder: Recorder) -> None:
        self._lifecycle, self._view, self._recorder = lifecycle, view, recorder

    def watch(self, optimizer: mindspore.nn.Cell) -> Several:
        """Hook the optimizer, which joins the model's, and return the handle."""
        self._view.optimizers.append(optimizer)
        guard = self._recorder.guard
        before = optimizer.register_forward_pre_hook(CellHook(self._before, guard))
        return Several([before, optimizer.register_forward_hook(CellHook(self._after, guard))])

    def _before(self, optimizer: mindspore.nn.Cell, arguments: Sequence[Iterable[Tensor]]) -> None:
        self._view.given = tuple(arguments[0])
        self._lifecycle.update_begins(optimizer)

    def _after(self, optimizer: mindspore.nn.Cell, _arguments: object, _result: object) -> None:
        self._lifecycle.after_step(optimizer)


class GradientListener(Protocol):
    """A listener to gradient functions."""

    def backward_begins(self, result: object) -> None:
        """Note that the gradients of this result, of whatever form, are about to be computed."""


class _ExecutorPatch:
    """The two methods of the executor with listeners before them."""

    def __init__(self) -> None:
        self.listeners: list[GradientListener] = []
        self._results: list[object] = []

    def patch(self) -> None:
        """Patch the methods."""
        end_graph, grad = executor.end_graph, executor.grad

        def ended(cell: object, output: object, *arguments: object, **options: object) -> None:
            self._results[:] = [output]
            end_graph(cell, output, *arguments, **options)

        def differentiated(*arguments: object) -> object:
            result = self._results.pop() if self._results else None
            for listener in tuple(self.listeners):
                listener.backward_begins(result)
            return grad(*arguments)

        executor.end_graph, executor.grad = ended, differentiated

    def restore(self) -> None:
        """Restore the class's own methods."""
        self._results.clear()
        del executor.end_graph, executor.grad


_executor_patch = _ExecutorPatch()


def add_listener(listener: GradientListener) -> None:
    """Add a listener to gradient functions."""
    if not _executor_patch.listeners:
        _executor_patch.patch()
    _executor_patch.listeners.append(listener)


def remove_listener(listener: GradientListener) -> None:
    """Remove the listener."""
    if listener in _executor_patch.listeners:
        _executor_patch.listeners.remove(listener)
        if not _executor_patch.listeners:
            _executor_patch.restore()


def loss_of(result: object) -> float | None:
    """Return the value of a one-element result, or of its first element when auxiliary values follow."""
    first: Tensor = result[0] if isinstance(result, tuple) and result else result
    return float(first.asnumpy().item()) if getattr(first, "size", 0) == 1 else None


class CellEvents:
    """A `GradientListener` for events of the process that no hook of a model reports.

    Args:
        following: The hooks that the order of calls is followed by.
        cells: By site.

    Attributes:
        lifecycle: Lifecycle of the training's steps.
        steps: The hooks of the optimizers.
    """

    def __init__(
        self,
        view: MindSporeView,
        recorder: Recorder,
        output_hooks: OutputHooks,
        order: CallOrder,
        following: RetiringHooks,
        cells: Mapping[str, object],
    ) -> None:
        self._view, self._order, self._following = view, order, following
        self._guard = recorder.guard
        self.lifecycle = StepLifecycle(
            recorder, view, output_hooks, modules=cells, before_step=_nothing, at_end=self._step_ends
        )
        self.steps = OptimizerHooks(self.lifecycle, view, recorder)

    def backward_begins(self, result: object) -> None:
        """Note that a gradient function of the process walks back from this result."""
        if not self._guard.is_off:
            self._guard.attempt(self.lifecycle.backward_begins, partial(loss_of, result))

    def step_done(self) -> None:
        """Close the step at the loop's request."""
        self._view.given = ()
        self.lifecycle.step_done()

    def _step_ends(self, _passes: int) -> None:
        if not self._order.is_known:
            self._following.remove()
            self._order.step_ends()


def _nothing() -> None:
    return None
