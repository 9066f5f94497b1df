"""The memory of an optimizer: weights and slots of each group in flat arenas, the parameters being views of them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tensor import Parameter
from .arena import Arena, GradientArena

_NATIVE = (np.dtype(np.float32), np.dtype(np.float64))

#: The shape of a slot, from its name, the shape of its parameter and the number of the group.
SlotShape = Callable[[str, tuple[int, ...], int], tuple[int, ...]]


class Place(NamedTuple):
    """The memory of one parameter: weight and slots, one-dimensional and in their shapes."""

    weight: NDArray[Any]
    slots: tuple[NDArray[Any], ...]
    flat_weight: NDArray[Any]
    flat_slots: tuple[NDArray[Any], ...]


class Block(NamedTuple):
    """The parameters of one group that have one dtype, in one arena.

    `members` are their numbers in the optimizer's order; `flat` and `flat_slots` are all weights and slots.
    """

    group: int
    members: tuple[int, ...]
    arena: Arena
    slots: tuple[Arena, ...]
    flat: NDArray[Any]
    flat_slots: tuple[NDArray[Any], ...]


class ParameterMemory:
    """Arenas for groups of parameters.

    Args:
        groups: Parameters of each group; they are moved into arenas at once.
        slots: Names of the state arrays to keep beside each parameter, zero at first.
        slot_shape: Their shapes, where they are not those of the parameters.

    Attributes:
        names: Names of the slots.
        places: Weight and slots of each parameter.
        blocks: The arenas that hold them.
        is_native: Whether the kernels take all of them as they are.
    """

    __slots__ = ("_parameters", "_weights", "blocks", "is_native", "names", "places")

    def __init__(
        self, groups: Sequence[Sequence[Parameter]], slots: Sequence[str], slot_shape: SlotShape | None = None
    ) -> None:
        self.names = tuple(slots)
        shape_of = slot_shape or (lambda name, shape, group: shape)
        self._parameters = tuple(p for group in groups for p in group)
        self.blocks = tuple(
            _make_block(group, members, self._parameters, self.names, shape_of)
            for group, members in _by_group_and_dtype(groups)
        )
        self.is_native = all(is_native(block.flat) for block in self.blocks)
        found: dict[int, Place] = {}
        for block in self.blocks:
            for place, number in enumerate(block.members):
                found[number] = _place_in(block, place)
        self.places = tuple(found[number] for number in range(len(self._parameters)))
        self._weights = tuple(zip(self._parameters, (place.weight for place in self.places), strict=True))
        self.adopt()

    def adopt(self) -> None:
        """Nothing; parameters whose array was exchanged since the last step are brought back, with their new values."""
        for parameter, view in self._weights:
            if parameter._data is not view:
                view[...] = parameter.numpy()
                parameter.move_to(view)

    def slots(self, name: str) -> tuple[NDArray[Any], ...]:
        """One state array per parameter, in the parameters' order."""
        number = self.names.index(name)
        return tuple(place.slots[number] for place in self.places)

    def gradient_arena(self) -> GradientArena:
        """New memory for gradients, laid out as the weights are."""
        blocks = [Arena([view.shape for view in block.arena.views], block.arena.flat.dtype) for block in self.blocks]
        where = {
            number: (count, place) for count, b in enumerate(self.blocks) for place, number in enumerate(b.members)
        }
        return GradientArena(blocks, [where[number] for number in range(len(self._parameters))])


def is_native(array: NDArray[Any]) -> bool:
    """Whether the fused kernels take arrays of this dtype as they are."""
    return array.dtype in _NATIVE


def as_native(gradient: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The gradient contiguous and of that dtype; itself where it is so already."""
    return np.ascontiguousarray(gradient, dtype=dtype).reshape(gradient.shape)  # which makes () a vector of one


def _make_block(
    group: int, members: list[int], parameters: Sequence[Parameter], names: Sequence[str], shape_of: SlotShape
) -> Block:
    shapes = [parameters[number].shape for number in members]
    dtype = parameters[members[0]].numpy().dtype
    kept = dtype if dtype in _NATIVE else np.dtype(np.float32)
    slots = tuple(Arena([shape_of(name, shape, group) for shape in shapes], kept) for name in names)
    arena = Arena(shapes, dtype)
    return Block(group, tuple(members), arena, slots, arena.flat, tuple(slot.flat for slot in slots))


def _place_in(block: Block, place: int) -> Place:
    return Place(
        block.arena.views[place],
        tuple(slot.views[place] for slot in block.slots),
        block.arena.segments[place],
        tuple(slot.segments[place] for slot in block.slots),
    )


def _by_group_and_dtype(groups: Sequence[Sequence[Parameter]]) -> list[tuple[int, list[int]]]:
    together: dict[tuple[int, str], list[int]] = {}
    number = 0
    for group, members in enumerate(groups):
        for parameter in members:
            together.setdefault((group, str(parameter.numpy().dtype)), []).append(number)
            number += 1
    return [(group, members) for (group, _), members in together.items()]
