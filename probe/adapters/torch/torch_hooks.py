"""The hooks of a torch model, inert while torch compiles and in copies of a module."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch.compiler import is_compiling, is_dynamo_compiling

from ...aside import is_aside
from ...checks.function_mode import is_transformed
from ...guard import Guard
from ...hooks.output_hooks import OutputHooks, Pair
from ...kernels import FLOAT64
from ...recording.recorder import Recorder
from ...recording.row_buffers import Row
from ...tensor_access import Tensor
from . import torch_tensors as tensors
from .torch_patches import current_graph_task_id, is_recording
from .torch_tensors import CODES

#: Its flag says whether torch exports; `is_compiling` says both, at twice the cost, which every module pays.
compiler = vars(torch.compiler)
is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", bool)  # since torch 2.7
is_traced = torch._C._get_tracing_state  # by `torch.jit.trace`, whose tensors have no sizes to read


class Hook:
    """A hook that works on its own module only; what it raises goes to the guard.

    A copy of the module, deep or pickled, has a function of Python's own in its place, which takes any arguments and
    does nothing: what was pickled while a monitor watched can be loaded where there is none.
    """

    __slots__ = ("_guard", "_work")

    def __init__(self, work: Callable[..., None], guard: Guard) -> None:
        self._work, self._guard = work, guard

    def __call__(self, *arguments: Any) -> None:
        """Do the hook's work, unless torch is compiling or transforming the function that calls the module."""
        if is_dynamo_compiling() or compiler.get("_is_compiling_flag") or is_traced() or is_transformed():
            return
        try:
            if not self._guard.is_off:
                self._work(*arguments)
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._guard.failed(error)

    def __deepcopy__(self, _memo: object) -> Callable[..., None]:
        return nullcontext().__exit__

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


class OpeningHook(Hook):
    """The hook before a whole model's forward; of a compiled one it learns only that there was a forward.

    Attributes:
        was_compiled: Whether a compiled forward has run with gradients on; torch sets it after every such forward,
            since it keeps what a graph does to Python's objects.
    """

    __slots__ = ("was_compiled",)

    def __init__(self, work: Callable[..., None], guard: Guard) -> None:
        super().__init__(work, guard)
        self.was_compiled = False

    def __call__(self, *arguments: Any) -> None:
        """Note that the forward begins, or that a compiled one runs."""
        if is_compiling():
            if torch.is_grad_enabled() and not is_exporting():  # a graph for elsewhere must keep nothing of ours
                self.was_compiled = True
            return
        try:
            if not (is_transformed() or self._guard.is_off):
                self._work(*arguments)
        except BaseException as error:  # noqa: BLE001  as above
            self._guard.failed(error)


class ForwardHandle:
    """The handle of a forward hook of ours; a removed hook can be registered again, before the hooks of others."""

    __slots__ = ("_hook", "_module", "_number")

    def __init__(self, module: Any, hook: Hook) -> None:
        self._module, self._hook = module, hook
        self._number: int = module.register_forward_hook(hook).id

    def put_back(self) -> "ForwardHandle":
        """Register the hook again, before those of others, and return the same handle."""
        hooks = self._module._forward_hooks
        hooks[self._number] = self._hook
        hooks.move_to_end(self._number, last=False)
        return self

    def remove(self) -> None:
        """Remove the hook."""
        self._module._forward_hooks.pop(self._number, None)


_Tensor, _is_grad_enabled = torch.Tensor, torch.is_grad_enabled


class TrainingMode:
    """The mode that the model is trained in.

    Attributes:
        is_evaluation: Whether the newest steps were trained in evaluation mode.
    """

    __slots__ = ("is_evaluation",)

    def __init__(self) -> None:
        self.is_evaluation = False


def counts_of(model: Any, mode: TrainingMode) -> Callable[[], bool]:
    """Return what tells whether a forward of the model that runs now is one of the training."""

    def counts() -> bool:
        if not (_is_grad_enabled() and (model.training or mode.is_evaluation)) or is_aside():
            return False
        return current_graph_task_id() == -1 or is_recording()

    return counts


class OutputHook(Hook):
    """The hook of the module at one site, written out for what it mostly returns: one dense tensor on the host.

    Whatever else it returns is recorded by the hook of `OutputHooks`, which knows every case.

    Args:
        model: The whole one, whose mode says whether the training goes on.
    """

    __slots__ = ("_current", "_hooks", "_model", "_recorder", "_rows")

    def __init__(self, output_hooks: OutputHooks, site: str, model: Any) -> None:
        super().__init__(output_hooks.hook(site), output_hooks.recorder.guard)
        self._hooks, self._rows, self._model = output_hooks, output_hooks.rows_of(site), model
        self._recorder, self._current = output_hooks.recorder, output_hooks.recorder.current

    def __call__(self, module: Any, inputs: Any, output: Any) -> None:  # noqa: C901  a hot path, written out
        """Record the output, if it counts and torch is not compiling."""
        if is_dynamo_compiling() or compiler.get("_is_compiling_flag") or is_traced():
            return
        code = None
        try:
            recorder, current, rows, last = self._recorder, self._current, self._rows, self._hooks.last
            if not current.is_looking:
                return
            if (
                type(output) is _Tensor
                and self._model.training
                and _is_grad_enabled()
                and current_graph_task_id() == -1
                and not (is_aside() or current.dumps or current.wants_histogram or tensors.is_any_taken_for_remote)
            ):
                try:
                    if output.is_cpu and output.is_contiguous() and not output.is_neg():
                        address, version, code = output.data_ptr() or 1, output._version, CODES.get(output.dtype)
                except Exception:  # noqa: BLE001  the longer way meets it again and knows what to say
                    code = None
            if code is None:
                if not is_transformed():
                    self._work(module, inputs, output)
                return
            stamp = current.stamp  # from here on as `OutputHooks` does
            rows.call = call = rows.call + 1 if rows.stamp == stamp else 0
            rows.stamp = stamp
            pair = rows.firsts[call] if call < len(rows.firsts) else rows.pair(call, "")
            if last.tensor() is not output or last.version != version:
                last.tensor, last.version, last.row, last.gradient_rows = ref(output), version, None, None
            if current.sees_forward:
                row = pair.row
                if last.row is None:
                    recorder.measure(address, output.numel(), code, row.address)
                    row.present[row.index] = 1
                    recorder.activations.is_wide |= code == FLOAT64
                    last.row = row
                else:  # as `Row.copy_from` does where no device has the numbers
                    row.values[row.index] = last.row.values[last.row.index]
                    row.present[row.index] = 1
            if current.sees_backward and (node := output.grad_fn) is not None:
                if last.gradient_rows is not None:
                    last.gradient_rows.append(pair.gradient_row)
                    return
                others: list[Row] = []
                last.gradient_rows = others
                hooks = output._backward_hooks  # from here on as in `Tensor.register_hook`, without a handle
                if hooks is None:
                    output._backward_hooks = hooks = OrderedDict()
                    node._register_hook_dict(output)
                hook = partial(_record_gradient, recorder, pair, stamp, others)
                hooks[hook] = hook
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._failed(error, is_measuring=code is not None)

    def _failed(self, error: BaseException, *, is_measuring: bool) -> None:
        """Switch off the statistics of outputs, or everything where something else has failed."""
        if not is_measuring:
            self._guard.failed(error)
            return
        for name in ("activation", "activation_grad"):
            self._guard(self._recorder.fail)(name, error)


def _record_gradient(recorder: Recorder, pair: Pair, stamp: int, others: list[Row], gradient: Tensor) -> None:
    """Do what `Pair.on_gradient` does, written out for a dense tensor on the host."""
    current = recorder.current
    if current.stamp != stamp or not current.sees_backward:
        return
    try:
        if type(gradient) is _Tensor and not (current.wants_histogram or tensors.is_any_taken_for_remote):
            row, code = pair.gradient_row, CODES.get(gradient.dtype)
            if code is not None and gradient.is_cpu and gradient.is_contiguous() and not gradient.is_neg():
                recorder.measure(gradient.data_ptr() or 1, gradient.numel(), code, row.address)
                row.present[row.index] = 1
                recorder.activation_grads.is_wide |= code == FLOAT64
                for other in others:  # as above
                    other.values[other.index] = row.values[row.index]
                    other.present[other.index] = 1
                return
    except Exception:  # noqa: BLE001  the longer way meets it again and knows what to say
        pass
    except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
        recorder.guard.failed(error)
        return
    recorder.guard(pair.on_gradient)(stamp, others, gradient)
