"""The forward hook for what modules mostly return: one dense tensor of the host, seen in one frame of Python.

Between the matrices of a training Python finds its caches empty and a call costs about a microsecond, so that what
`ForwardTaps.hook` and `Pair.on_gradient` do in ten calls is written out here. Whatever else comes is left to these.
"""

from collections import OrderedDict
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch.compiler import is_dynamo_compiling

from ...access.tensors import Tensor
from ...aside import is_aside
from ...kernels import FLOAT64
from ...recording.call_rows import Row
from ...recording.recorder import Recorder
from ...taps.forward import ForwardTaps
from ...taps.module_rows import Pair
from . import parts
from .hooks import Hook, compiler, is_traced
from .memory import CODES
from .recompute import current_graph_task_id

_Tensor, _is_grad_enabled = torch.Tensor, torch.is_grad_enabled


def output_hook(taps: ForwardTaps, site: str, model: Any) -> Hook:
    """The hook of the module at this site; a recorder that times its hooks gets the one that can be timed.

    Args:
        model: The whole one, whose mode says whether the training goes on.
    """
    return OutputHook(taps, site, model) if taps.recorder.timed(_nothing) is _nothing else Hook(taps.hook(site))


class OutputHook(Hook):
    """The hook of one module, written out for what it mostly returns."""

    __slots__ = ("_current", "_model", "_recorder", "_rows", "_taps")

    def __init__(self, taps: ForwardTaps, site: str, model: Any) -> None:
        super().__init__(taps.hook(site))
        self._taps, self._rows, self._model = taps, taps.rows_of(site), model
        self._recorder, self._current = taps.recorder, taps.recorder.current

    def __call__(self, module: Any, inputs: Any, output: Any) -> None:
        """Nothing; the output is recorded, if it counts and torch is not compiling."""
        if is_dynamo_compiling() or compiler.get("_is_compiling_flag") or is_traced():
            return
        current = self._current
        if not current.is_looking:
            return
        if (
            type(output) is _Tensor
            and self._model.training
            and _is_grad_enabled()
            and current_graph_task_id() == -1
            and not (is_aside() or current.dumps or current.wants_histogram or parts.is_any_taken_for_remote)
        ):
            try:
                code = CODES[output.dtype]
                if output.is_cpu and output.is_contiguous() and not output.is_neg():
                    self._see(output, output.data_ptr() or 1, code)
                    return
            except Exception:  # noqa: BLE001  the longer way meets it again and knows what to say
                pass
        self._work(module, inputs, output)

    def _see(self, output: Tensor, address: int, code: int) -> None:
        """As `ForwardTaps` does, of values at this address."""
        recorder, current, rows, last = self._recorder, self._current, self._rows, self._taps.last
        try:
            stamp, version = current.stamp, output._version
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
                else:
                    row.copy_from(last.row)
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
                hook = partial(_see_gradient, recorder, pair, stamp, others)
                hooks[hook] = hook
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("activation", error)
            recorder.fail("activation_grad", error)


def _see_gradient(recorder: Recorder, pair: Pair, stamp: int, others: list[Row], gradient: Tensor) -> None:
    """As `Pair.on_gradient` does."""
    current = recorder.current
    if current.stamp != stamp or not current.sees_backward:
        return
    if type(gradient) is _Tensor and not (current.wants_histogram or parts.is_any_taken_for_remote):
        row = pair.gradient_row
        try:
            code = CODES[gradient.dtype]
            if gradient.is_cpu and gradient.is_contiguous() and not gradient.is_neg():
                recorder.measure(gradient.data_ptr() or 1, gradient.numel(), code, row.address)
                row.present[row.index] = 1
                recorder.activation_grads.is_wide |= code == FLOAT64
                for other in others:
                    other.copy_from(row)
                return
        except Exception:  # noqa: BLE001  as above
            pass
    pair.on_gradient(stamp, others, gradient)


def _nothing() -> None:
    """What a recorder with a budget would time."""
