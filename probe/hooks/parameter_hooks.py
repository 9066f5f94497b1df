"""The hooks on parameters: gradients before reduction over the ranks, and what each micro-batch adds."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from ..kernels import values_at
from ..recording.recorder import Recorder
from ..recording.row_buffers import Row
from ..tensor_access import Access, HookHandle, Tensor, Unsupported
from .output_hooks import fill

_SUBJECT = "gradient/unreduced"


def watch_local_gradients(
    named: Iterable[tuple[str, Tensor]], access: Access, recorder: Recorder
) -> Iterator[HookHandle]:
    """Hook each parameter that requires a gradient and yield the handles; none unless the subject is ever due."""
    if recorder.config.schedule(_SUBJECT).is_ever_due:
        for name, parameter in named:
            if parameter.requires_grad:
                yield parameter.register_hook(recorder.guard(_LocalGradient(name, access, recorder)))


class _LocalGradient:
    """The hook on one parameter."""

    __slots__ = ("_access", "_name", "_recorder", "_row")

    def __init__(self, name: str, access: Access, recorder: Recorder) -> None:
        self._name, self._access, self._recorder = name, access, recorder
        self._row: Row | None = None

    def __call__(self, gradient: Tensor) -> None:
        recorder, current = self._recorder, self._recorder.current
        if not (current.sees_unreduced and current.is_open):
            return
        try:
            rows = recorder.rows_of(_SUBJECT)
            if self._row is None:
                self._row = rows.row(self._name, 0)
            fill(recorder, self._access, rows, _SUBJECT, self._row, gradient)
        except Unsupported:
            return
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail(_SUBJECT, error)


#: Sampled elements of all parameters together, evenly spread.
_MOST = 1 << 18
NAME = "gradient_noise_scale"


def watch_micro_batches(
    named: Iterable[tuple[str, Tensor]], access: Access, recorder: Recorder
) -> Iterator[HookHandle]:
    """Hook each parameter that requires a gradient and yield the handles; none unless the quantity is ever due."""
    if not recorder.config.schedule(NAME).is_ever_due:
        return
    parameters = [parameter for _, parameter in named if parameter.requires_grad]
    total = sum(_count(parameter) for parameter in parameters)
    stride = max(1, -(-total // _MOST)) | 1
    for parameter in parameters:
        yield parameter.register_hook(recorder.guard(_AddedGradient(parameter, stride, access, recorder)))


def _count(parameter: Tensor) -> int:
    count = 1
    for size in parameter.shape:
        count *= int(size)
    return count


class _AddedGradient:
    """The hook on one parameter, called before autograd adds the new gradient to the accumulated one."""

    __slots__ = ("_access", "_parameter", "_recorder", "_stride")

    def __init__(self, parameter: Tensor, stride: int, access: Access, recorder: Recorder) -> None:
        self._parameter, self._stride, self._access, self._recorder = parameter, stride, access, recorder

    def __call__(self, gradient: Tensor) -> None:
        recorder, current = self._recorder, self._recorder.current
        if not (current.is_open and NAME in current.due) or current.is_away:
            return
        try:
            accumulated = self._parameter.grad
            device_tensor = self._access.remote(gradient)
            if device_tensor is not None and recorder.device_results.accepts_requests:
                self._ask(device_tensor, accumulated)
                return
            found = self._sample(gradient)
            square = float(found @ found)
            product = 2.0 * float(found @ self._sample(accumulated)) if accumulated is not None else 0.0
            current.micro_batches.add(current.micro_step, square, square + product)
        except Unsupported:
            return
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail(NAME, error)

    def _ask(self, gradient: Tensor, accumulated: Tensor | None) -> None:
        """Request the two numbers of a gradient on a device."""
        device_results, current = self._recorder.device_results, self._recorder.current
        assert device_results.device is not None, "tensors are taken for remote only where there is a device"
        part = device_results.fetch(device_results.device.added(gradient, accumulated, self._stride))
        current.micro_batches.late.append((current.micro_step, part))

    def _sample(self, tensor: Tensor) -> NDArray[np.float64]:
        place, owner = self._access.place(tensor)
        values = values_at(*place, self._stride).astype(np.float64)
        del owner
        return values
