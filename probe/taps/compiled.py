"""What a compiled function shows of its outputs, whose gradients have no tensor to hook on."""

from typing import Any

from ..access.tensors import Access, Unsupported
from ..recording.call_rows import Row
from ..recording.recorder import Recorder
from .filling import fill


class CompiledTap:
    """A tap on one output inside a compiled function: values are seen by hooks, gradients have no tensor to hook on."""

    __slots__ = ("_access", "_recorder", "_row")

    def __init__(self, recorder: Recorder, access: Access, row: Row) -> None:
        self._recorder, self._access, self._row = recorder, access, row

    def value(self, array: Any) -> None:
        """Nothing: the forward hooks have seen it."""

    def gradient(self, array: Any) -> None:
        """Nothing; the row has the statistics of the gradient."""
        recorder, current = self._recorder, self._recorder.current
        if not (current.sees_backward and current.is_open):
            return
        try:
            held = self._access.kind(array)
            fill(recorder, self._access, recorder.activation_grads, "activation_grad", self._row, held)
        except Unsupported:
            return
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("activation_grad", error)
