"""What a MindSpore model is made of beside its cells: parameters, and the groups that step them."""

from collections.abc import Iterable
from typing import Any

from ...access.tensors import Tensor
from .optimizers import groups_of


def describe(parameter: Tensor) -> tuple[tuple[int, ...], str, int]:
    """Shape, dtype and memory of a parameter."""
    return tuple(parameter.shape), str(parameter.dtype).lower(), parameter.data_ptr() or id(parameter)


def stepping_groups(optimizers: Iterable[Any]) -> dict[int, tuple[tuple[int, int], ...]]:
    """(optimizer, group) numbers of the last group that holds a parameter, by the parameter's id."""
    return {
        id(parameter): ((number, group_number),)
        for number, optimizer in enumerate(optimizers)
        for group_number, group in enumerate(groups_of(optimizer))
        for parameter in group.parameters
    }
