"""Which groups of which optimizers step a parameter."""

from collections.abc import Iterable
from typing import Any

from ..errors import NotWatchable


def check_belongs(optimizer: Any, parameters: Iterable[Any], model: object) -> None:
    """Nothing, if the optimizer steps any of these parameters.

    Raises:
        NotWatchable: It was made for another model.
    """
    mine = {id(one) for one in parameters}
    if not any(id(one) in mine for group in optimizer.param_groups for one in group["params"]):
        raise NotWatchable(
            f"optimizer {type(optimizer).__name__} steps no parameter of {type(model).__name__}; "
            f"pass the optimizer that was made from this model's parameters"
        )


def groups_of(optimizers: Iterable[Any]) -> dict[int, tuple[tuple[int, int], ...]]:
    """(optimizer, group) numbers of every group that holds a parameter, by the parameter's id."""
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    for number, optimizer in enumerate(optimizers):
        for group_number, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                found[id(parameter)] = (*found.get(id(parameter), ()), (number, group_number))
    return found
