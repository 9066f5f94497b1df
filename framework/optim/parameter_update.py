"""The update of one parameter: its kernel and scalars, its step count, and the checks of its gradient and state."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..dtype import Array, is_floating
from ..errors import ShapeError
from ..tensor import Parameter, Tensor
from .optimizer_memory import ParameterPlace, as_native, is_native

if TYPE_CHECKING:
    from .optimizer import Optimizer


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


def checked(optimizer: "Optimizer", parameter: Parameter, gradient: Array) -> Array:
    """Return the gradient, if it is one of that parameter."""
    if gradient.shape != parameter.shape:
        raise ShapeError(
            f"{type(optimizer).__name__} expects a gradient of shape {parameter.shape} for parameter "
            f"'{parameter.name}', got {gradient.shape}"
        )
    if not is_floating(gradient.dtype):
        raise TypeError(
            f"{type(optimizer).__name__} expects a floating-point gradient for '{parameter.name}', got {gradient.dtype}"
        )
    return gradient


def differences(optimizer: "Optimizer", state: Mapping[str, Any]) -> list[str]:
    """Return what keeps the optimizer from taking this state, fault by fault."""
    missing = [key for key in ("kind", "step_count", "steps", "groups", "slots") if key not in state]
    if missing:
        return [f"{', '.join(missing)} missing"]
    faults = []
    if state["kind"] != type(optimizer).__name__:
        faults.append(f"it was saved by {state['kind']}")
    if len(state["groups"]) != len(optimizer.param_groups):
        faults.append(f"expected {len(optimizer.param_groups)} groups, got {len(state['groups'])}")
    if len(state["steps"]) != len(optimizer.parameters):
        faults.append(f"expected {len(optimizer.parameters)} parameters, got {len(state['steps'])}")
        return faults
    if set(state["slots"]) != set(optimizer.slots()):
        faults.append(f"expected slots {sorted(optimizer.slots())}, got {sorted(state['slots'])}")
        return faults
    for name, arrays in optimizer.slots().items():
        for parameter, array, saved in zip(optimizer.parameters, arrays, state["slots"][name], strict=True):
            if np.shape(saved) != array.shape:
                faults.append(f"{name} of '{parameter.name}' has shape {np.shape(saved)}, expected {array.shape}")
    return faults


class LaterStep:
    """A step that a compiled function makes at the end of each of its runs.

    Args:
        optimizer: Whose step.
        places: Which of its parameters have a gradient.
    """

    __slots__ = ("_optimizer", "_places")

    def __init__(self, optimizer: "Optimizer", places: tuple[bool, ...]) -> None:
        self._optimizer, self._places = optimizer, places

    def __call__(self, *gradients: Tensor) -> None:
        """Make the step."""
        rest = iter(gradients)
        self._optimizer([next(rest) if is_there else None for is_there in self._places])

    def destinations(self) -> tuple[Array, ...]:
        """Return where the gradients are wanted: a graph that writes them there saves the step a pass over them."""
        views = self._optimizer.gradient_arena().views
        return tuple(view for view, is_there in zip(views, self._places, strict=True) if is_there)


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
