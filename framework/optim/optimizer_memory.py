"""Flat memory of an optimizer: weights, gradients and slots in aligned blocks, the parameters being views of them."""

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..dtype import Array, Dtype
from ..tensor import Parameter

#: Cache line and widest vector register of the machines we run on.
ALIGNMENT = 64


class Arena:
    """One zeroed block of memory that holds tensors of one dtype one after the other.

    Every tensor starts on a 64 byte boundary; the gaps stay zero, so a pass over `flat` may run over them.

    Args:
        shapes: Shapes of the tensors, in order.
        dtype: Their common dtype.

    Attributes:
        flat: The whole block, one-dimensional.
        views: One array per shape, views of `flat`.
        segments: The same memory, one-dimensional.
    """

    __slots__ = ("flat", "segments", "views")

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: DTypeLike) -> None:
        kind = np.dtype(dtype)
        line = max(1, ALIGNMENT // kind.itemsize)
        sizes = [prod(shape) for shape in shapes]
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + -(-size // line) * line)
        self.flat = _aligned_zeros(starts[-1], kind)
        self.segments = tuple(self.flat[start : start + size] for start, size in zip(starts, sizes, strict=False))
        self.views = tuple(part.reshape(shape) for part, shape in zip(self.segments, shapes, strict=True))


class GradientArena:
    """Memory for the gradients of an optimizer's parameters, laid out as the parameters are.

    Write the gradients into `views` and pass `views` itself to the optimizer: it then moves each block of parameters
    with one kernel call.

    Attributes:
        views: One array per parameter, in the order of `optimizer.parameters`.
        blocks: The arenas behind them, one for each group and dtype.
    """

    __slots__ = ("blocks", "views")

    def __init__(self, blocks: Sequence[Arena], places: Sequence[tuple[int, int]]) -> None:
        self.blocks = tuple(blocks)
        self.views = tuple(self.blocks[block].views[place] for block, place in places)

    def clear(self) -> None:
        """Set every gradient to zero."""
        for block in self.blocks:
            block.flat[...] = 0


def _aligned_zeros(size: int, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    raw = np.zeros(size * dtype.itemsize + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size * dtype.itemsize].view(dtype)


_NATIVE = (np.dtype(np.float32), np.dtype(np.float64))

#: The shape of a slot, from its name, the shape of its parameter and the number of the group.
SlotShape = Callable[[str, tuple[int, ...], int], tuple[int, ...]]


class ParameterPlace(NamedTuple):
    """The memory of one parameter: weight and slots, one-dimensional and in their shapes."""

    weight: Array
    slots: tuple[Array, ...]
    flat_weight: Array
    flat_slots: tuple[Array, ...]


class ParameterBlock(NamedTuple):
    """The parameters of one group that have one dtype, in one arena.

    `members` are their numbers in the optimizer's order; `flat` and `flat_slots` are all weights and slots.
    """

    group: int
    members: tuple[int, ...]
    arena: Arena
    slots: tuple[Arena, ...]
    flat: Array
    flat_slots: tuple[Array, ...]


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
        found: dict[int, ParameterPlace] = {}
        for block in self.blocks:
            for place, number in enumerate(block.members):
                found[number] = _place_in(block, place)
        self.places = tuple(found[number] for number in range(len(self._parameters)))
        self._weights = tuple(zip(self._parameters, (place.weight for place in self.places), strict=True))
        self.adopt()

    def adopt(self) -> None:
        """Bring parameters whose array was exchanged since the last step back, with their new values."""
        for parameter, view in self._weights:
            if parameter._data is not view:
                view[...] = parameter.numpy()
                parameter.move_to(view)

    def slots(self, name: str) -> tuple[Array, ...]:
        """Return one state array per parameter, in the parameters' order."""
        number = self.names.index(name)
        return tuple(place.slots[number] for place in self.places)

    def gradient_arena(self) -> GradientArena:
        """Return new memory for gradients, laid out as the weights are."""
        blocks = [Arena([view.shape for view in block.arena.views], block.arena.flat.dtype) for block in self.blocks]
        where = {
            number: (count, place) for count, b in enumerate(self.blocks) for place, number in enumerate(b.members)
        }
        return GradientArena(blocks, [where[number] for number in range(len(self._parameters))])


def is_native(array: Array) -> bool:
    """Return whether the fused kernels take arrays of this dtype as they are."""
    return array.dtype in _NATIVE


def as_native(gradient: Array, dtype: Dtype) -> Array:
    """Return the gradient contiguous and of that dtype; itself where it is so already."""
    return np.ascontiguousarray(gradient, dtype=dtype).reshape(gradient.shape)  # which makes () a vector of one


def _make_block(
    group: int, members: list[int], parameters: Sequence[Parameter], names: Sequence[str], shape_of: SlotShape
) -> ParameterBlock:
    shapes = [parameters[number].shape for number in members]
    dtype = parameters[members[0]].numpy().dtype
    kept = dtype if dtype in _NATIVE else np.dtype(np.float32)
    slots = tuple(Arena([shape_of(name, shape, group) for shape in shapes], kept) for name in names)
    arena = Arena(shapes, dtype)
    return ParameterBlock(group, tuple(members), arena, slots, arena.flat, tuple(slot.flat for slot in slots))


def _place_in(block: ParameterBlock, place: int) -> ParameterPlace:
    return ParameterPlace(
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
