"""The update of one parameter: its kernel, its scalars, and its step count."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np

from ..dtype import Array
from .optimizer_memory import ParameterPlace, as_native, is_native


class UpdateRule(NamedTuple):
    """One update: `kernel(weight, gradient, *slots, *scalars)`, all arrays of one dtype, moves its arrays in place.

    `scope` tells what the kernel sees at once: `element` any run of elements, flat; `vector` one parameter, flat;
    `tensor` one parameter in its shape.
    """

    kernel: Callable[..., None]
    scalars: tuple[object, ...]
    uses_slots: bool = True
    scope: Literal["element", "vector", "tensor"] = "element"


@cache
def load_kernels() -> ModuleType:
    """Return the module of fused kernels; numba takes half a second to import, so it waits for the first step."""
    return import_module(".update_kernels", __package__)


def move(place: ParameterPlace, gradient: Array, rule: UpdateRule) -> None:
    """Update weight and slots in place, half precision by way of a float32 copy."""
    is_flat = rule.scope != "tensor"
    weight, slots = (place.flat_weight, place.flat_slots) if is_flat else (place.weight, place.slots)
    wide = weight if is_native(weight) else weight.astype(np.float32)
    aligned = as_native(gradient, wide.dtype)
    rule.kernel(wide, aligned.reshape(-1) if is_flat else aligned, *(slots if rule.uses_slots else ()), *rule.scalars)
    if wide is not weight:
        weight[...] = wide


#: A gradient of each parameter, None for those that have none.
Gradients = tuple[Array | None, ...]


class StepCounts:
    """How many steps each parameter has made: one number as long as none was left out."""

    __slots__ = ("_each", "common")

    def __init__(self, count: int) -> None:
        self.common: int | None = 0
        self._each = [0] * count

    def each(self) -> list[int]:
        """Return the steps of each parameter, a new list."""
        return list(self._each) if self.common is None else [self.common] * len(self._each)

    def set(self, each: list[int]) -> None:
        """Set the step count of each parameter."""
        self._each = each
        self.common = each[0] if len(set(each)) == 1 else None
