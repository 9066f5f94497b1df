"""Which losses and clippings of the process belong to a torch model, and what they tell of its training."""

from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any, Final

import torch
from numpy.typing import NDArray

from ....storage.records import Json
from ...access.tensors import Tensor
from ...facts import Facts
from ...facts.losses import LossCall
from ...outbox.promises import LateScalar
from ...recording.recorder import Recorder
from .calls import add_call_listener, remove_call_listener, wake_call_listener
from .loss_input import made_by, rows_of, sample_of
from .memory import array_of
from .parts import is_remote, may_travel
from .source import TorchSource
from .view import TorchView

#: Labels that travel from a device: 8 MiB. Our choice.
_MOST_LABELS: Final = 1 << 20


class TorchFacts:
    """The facts of one torch model; listens to the process for those that no hook tells."""

    def __init__(
        self,
        model: Any,
        modules: Mapping[str, Any],
        view: TorchView,
        recorder: Recorder,
        *,
        counts: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._recorder, self._view = recorder, view
        self._mine: frozenset[int] = frozenset()
        self._limit: tuple[float, bool] | None = None
        self._is_loss = self._is_looked = False
        self.facts = Facts(recorder, TorchSource(model, modules, view), counts=counts, changed=changed)
        self._handle = None
        if recorder.config.causality:
            self._handle = model.register_forward_pre_hook(self.facts.sample, with_kwargs=True)
        add_call_listener(self)
        recorder.due.tell(lambda: wake_call_listener(self, not recorder.current.is_idle), of=frozenset())

    def remove(self) -> None:
        """Nothing; nobody listens any more."""
        remove_call_listener(self)
        if self._handle is not None:
            self._handle.remove()

    def modules_changed(self) -> None:
        """Nothing; the model has other modules and parameters than before."""
        self._mine = frozenset()
        self.facts.modules_changed()

    def loss_called(self, name: str, input_: Any, target: Any, options: dict[str, Any]) -> None:
        """A loss function was called, by this model's training if it was called in this step and gradients flow."""
        if not (isinstance(input_, torch.Tensor) and input_.requires_grad and self.facts.has_forward):
            return
        if self._recorder.current.thread != get_ident():
            return
        self._is_loss, self._is_looked = True, False
        if input_.layout is not torch.strided or not self.facts.loss_is_due(name):
            return
        is_away = may_travel(input_) and self._recorder.outbox.takes_promises
        if input_.is_cpu or is_away:
            self._is_looked = True
            shapes = tuple(tuple(one.shape) for one in (input_, target) if isinstance(one, torch.Tensor))
            plain: dict[str, Json] = {
                key: value
                for key in ("reduction", "label_smoothing", "log_target")
                if _is_plain(value := options.get(key))
            }
            if is_away:
                self._ask(name, input_, target, shapes, plain)
                return
            labels = (lambda: array_of(target)) if isinstance(target, torch.Tensor) and target.is_cpu else None
            self.facts.loss_called(
                LossCall(name, lambda: sample_of(name, input_), shapes, plain, labels, made_by(input_))
            )

    def _ask(self, name: str, input_: Tensor, target: Any, shapes: Any, plain: dict[str, Json]) -> None:
        """The same of a loss on a device: rows of its input travel, and its labels."""
        try:
            rows, labels = self._recorder.outbox.fetch(rows_of(name, input_)), self._labels_away(target)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("facts", error)
            return
        self.facts.loss_called_away(LossCall(name, lambda: rows.array, shapes, plain, labels, made_by(input_)))

    def _labels_away(self, target: Any) -> Callable[[], NDArray[Any]] | None:
        """Labels that are on their way from a device; of others, and of very many, nothing is told."""
        is_read = isinstance(target, torch.Tensor) and may_travel(target) and target.numel() <= _MOST_LABELS
        if not is_read or target.is_floating_point():
            return None
        labels = self._recorder.outbox.fetch(target)
        return lambda: labels.array

    def loss_returned(self, result: Any, options: dict[str, Any]) -> None:
        """That loss has returned; its value is read where its input was."""
        if self._is_loss and self._recorder.current.thread == get_ident():
            is_number = self._is_looked and isinstance(result, torch.Tensor) and result.numel() == 1
            reduction = options.get("reduction", "mean")
            self.facts.loss_returned(self._value_of(result) if is_number else None, str(reduction))
            self._is_loss = False

    def _value_of(self, result: Tensor) -> float | LateScalar | None:
        """The value of a loss; late where it lies on a device."""
        if not is_remote(result):
            return float(result.detach())
        outbox = self._recorder.outbox
        return outbox.owe_value(result) if outbox.takes_promises and may_travel(result) else None

    def gradients_clipped(self, parameters: Any, limit: float, norm: Any) -> None:
        """Gradients of this model are about to be clipped."""
        first = parameters if isinstance(parameters, torch.Tensor) else next(iter(parameters), None)
        if first is None or not self._is_mine(first):
            return
        self._recorder.flush()
        if self._limit != (limit, norm is None):
            self._limit = (limit, norm is None)
            self._recorder.event("clipping", by="value" if norm is None else "norm", limit=limit)
        if type(norm) is torch.Tensor:
            outbox = self._recorder.outbox
            if not is_remote(norm):
                self._recorder.current.clip = (float(norm), limit)
            elif outbox.takes_promises and may_travel(norm) and "clip" in self._recorder.current.due:
                self._recorder.current.clip = (outbox.owe_value(norm), limit)

    def _is_mine(self, parameter: Any) -> bool:
        if len(self._mine) != len(self._view.parameters):
            self._mine = frozenset(id(one) for one in self._view.parameters)
        return id(parameter) in self._mine


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)
