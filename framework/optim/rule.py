"""One update: which kernel moves a parameter by which scalars."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .memory import Place, as_native, is_native


class Rule(NamedTuple):
    """One update: `kernel(weight, gradient, *slots, *scalars)`, all arrays of one dtype, moves its arrays in place.

    `scope` tells what the kernel sees at once: `element` any run of elements, flat; `vector` one parameter, flat;
    `tensor` one parameter in its shape.
    """

    kernel: Callable[..., None]
    scalars: tuple[Any, ...]
    uses_slots: bool = True
    scope: Literal["element", "vector", "tensor"] = "element"


@cache
def load_kernels() -> Any:
    """The module of fused kernels; numba takes half a second to import, so it waits for the first step."""
    return import_module(".kernels", __package__)


def move(place: Place, gradient: NDArray[Any], rule: Rule) -> None:
    """Nothing; weight and slots are moved, half precision by way of a float32 copy."""
    is_flat = rule.scope != "tensor"
    weight, slots = (place.flat_weight, place.flat_slots) if is_flat else (place.weight, place.slots)
    wide = weight if is_native(weight) else weight.astype(np.float32)
    aligned = as_native(gradient, wide.dtype)
    rule.kernel(wide, aligned.reshape(-1) if is_flat else aligned, *(slots if rule.uses_slots else ()), *rule.scalars)
    if wide is not weight:
        weight[...] = wide
