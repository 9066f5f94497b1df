"""Hooks on the modules of a torch model: activations as each module returns, their gradients on the way back."""

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import torch

from ..block import CallRows, Row
from ..collectors.histogram import histogram_at
from ..kernels import measure
from ..recorder import Recorder
from .torch_memory import CODES, Tensor, Unsupported, place_of

_MOST_TENSORS = 16
_is_grad_enabled = torch.is_grad_enabled
_Hook = Callable[[Any, Any, Any], None]


class ForwardTaps:
    """The forward hooks of one monitor. Each hook holds its own rows; nothing here holds a tensor.

    Args:
        is_training: Whether the model as a whole is in training mode.
    """

    def __init__(self, recorder: Recorder, is_training: Callable[[], bool]) -> None:
        self.recorder = recorder
        self._last: Callable[[], Tensor] = _nothing
        self._last_version = -1
        self._last_row: Row | None = None
        self._last_gradient: _GradientTap | None = None
        mode = recorder.config.record
        self.counts: Callable[[], bool] = {
            "training": lambda: _is_grad_enabled() and is_training(),
            "gradients": _is_grad_enabled,
            "all": lambda: True,
        }[mode]

    def hook(self, site: str) -> _Hook:
        """The forward hook of the module at this site."""
        recorder, counts = self.recorder, self.counts
        calls = _Calls(self, site)

        def after_forward(module: Any, inputs: Any, output: Any) -> None:
            if not (recorder.sees_forward or recorder.sees_backward) or not counts():
                return
            try:
                call = calls.next(recorder.stamp)
                if isinstance(output, torch.Tensor):
                    self._see(calls, output, call, "")
                else:
                    for path, tensor in tensors_in(output):
                        self._see(calls, tensor, call, path)
            except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
                recorder.fail("activation", error)
                recorder.fail("activation_grad", error)

        return after_forward

    def forget(self) -> None:
        """Drops what was remembered of the last tensor."""
        self._last, self._last_row, self._last_gradient = _nothing, None, None

    def _see(self, calls: "_Calls", tensor: Tensor, call: int, path: str) -> None:
        code = CODES.get(tensor.dtype)
        if code is None and not tensor.is_floating_point():
            return
        row, gradient_row = calls.rows(call, path)
        recorder = self.recorder
        is_same = self._last() is tensor and self._last_version == tensor._version
        if recorder.sees_forward:
            if is_same and self._last_row is not None:
                row.copy_from(self._last_row)
            elif not fill(recorder.activations, row, tensor, code):
                return
            if "activation" in recorder.wants_histogram:
                add_histogram(recorder, "activation", row, tensor)
        if not is_same:
            self._last, self._last_version, self._last_row = ref(tensor), tensor._version, row
            self._last_gradient = None
        if recorder.sees_backward and tensor.grad_fn is not None:
            if self._last_gradient is not None:
                self._last_gradient.rows.append(gradient_row)
            else:
                self._last_gradient = _GradientTap(recorder, gradient_row)
                tensor.register_hook(self._last_gradient)


class _Calls:
    """The rows of one module: one a call and path, made when first needed and kept."""

    __slots__ = ("_call", "_firsts", "_others", "_site", "_stamp", "_taps")

    def __init__(self, taps: ForwardTaps, site: str) -> None:
        self._taps, self._site = taps, site
        self._stamp, self._call = -1, 0
        self._firsts: list[tuple[Row, Row]] = []
        self._others: dict[tuple[int, str], tuple[Row, Row]] = {}

    def next(self, stamp: int) -> int:
        """Number of the call that has just ended, from 0 in every micro-step."""
        self._call = self._call + 1 if stamp == self._stamp else 0
        self._stamp = stamp
        return self._call

    def rows(self, call: int, path: str) -> tuple[Row, Row]:
        if not path:
            while len(self._firsts) <= call:
                self._firsts.append(self._make(len(self._firsts), ""))
            return self._firsts[call]
        if (call, path) not in self._others:
            self._others[call, path] = self._make(call, path)
        return self._others[call, path]

    def _make(self, call: int, path: str) -> tuple[Row, Row]:
        recorder = self._taps.recorder
        site = self._site + path
        return recorder.activations.row(site, call), recorder.activation_grads.row(site, call)


class _GradientTap:
    """The hook on one tensor of one forward; fires at most in the micro-step it was made for."""

    __slots__ = ("_recorder", "_stamp", "rows")

    def __init__(self, recorder: Recorder, row: Row) -> None:
        self._recorder, self._stamp = recorder, recorder.stamp
        self.rows = [row]

    def __call__(self, gradient: Tensor) -> None:
        recorder = self._recorder
        if recorder.stamp != self._stamp or not recorder.sees_backward:
            return
        try:
            first = self.rows[0]
            if fill(recorder.activation_grads, first, gradient, CODES.get(gradient.dtype)):
                for row in self.rows[1:]:
                    row.copy_from(first)
                if "activation_grad" in recorder.wants_histogram:
                    add_histogram(recorder, "activation_grad", first, gradient)
        except Exception as error:  # noqa: BLE001  as above
            recorder.fail("activation_grad", error)


def fill(rows: CallRows, row: Row, tensor: Tensor, code: int | None) -> bool:
    """Whether the row now holds the statistics of the tensor; not so for sparse ones."""
    if code is not None and tensor.is_cpu and tensor.is_contiguous():
        measure(tensor.data_ptr(), tensor.numel(), code, row.address)
    else:
        try:
            place, _owner = place_of(tensor)
        except Unsupported:
            return False
        measure(*place, row.address)
        code = place[2]
    if code == 1:
        rows.is_wide = True
    row.present[row.index] = 1
    return True


def add_histogram(recorder: Recorder, subject: str, row: Row, tensor: Tensor) -> None:
    """The histogram of the tensor whose statistics the row holds, added to the step."""
    place, _owner = place_of(tensor)
    values = row.values[row.index]
    ends = (float(values[3]), float(values[4]))
    recorder.histograms.append(histogram_at(row.site, subject, place, ends, recorder.config.histograms.bins, row.call))


def tensors_in(output: Any) -> Iterator[tuple[str, Tensor]]:
    """(path, tensor) of the first floating tensors in a nested output, depth first.

    The first has the empty path: it stands for the module itself. Sequences, mappings and dataclasses are entered.
    """
    found = 0
    for path, tensor in _walk("", output, 0):
        if tensor.is_floating_point():
            yield (path if found else ""), tensor
            found += 1
            if found == _MOST_TENSORS:
                return


def _walk(path: str, value: Any, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif depth < 4:
        for key, inner in _items(value):
            yield from _walk(f"{path}[{key}]", inner, depth + 1)


def _items(value: Any) -> Iterator[tuple[object, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    elif hasattr(value, "__dataclass_fields__"):
        yield from ((name, getattr(value, name)) for name in value.__dataclass_fields__)


def _nothing() -> None:
    return None
