"""Hooks on the parameters: the gradient that one backward pass of this process found, before anything is added."""

from collections.abc import Iterable, Iterator
from typing import Any

from ..access.tensors import Access, Tensor, Unsupported
from ..recording.call_rows import Row
from ..recording.recorder import Recorder
from .filling import fill

_SUBJECT = "gradient/unreduced"


def watch_local_gradients(named: Iterable[tuple[str, Tensor]], access: Access, recorder: Recorder) -> Iterator[Any]:
    """The handles of one hook for each parameter that requires a gradient; none unless the subject is ever due."""
    if recorder.config.schedule(_SUBJECT).is_ever_due:
        for name, parameter in named:
            if parameter.requires_grad:
                yield parameter.register_hook(recorder.timed(_LocalGradient(name, access, recorder)))


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
