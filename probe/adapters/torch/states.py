"""The slots that torch's optimizers keep for parameters, looked for again only when states have changed."""

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Any, Final

import torch

from ...access.tensors import Tensor, every_tensor_in

#: Tensors of a slot that is a list or a mapping (our choice: more than a tensor has dimensions); a longer list is a
#: history.
_MOST_NESTED: Final = 8
#: Lists of L-BFGS, which are histories before they have grown.
_HISTORIES: Final = ("old_dirs", "old_stps", "ro", "al")


class States:
    """The slots of one model's parameters, by name."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._count = -1
        self._states: dict[str, list[dict[str, Any]]] = {}
        self._nested: list[tuple[int, dict[str, Any]]] = []
        self._lengths: dict[tuple[int, str], int] = {}
        self._histories = set(_HISTORIES)

    def slots(self, parameters: Sequence[Tensor], optimizers: Sequence[Any]) -> dict[str, list[Tensor | None]]:
        """Every slot that holds a tensor for some parameter, but the count of steps; one entry a parameter.

        Tensors in a slot that is a list or a mapping are slots of their own, `slot[key]`. Of a list that is a history,
        for it grows or is long, only the newest entry is one, `slot[-1]`.
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
        self._find_histories()
        for row, state in self._nested:
            for name, tensor in self._inside(state):
                slots.setdefault(name, [None] * len(parameters))[row] = tensor
        return slots

    def _look(self, parameters: Sequence[Tensor], optimizers: Sequence[Any]) -> None:
        states = [_state_of(parameter, optimizers) for parameter in parameters]
        names = dict.fromkeys(name for state in states for name, slot in state.items() if _is_slot(name, slot))
        self._states = {name: [state if _is_slot(name, state.get(name)) else {} for state in states] for name in names}
        self._nested = [(row, state) for row, state in enumerate(states) if any(map(_is_nest, state.values()))]
        self._lengths.clear()

    def _find_histories(self) -> None:
        """Lists that have another length than before, or are long."""
        for row, state in self._nested:
            for name, slot in state.items():
                if isinstance(slot, list) and name not in self._histories:
                    before = self._lengths.setdefault((row, name), len(slot))
                    if len(slot) != before or len(slot) > _MOST_NESTED:
                        self._histories.add(name)

    def _inside(self, state: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
        """Name and tensor of what lies in lists and mappings."""
        for name, slot in state.items():
            if _is_nest(slot):
                is_history = isinstance(slot, list) and name in self._histories
                found = _newest_of(slot) if is_history else every_tensor_in(slot, torch.Tensor)
                for path, tensor in islice(found, _MOST_NESTED):
                    yield name + path, tensor


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
    return isinstance(value, list | tuple | dict)


def _newest_of(history: list[Any]) -> Iterator[tuple[str, Tensor]]:
    """What lies in the last entry that holds a tensor."""
    for entry in reversed(history):
        found = [] if entry is None else list(every_tensor_in(entry, torch.Tensor))
        if found:
            return ((f"[-1]{path}", tensor) for path, tensor in found)
    return iter(())
