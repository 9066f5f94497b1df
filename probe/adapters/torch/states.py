"""The slots that torch's optimizers keep for parameters, looked for again only when states have changed."""

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Any, Final

import torch

from ...access.tensors import Tensor, every_tensor_in

#: Tensors of a slot that is a list or a mapping; L-BFGS keeps a hundred directions. Our choice.
_MOST_NESTED: Final = 8


class States:
    """The slots of one model's parameters, by name."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._count = -1
        self._states: dict[str, list[dict[str, Any]]] = {}
        self._nested: list[tuple[int, dict[str, Any]]] = []

    def slots(self, parameters: Sequence[Tensor], optimizers: Sequence[Any]) -> dict[str, list[Tensor | None]]:
        """Every slot that holds a tensor for some parameter, but the count of steps; one entry a parameter.

        Tensors in a slot that is a list or a mapping are slots of their own, `slot[key]`.
        """
        seen: list[int] = []
        for optimizer in optimizers:
            held = optimizer.state.values()
            seen += map(id, held)
            seen += map(len, held)
        if seen != self._seen or len(parameters) != self._count:
            self._look(parameters, optimizers)
            self._seen, self._count = seen, len(parameters)
        slots = {name: list(map(dict.get, states, repeat(name))) for name, states in self._states.items()}
        for row, state in self._nested:
            for name, tensor in _inside(state):
                slots.setdefault(name, [None] * len(parameters))[row] = tensor
        return slots

    def _look(self, parameters: Sequence[Tensor], optimizers: Sequence[Any]) -> None:
        states = [_state_of(parameter, optimizers) for parameter in parameters]
        names = dict.fromkeys(name for state in states for name, slot in state.items() if _is_slot(name, slot))
        self._states = {name: [state if _is_slot(name, state.get(name)) else {} for state in states] for name in names}
        self._nested = [(row, state) for row, state in enumerate(states) if any(map(_is_nest, state.values()))]


def _state_of(parameter: Tensor, optimizers: Sequence[Any]) -> dict[str, Any]:
    for optimizer in optimizers:
        state: dict[str, Any] | None = optimizer.state.get(parameter)
        if state:
            return state
    return {}


def _is_slot(name: str, value: Any) -> bool:
    """Whether it is a slot's tensor; the count of steps is told as a fact."""
    return isinstance(value, torch.Tensor) and name != "step"


def _is_nest(value: Any) -> bool:
    return isinstance(value, list | tuple | dict) and bool(value)


def _inside(state: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, slot in state.items():
        if _is_nest(slot):
            for path, tensor in islice(every_tensor_in(slot, torch.Tensor), _MOST_NESTED):
                yield name + path, tensor
