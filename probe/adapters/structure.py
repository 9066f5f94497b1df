"""What is trained, as every adapter tells it: modules, parameters with their groups, and optimizers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...storage.run import OptimizerInfo, ParameterInfo, Structure
from ..collectors.collector import COLLECTORS
from .order import CallOrder

#: Shape and dtype of a parameter, and a number for where its values lie: those that share memory have the same.
Describe = Callable[[Any], tuple[tuple[int, ...], str, int]]
#: (optimizer, group) numbers of every group that holds a parameter, by the parameter's id.
Groups = Mapping[int, tuple[tuple[int, int], ...]]


def structure_of(
    order: CallOrder,
    named: Iterable[tuple[str, Any]],
    optimizers: tuple[OptimizerInfo, ...],
    *,
    groups: Groups,
    describe: Describe,
) -> Structure:
    """Modules in the order of their first calls, all parameters by site, the optimizers, and the subjects recorded."""
    subjects = tuple(name for name, entry in COLLECTORS.items() if entry.columns)
    return Structure(order.modules(), _parameter_infos(named, groups, describe), optimizers, subjects)


def _parameter_infos(named: Iterable[tuple[str, Any]], groups: Groups, describe: Describe) -> tuple[ParameterInfo, ...]:
    storages: dict[int, int] = {}
    infos: list[ParameterInfo] = []
    for name, parameter in named:
        shape, dtype, memory = describe(parameter)
        mine = groups.get(id(parameter), ())
        first, storage = next(iter(mine), None), storages.setdefault(memory, len(storages))
        infos.append(ParameterInfo(name, shape, dtype, parameter.requires_grad, first, storage, mine[1:]))
    return tuple(infos)
