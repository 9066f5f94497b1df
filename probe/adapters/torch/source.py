"""What a torch model and its optimizers tell of themselves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...access.tensors import Tensor, Unsupported
from .memory import array_of
from .quiet import TorchFrame
from .recompute import is_recording
from .sites import owners_of
from .structure import memory_of
from .view import TorchView


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
