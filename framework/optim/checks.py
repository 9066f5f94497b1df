"""Gradients and states that do not fit an optimizer, and what to say of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..dtype import is_floating
from ..errors import ShapeError
from ..tensor import Parameter

if TYPE_CHECKING:
    from .optimizer import Optimizer

#: A gradient of each parameter, None for those that have none.
Gradients = tuple[NDArray[Any] | None, ...]


def checked(optimizer: "Optimizer", parameter: Parameter, gradient: NDArray[Any]) -> NDArray[Any]:
    """The gradient, if it is one of that parameter."""
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
    """What keeps the optimizer from taking this state, fault by fault."""
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
