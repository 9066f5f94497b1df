"""The memory of an optimizer: weights and slots of each group in flat arenas, the parameters being views of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor import Parameter
from .arena import Arena

_NATIVE = (np.dtype(np.float32), np.dtype(np.float64))


class ParameterMemory:
    """Arenas for groups of parameters.

    Args:
        groups: Parameters of each group; they are moved into arenas at once.
        slots: Names of the state arrays to keep beside each parameter, zero at first.

    Attributes:
        names: Names of the slots.
        flat: `(weight, slots)` of each parameter, one-dimensional views.
    """

    __slots__ = ("_parameters", "_slots", "_weights", "flat", "names")

    def __init__(self, groups: Sequence[Sequence[Parameter]], slots: Sequence[str]) -> None:
        self.names = tuple(slots)
        self._parameters = tuple(p for group in groups for p in group)
        weights: dict[int, NDArray[Any]] = {}
        states: dict[int, tuple[NDArray[Any], ...]] = {}
        flat: dict[int, tuple[NDArray[Any], tuple[NDArray[Any], ...]]] = {}
        for members in _by_group_and_dtype(groups):
            shapes = [p.shape for p in members]
            dtype = members[0].numpy().dtype
            arena = Arena(shapes, dtype)
            kept = [Arena(shapes, dtype if dtype in _NATIVE else np.float32) for _ in slots]
            for place, parameter in enumerate(members):
                weights[id(parameter)] = arena.views[place]
                states[id(parameter)] = tuple(slot.views[place] for slot in kept)
                flat[id(parameter)] = (arena.segments[place], tuple(slot.segments[place] for slot in kept))
        self._weights = tuple(weights[id(p)] for p in self._parameters)
        self._slots = {
            name: tuple(states[id(p)][number] for p in self._parameters) for number, name in enumerate(slots)
        }
        self.flat = tuple(flat[id(p)] for p in self._parameters)
        self.adopt()

    def adopt(self) -> None:
        """Nothing; parameters whose array was exchanged since the last step are brought back, with their new values."""
        for parameter, view in zip(self._parameters, self._weights, strict=True):
            array = parameter.numpy()
            if array is not view:
                view[...] = array
                parameter.move_to(view)

    def slots(self, name: str) -> tuple[NDArray[Any], ...]:
        """One state array per parameter, in the parameters' shapes."""
        return self._slots[name]


def is_native(array: NDArray[Any]) -> bool:
    """Whether the fused kernels take arrays of this dtype as they are."""
    return array.dtype in _NATIVE


def flattened(gradient: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The gradient one-dimensional, contiguous and of that dtype; a view where it is so already."""
    return np.ascontiguousarray(gradient, dtype=dtype).reshape(-1)


def _by_group_and_dtype(groups: Sequence[Sequence[Parameter]]) -> list[list[Parameter]]:
    together: dict[tuple[int, str], list[Parameter]] = {}
    for number, members in enumerate(groups):
        for parameter in members:
            together.setdefault((number, str(parameter.numpy().dtype)), []).append(parameter)
    return list(together.values())
