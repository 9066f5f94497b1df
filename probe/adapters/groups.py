"""Which groups of which optimizers step a parameter."""

from collections.abc import Iterable
from typing import Any


def groups_of(optimizers: Iterable[Any]) -> dict[int, tuple[tuple[int, int], ...]]:
    """(optimizer, group) numbers of every group that holds a parameter, by the parameter's id."""
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    for number, optimizer in enumerate(optimizers):
        for group_number, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                found[id(parameter)] = (*found.get(id(parameter), ()), (number, group_number))
    return found
