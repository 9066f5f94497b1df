"""Facts of a torch training beside its statistics: how the loss is called, what the model's code and modes are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import Any, Final, Protocol

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from ....storage.records import Json
from ...aside import is_aside, same_random_numbers
from ...checks.own_states import own_states, same_states
from ...checks.reached_parameters import all_leaves
from ...facts import Facts
from ...facts.loss_facts import OF_TARGETS, LossCall, some_of
from ...late_scalars import LateScalar
from ...recording.recorder import Recorder
from ...tensor_access import Tensor, Unsupported
from .torch_hooks import Hook
from .torch_parameters import TorchView, memory_of
from .torch_patches import add_call_listener, remove_call_listener, wake_call_listener
from .torch_sites import owners_of, takes_hooks
from .torch_tensors import ACCESS, array_of, is_remote, may_travel


class TorchFrame:
    """A torch model that is called in evaluation mode, without gradients, its state kept."""

    access = ACCESS

    def __init__(self, model: Any) -> None:
        wrapped = getattr(model, "module", None) if type(model).__name__ == "DistributedDataParallel" else None
        self._model = model if wrapped is None else wrapped

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Set evaluation mode without gradients; restore flags, buffers, generators and counters after the block."""
        flags = [(module, module.training) for module in self._model.modules()]
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        modules = list(self._model.modules())
        with same_random_numbers(), same_states([*modules, *own_states(modules)]), torch.no_grad():
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
        """Return what the model returns."""
        return self._model(*arguments, **keywords)

    def like(self, array: NDArray[Any], tensor: Tensor) -> Tensor:
        """Return the array as a tensor of the same dtype, on the same device."""
        plain = array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
        return torch.from_numpy(np.ascontiguousarray(plain)).to(dtype=tensor.dtype, device=tensor.device)


class TorchSource:
    """The facts' view of one torch model."""

    def __init__(self, model: Any, modules: Mapping[str, Any], view: TorchView) -> None:
        self._model, self._modules, self._view = model, modules, view
        self._counted: dict[int, Any] = {}
        self._known: dict[int, tuple[Tensor, int, int]] = {}

    @property
    def optimizers(self) -> Sequence[Any]:
        """Those watched."""
        return self._view.optimizers

    def modules(self) -> Mapping[str, Any]:
        """Return the modules by site."""
        return self._modules

    def owners(self) -> Sequence[tuple[str, Any, str]]:
        """Return site, module and attribute of every parameter, shared ones under each site."""
        return owners_of(self._modules)

    def memory(self, parameter: Any) -> int:
        """Return the address of the parameter's values."""
        return memory_of(parameter)

    def contents(self) -> Iterator[tuple[str, bytes | memoryview]]:
        """Yield site and content; of a parameter on another device torch's own hash of it, so that it stays there."""
        for name, parameter in zip(self._view.names, self._view.parameters, strict=True):
            try:
                yield name, _content(parameter)
            except (Unsupported, TypeError, NotImplementedError):
                continue

    def step_count(self, optimizer: Any) -> int | None:
        """Return the steps that the state of a parameter counts; None if none does, or the count is on a device."""
        number = id(optimizer)
        known, first = self._known.get(number), next(iter(optimizer.state.values()), None)
        if known is not None and first and first.get("step") is known[0] and known[0]._version == known[1]:
            return known[2]  # read once between two changes
        state = optimizer.state.get(self._counted[number]) if number in self._counted else None
        if not state:
            counted = next(
                (parameter for parameter, state in optimizer.state.items() if state and "step" in state), None
            )
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
        """Return the rate of every group."""
        return self._view.learning_rates()

    def slots(self, optimizer: Any) -> Sequence[str]:
        """Return the names of the state tensors that it holds."""
        states = (state for state in optimizer.state.values() if isinstance(state, dict))
        return sorted(
            {name for state in states for name, slot in state.items() if isinstance(slot, torch.Tensor) and slot.dim()}
        )

    def frame(self) -> TorchFrame:
        """Return a caller of the model that leaves no trace."""
        return TorchFrame(self._model)


def _content(parameter: Tensor) -> bytes | memoryview:
    if not parameter.is_cpu and hasattr(torch, "hash_tensor"):
        hashed = torch.hash_tensor(parameter.detach()).view(torch.int64)  # as an unsigned number it may not fit `int()`
        return int(hashed).to_bytes(8, "little", signed=True)
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
    """Return the operation that made the values, in lower case without its number; empty if the graph has none."""
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
    """Sample `(rows, columns)` of a loss's input: rows with all their classes, or some elements in one row each."""
    rows = rows_of(name, tensor)
    if rows.dtype is torch.bfloat16:
        exact: NDArray[Any] = rows.float().numpy().astype(ml_dtypes.bfloat16)
        return exact
    found: NDArray[Any] = rows.numpy()
    return found


def rows_of(name: str, tensor: Tensor) -> Tensor:
    """Do what `sample_of` does, on the tensor's device."""
    held = tensor.detach().resolve_neg()
    if name in ("cross_entropy", "nll_loss") and held.dim() > 1:
        held = held.movedim(1, -1)
    if held.dim() == 0 or held.shape[-1] > _COLUMNS:
        return held.new_empty((0, 0), dtype=torch.float32)
    return some_of(held.reshape(-1, held.shape[-1]))


#: Labels that travel from a device: 8 MiB. Our choice.
_MOST_LABELS: Final = 1 << 20


class LossListener(Protocol):
    """Who else wants to hear of losses."""

    is_looking: bool

    def loss_called(self, name: str, input_: Any, target: Any) -> None:
        """Note a loss function that is called with gradients."""


class TorchFacts:
    """The facts of one torch model; listens to the process for those that no hook reports.

    Attributes:
        guard: Takes what its methods raise.
        kind: Wants to hear of losses as well.
    """

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
        self._recorder, self._view, self.guard = recorder, view, recorder.guard
        self._mine: frozenset[int] = frozenset()
        self._limit: tuple[float, bool] | None = None
        self._is_loss = self._is_looked = False
        self.kind: LossListener | None = None
        self._source = TorchSource(model, modules, view)
        self.facts = Facts(recorder, self._source, counts=counts, changed=changed)
        self._handle = None
        if recorder.config.causality and takes_hooks(model):
            self._handle = model.register_forward_pre_hook(Hook(self.facts.sample, recorder.guard), with_kwargs=True)
        add_call_listener(self)
        recorder.due.subscribe(lambda: wake_call_listener(self, not recorder.current.is_idle), of=frozenset())

    def remove(self) -> None:
        """Stop listening."""
        remove_call_listener(self)
        if self._handle is not None:
            self._handle.remove()

    def modules_changed(self) -> None:
        """Look at the model's modules and parameters again, which have changed."""
        self._mine = frozenset()
        self.facts.modules_changed()

    def loss_called(self, name: str, input_: Any, target: Any, options: dict[str, Any]) -> None:
        """Record the facts of a loss: it is the training's if the model was called in this step and gradients flow."""
        facts = self.facts
        if not (isinstance(input_, torch.Tensor) and input_.requires_grad and facts.modes.counts):
            return
        if self._recorder.current.thread != get_ident():
            return
        self._is_loss, self._is_looked = True, False
        if self.kind is not None and self.kind.is_looking:
            self.kind.loss_called(name, input_, target)
        if input_.layout is not torch.strided or not facts.is_listening or is_aside() or not facts.losses.is_due(name):
            return
        is_away = may_travel(input_) and self._recorder.device_results.accepts_requests
        if input_.is_cpu or is_away:
            self._is_looked = True
            shapes = tuple(tuple(given.shape) for given in (input_, target) if isinstance(given, torch.Tensor))
            plain: dict[str, Json] = {
                key: value
                for key in ("reduction", "label_smoothing", "log_target", "log_input")
                if _is_plain(value := options.get(key))
            }
            if is_away:
                self._ask(name, input_, target, shapes, plain)
                return
            labels = (lambda: array_of(target)) if isinstance(target, torch.Tensor) and target.is_cpu else None
            made, module = made_by(input_), partial(self._module_of, input_)
            facts.loss_called(LossCall(name, lambda: sample_of(name, input_), shapes, plain, labels, made, module))

    def _ask(self, name: str, input_: Tensor, target: Any, shapes: Any, plain: dict[str, Json]) -> None:
        """Record the facts of a loss on a device once rows of its input, and its labels, have arrived."""
        try:
            rows, labels = self._recorder.device_results.fetch(rows_of(name, input_)), self._labels_away(name, target)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._recorder.fail("facts", error)
            return
        made, module = made_by(input_), partial(str, self._module_of(input_))
        self.facts.loss_called_away(LossCall(name, lambda: rows.array, shapes, plain, labels, made, module))

    def _module_of(self, tensor: Tensor) -> str:
        """Return the module whose parameters came last on the way to a tensor; empty where none is known."""
        leaves = all_leaves([tensor.grad_fn], is_nearest_first=True)
        parameter = next((leaf for leaf in leaves if isinstance(leaf, torch.nn.Parameter)), None)
        sites = (site for site, module, name in self._source.owners() if getattr(module, name, None) is parameter)
        return "" if parameter is None else next(sites, "").rpartition(".")[0]

    def _labels_away(self, name: str, target: Any) -> Callable[[], NDArray[Any]] | None:
        """Ask a device for the labels; None for labels on the host, and for very many."""
        is_read = isinstance(target, torch.Tensor) and may_travel(target) and target.numel() <= _MOST_LABELS
        if not is_read or (target.is_floating_point() and name not in OF_TARGETS):
            return None
        labels = self._recorder.device_results.fetch(target)
        return lambda: labels.array

    def loss_returned(self, result: Any, options: dict[str, Any]) -> None:
        """Note that the loss has returned; its value is read if its input was."""
        if self._is_loss and self._recorder.current.thread == get_ident():
            self._is_loss = False
            if self.facts.is_listening and not is_aside():
                is_number = self._is_looked and isinstance(result, torch.Tensor) and result.numel() == 1
                value = self._value_of(result) if is_number else None
                self.facts.accumulation.loss_returned(value, str(options.get("reduction", "mean")))

    def _value_of(self, result: Tensor) -> float | LateScalar | None:
        """Return the value of a loss; late if it lies on a device."""
        if not is_remote(result):
            return float(result.detach())
        device_results = self._recorder.device_results
        return device_results.request_value(result) if device_results.accepts_requests and may_travel(result) else None

    def gradients_clipped(self, parameters: Any, limit: float, norm: Any) -> None:
        """Record that gradients, if they are this model's, are about to be clipped."""
        first = parameters if isinstance(parameters, torch.Tensor) else next(iter(parameters), None)
        if first is None or not self._is_mine(first):
            return
        self._recorder.flush()
        if self._limit != (limit, norm is None):
            self._limit = (limit, norm is None)
            self._recorder.event("clipping", by="value" if norm is None else "norm", limit=limit)
        if type(norm) is torch.Tensor:
            device_results = self._recorder.device_results
            if not is_remote(norm):
                self._recorder.current.clip = (float(norm), limit)
            elif device_results.accepts_requests and may_travel(norm) and "clip" in self._recorder.current.due:
                self._recorder.current.clip = (device_results.request_value(norm), limit)

    def _is_mine(self, parameter: Any) -> bool:
        if len(self._mine) != len(self._view.parameters):
            self._mine = frozenset(map(id, self._view.parameters))
        return id(parameter) in self._mine


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)
