"""Facts of a torch training that no statistic tells: how the loss is called, what the model's code and modes are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from ....storage.records import Json
from ...aside import same_random_numbers
from ...device_results import LateScalar
from ...facts import Facts
from ...facts.loss_facts import LossCall, some_of
from ...recording.recorder import Recorder
from ...tensor_access import Tensor, Unsupported
from .torch_parameters import TorchView, memory_of
from .torch_patches import add_call_listener, is_recording, remove_call_listener, wake_call_listener
from .torch_sites import owners_of
from .torch_tensors import ACCESS, array_of, is_remote, may_travel


class TorchFrame:
    """A torch model that is called in evaluation mode, without gradients, its state kept."""

    access = ACCESS

    def __init__(self, model: Any) -> None:
        wrapped = getattr(model, "module", None) if type(model).__name__ == "DistributedDataParallel" else None
        self._model = model if wrapped is None else wrapped

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Evaluation mode without gradients; flags, buffers and random generators are put back behind it."""
        flags = [(module, module.training) for module in self._model.modules()]
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        with same_random_numbers(), torch.random.fork_rng(devices), torch.no_grad():
            try:
                for module, _ in flags:
                    module.training = False
                yield
            finally:
                for module, flag in flags:
                    module.training = flag
                for buffer, kept in buffers:
                    buffer.data.copy_(kept)  # through .data: what autograd has saved of the buffer stays valid

    def call(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """What the model returns."""
        return self._model(*arguments, **keywords)

    def like(self, array: NDArray[Any], tensor: Tensor) -> Tensor:
        """The array as a tensor of the same dtype, on the same device."""
        plain = array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
        return torch.from_numpy(np.ascontiguousarray(plain)).to(dtype=tensor.dtype, device=tensor.device)


class TorchSource:
    """The facts' view of one torch model."""

    def __init__(self, model: Any, modules: Mapping[str, Any], view: TorchView) -> None:
        self._model, self._modules, self._view = model, modules, view
        self._counted: dict[int, Any] = {}
        self._known: dict[int, tuple[Tensor, int, int]] = {}
        self.is_recording = is_recording

    @property
    def optimizers(self) -> Sequence[Any]:
        """Those watched."""
        return self._view.optimizers

    def modules(self) -> Mapping[str, Any]:
        """By site."""
        return self._modules

    def owners(self) -> Sequence[tuple[str, Any, str]]:
        """Site, module and attribute of every parameter, shared ones under each site."""
        return owners_of(self._modules)

    def memory(self, parameter: Any) -> int:
        """Where its values lie."""
        return memory_of(parameter)

    def contents(self) -> Iterator[tuple[str, bytes | memoryview]]:
        """Site and content; of a parameter on another device torch's own hash of it, so that it stays there."""
        for name, parameter in zip(self._view.names, self._view.parameters, strict=True):
            try:
                yield name, _content(parameter)
            except (Unsupported, TypeError, NotImplementedError):
                continue

    def step_count(self, optimizer: Any) -> int | None:
        """The steps that the state of one of its parameters counts; None where none does, or it is on a device."""
        number = id(optimizer)
        known, first = self._known.get(number), next(iter(optimizer.state.values()), None)
        if known is not None and first and first.get("step") is known[0] and known[0]._version == known[1]:
            return known[2]  # read once between two changes
        state = optimizer.state.get(self._counted[number]) if number in self._counted else None
        if not state:
            counted = next((one for one, state in optimizer.state.items() if state and "step" in state), None)
            if counted is None:
                return None
            self._counted[number] = counted
            state = optimizer.state[counted]
        step = state.get("step")
        if isinstance(step, torch.Tensor):
            if not step.is_cpu:
                return None
            self._known[number] = (step, step._version, int(step))
            return self._known[number][2]
        return int(step) if step is not None else None

    def learning_rates(self) -> Sequence[float]:
        """The rate of every group."""
        return self._view.learning_rates()

    def slots(self, optimizer: Any) -> Sequence[str]:
        """Names of the state tensors that it holds."""
        states = (state for state in optimizer.state.values() if isinstance(state, dict))
        return sorted(
            {name for state in states for name, slot in state.items() if isinstance(slot, torch.Tensor) and slot.dim()}
        )

    def frame(self) -> TorchFrame:
        """How to call the model so that nothing is left of the call."""
        return TorchFrame(self._model)


def _content(parameter: Tensor) -> bytes | memoryview:
    if not parameter.is_cpu and hasattr(torch, "hash_tensor"):
        return int(torch.hash_tensor(parameter.detach())).to_bytes(8, "little", signed=False)
    array = np.ascontiguousarray(array_of(parameter))
    return array.reshape(-1).view(np.uint8).data if array.size else b""


_COLUMNS: Final = 65536
#: Operations whose result holds values of their input as they are, and how many of them are looked through.
_SAME_VALUES = frozenset(
    {
        *("view", "unsafeview", "reshapealias", "squeeze", "unsqueeze", "select", "slice", "t", "transpose", "permute"),
        *("clone", "tocopy", "expand", "alias", "index", "asstrided", "unbind", "split", "chunk"),
    }
)
_FARTHEST = 8


def made_by(tensor: Tensor) -> str:
    """The operation that made the values, in lower case without its number; empty where the tape does not tell."""
    node = tensor.grad_fn
    for _ in range(_FARTHEST):
        if node is None:
            return ""
        name = type(node).__name__.partition("Backward")[0].lower()
        if name not in _SAME_VALUES:
            return name
        node = node.next_functions[0][0] if node.next_functions else None
    return ""


def sample_of(name: str, tensor: Tensor) -> NDArray[Any]:
    """`(rows, columns)` of a loss's input: some rows with all their classes, or some elements in one row each."""
    rows = rows_of(name, tensor)
    if rows.dtype is torch.bfloat16:
        exact: NDArray[Any] = rows.float().numpy().astype(ml_dtypes.bfloat16)
        return exact
    found: NDArray[Any] = rows.numpy()
    return found


def rows_of(name: str, tensor: Tensor) -> Tensor:
    """The same where the tensor lies."""
    held = tensor.detach().resolve_neg()
    if name in ("cross_entropy", "nll_loss") and held.dim() > 1:
        held = held.movedim(1, -1)
    if held.dim() == 0 or held.shape[-1] > _COLUMNS:
        return held.new_empty((0, 0), dtype=torch.float32)
    return some_of(held.reshape(-1, held.shape[-1]))


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
        recorder.due.subscribe(lambda: wake_call_listener(self, not recorder.current.is_idle), of=frozenset())

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
