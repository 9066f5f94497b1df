"""Facts of an engine training beside its statistics: losses, clipping, modes of the cells."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....framework.context import recording
from ....framework.nn.cell import Cell
from ....framework.optim import Optimizer
from ....framework.optim import gradient_clipping as clip
from ....framework.random import get_state, set_state
from ....framework.tensor import Tensor
from ...aside import is_aside, same_random_numbers
from ...facts import Facts
from ...facts.loss_facts import LossCall, some_of
from ...recording.recorder import Recorder
from ...tensor_access import HookHandle
from .engine_parameters import ACCESS, EngineView
from .engine_sites import owners_of


def made_by(tensor: Tensor) -> str:
    """Return the primitive that made the values, ignoring reshapes; empty where the tape does not tell."""
    node = tensor._node
    while node is not None and not node.is_packed and node.inputs is not None:
        if node.primitive.name not in ("reshape", "transpose", "squeeze", "expand_dims"):
            return str(node.primitive.name)
        before = next((tensor for tensor in node.inputs if isinstance(tensor, Tensor)), None)
        node = None if before is None else before._node
    return ""


def sample_of(tensor: Tensor) -> NDArray[Any]:
    """Return `(rows, columns)`, some rows with all their columns: 64 elements or more, if there are as many."""
    array = tensor.numpy()
    if array.ndim == 0 or not array.size:
        return np.empty((0, 0), np.float32)
    return some_of(array.reshape(-1, array.shape[-1]))


#: Operations to follow from the loss back to the one that identifies it; farther ones belong to the network.
_FARTHEST = 24


def loss_of(root: Tensor) -> tuple[str, Tensor, tuple[object, ...]] | None:
    """Return the name, the input and the operation's inputs of the loss that made a scalar; None if it is not found."""
    waiting = [root._node]
    seen = 0
    while waiting and seen < _FARTHEST:
        node = waiting.pop(0)
        if node is None or node.inputs is None or node.is_packed:
            continue
        seen += 1
        find_input = _GIVEN.get(node.primitive.name)
        if find_input is not None:
            name, tensor = find_input(node.inputs)
            if isinstance(tensor, Tensor):
                return name, tensor, node.inputs
        waiting += [tensor._node for tensor in node.inputs if isinstance(tensor, Tensor)]
    return None


def factor_of(root: Tensor) -> float | None:
    """Return the number that the loss was multiplied by; None where something was added to it."""
    factor, tensor = 1.0, root
    while (node := tensor._node) is not None and node.inputs is not None and not node.is_packed:
        name, tensors = node.primitive.name, [tensor for tensor in node.inputs if isinstance(tensor, Tensor)]
        numbers = [float(number) for number in node.inputs if isinstance(number, int | float)]
        if name == "add":
            return None
        if name not in ("multiply", "divide") or len(tensors) != 1 or len(numbers) != 1 or tensors[0].size != 1:
            return factor
        factor = factor * numbers[0] if name == "multiply" else factor / numbers[0]
        tensor = tensors[0]
    return factor


def _of_gather(inputs: tuple[object, ...]) -> tuple[str, object]:
    source = inputs[0]
    before = getattr(source, "_node", None)
    if before is not None and before.primitive.name == "log_softmax" and before.inputs is not None:
        return "cross_entropy", before.inputs[0]  # the softmax is part of the loss, or equivalent to that
    return "nll_loss", source


def _of_clip(inputs: tuple[object, ...]) -> tuple[str, object]:
    """Return the name and the probability of binary cross entropy, which is clipped three operations further."""
    tensor = inputs[0]
    for name, at in (("where", 1), ("log", 0), ("where", 1)):
        before = getattr(tensor, "_node", None)
        if before is None or before.primitive.name != name or before.inputs is None:
            return "", None
        tensor = before.inputs[at]
    return "binary_cross_entropy", tensor


#: How to identify a loss, by the primitive that only this loss leaves so near to the end of a tape.
_GIVEN: Mapping[str, Callable[[tuple[object, ...]], tuple[str, object]]] = {
    "cross_entropy": lambda inputs: ("cross_entropy", inputs[0]),
    "gather_elements": _of_gather,
    "softplus": lambda inputs: ("binary_cross_entropy_with_logits", inputs[0]),
    "clip": _of_clip,
}


class EngineFrame:
    """Calls a cell in evaluation mode, without gradients, and restores its state."""

    access = ACCESS

    def __init__(self, model: Cell) -> None:
        self._model = model

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Enter evaluation mode without gradients; restore flags, running statistics and random keys at the end."""
        cells = [cell for _, cell in self._model.cells_and_names()]
        flags = [cell.training for cell in cells]
        kept = [
            (parameter, parameter.numpy().copy())
            for parameter in self._model.get_parameters()
            if not parameter.requires_grad
        ]
        state = get_state()
        with same_random_numbers(), recording(enabled=False):
            try:
                for cell in cells:
                    cell.training = False
                yield
            finally:
                for cell, flag in zip(cells, flags, strict=True):
                    cell.training = flag
                for parameter, values in kept:
                    if parameter.numpy().tobytes() != values.tobytes():
                        parameter.set_data(Tensor(values))
                set_state(state)

    def call(self, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> object:
        """Call the cell and return its output."""
        return self._model(*arguments, **keywords)

    def like(self, array: NDArray[Any], tensor: Tensor) -> Tensor:
        """Convert the array to a tensor of the same dtype."""
        return Tensor(array.astype(tensor.dtype, copy=False))


class EngineSource:
    """The facts' view of one cell."""

    def __init__(self, model: Cell, cells: Mapping[str, Cell], view: EngineView) -> None:
        self._model, self._cells, self._view = model, cells, view

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        """The watched optimizers."""
        return self._view.optimizers

    def modules(self) -> Mapping[str, Cell]:
        """Return the cells by site."""
        return self._cells

    def owners(self) -> Sequence[tuple[str, Cell, str]]:
        """Return site, cell and attribute of every parameter, shared ones under each site."""
        return owners_of(self._cells)

    def memory(self, parameter: object) -> int:
        """Return a number for the memory of the parameter's values."""
        return id(parameter)  # optimizers move values into arenas, where each parameter has its own memory

    def contents(self) -> Iterator[tuple[str, bytes | memoryview]]:
        """Yield site and content of every parameter."""
        for name, parameter in zip(self._view.names, self._view.parameters, strict=True):
            array = np.ascontiguousarray(parameter.numpy())
            yield name, array.reshape(-1).view(np.uint8).data if array.size else b""

    def step_count(self, optimizer: Any) -> int | None:
        """Return the number of steps that the optimizer has made."""
        return int(optimizer.step_count)

    def learning_rates(self) -> Sequence[float]:
        """Return the learning rate of every group."""
        return self._view.learning_rates()

    def slots(self, optimizer: Any) -> Sequence[str]:
        """Return the names of the optimizer's slots."""
        return tuple(optimizer.slots())

    def frame(self) -> EngineFrame:
        """Return a frame that calls the model without leaving a trace."""
        return EngineFrame(self._model)


_listeners: list["EngineFacts"] = []
_original: list[Callable[..., float]] = []


class EngineFacts:
    """The facts of one cell.

    Losses are identified from the tape that a backward pass is about to follow, so a compiled step reports none. The
    norm before clipping comes from the function that measures it for `clip_by_global_norm`; that function is replaced
    while there are listeners. Compiled functions do not call it and are not affected.
    """

    def __init__(
        self,
        model: Cell,
        cells: Mapping[str, Cell],
        view: EngineView,
        recorder: Recorder,
        *,
        counts: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._recorder, self._view = recorder, view
        self._limit: float | None = None
        self.facts = Facts(recorder, EngineSource(model, cells, view), counts=counts, changed=changed)
        self._handles: list[HookHandle] = []
        if recorder.config.causality:
            self._handles.append(model.register_forward_pre_hook(recorder.guard(self.facts.sample)))
        self.clipped = recorder.guard(self._clipped)
        _listeners.append(self)
        if len(_listeners) == 1:
            _original.append(clip.global_norm)
            clip.global_norm = _telling(clip.global_norm)

    def remove(self) -> None:
        """Remove the hooks and stop listening."""
        for handle in self._handles:
            handle.remove()
        if self in _listeners:
            _listeners.remove(self)
            if not _listeners:
                clip.global_norm = _original.pop()

    def backward_begins(self, root: Tensor) -> None:
        """Record which loss made the root that a backward pass of this training starts from."""
        facts = self.facts
        if not (facts.modes.counts and facts.is_listening) or is_aside():
            return
        if not facts.losses.is_due(""):
            facts.accumulation.backward_begins(None)
            return
        found = loss_of(root)
        if found is not None:
            name, loss_input, inputs = found
            shapes = tuple(tensor.shape for tensor in inputs if isinstance(tensor, Tensor))
            labels = inputs[1].numpy if len(inputs) > 1 and isinstance(inputs[1], Tensor) else None
            facts.loss_called(LossCall(name, lambda: sample_of(loss_input), shapes, None, labels, made_by(loss_input)))
        facts.accumulation.backward_begins(None, factor_of(root))

    def _clipped(self, gradients: Sequence[NDArray[Any]], norm: float, limit: float) -> None:
        """Record that the gradients, if they are this model's, are about to be clipped."""
        if not gradients or not self._is_mine(gradients[0]):
            return
        self._recorder.flush()
        if self._limit != limit:
            self._limit = limit
            self._recorder.event("clipping", by="norm", limit=limit)
        self._recorder.current.clip = (norm, limit)

    def _is_mine(self, gradient: NDArray[Any]) -> bool:
        address = gradient.ctypes.data
        gradients = (parameter.grad for parameter in self._view.parameters if parameter.shape == gradient.shape)
        return any(
            gradient_tensor is not None and gradient_tensor.numpy().ctypes.data == address
            for gradient_tensor in gradients
        )


def _telling(measure: Callable[..., float]) -> Callable[..., float]:
    def global_norm(gradients: Sequence[NDArray[Any]]) -> float:
        norm = measure(gradients)
        caller = sys._getframe(1)
        if caller.f_code is clip.clip_by_global_norm.__code__:  # the only caller that knows the limit
            for listener in tuple(_listeners):
                listener.clipped(gradients, norm, float(caller.f_locals["max_norm"]))
        return norm

    return global_norm
