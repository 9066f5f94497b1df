"""What MindSpore's optimizers hold: groups, rates and slots, of `nn`, `mint.optim` and `experimental.optim` alike."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mindspore

from ....storage.records import Json
from ....storage.run import OptimizerInfo
from ...access.tensors import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Parameters that are stepped with the same options.

    Args:
        rate: A number, a tensor of one, or a schedule: a cell that makes one from the number of the step.
        options: Plain values by name.
    """

    parameters: tuple[Tensor, ...]
    rate: Any
    options: Mapping[str, Json]


def is_optimizer(value: object) -> bool:
    """Whether this is an optimizer of `mindspore.nn`, or of `mindspore.mint.optim` and `experimental.optim`."""
    return isinstance(value, mindspore.nn.Optimizer | mindspore.experimental.optim.Optimizer)


def groups_of(optimizer: Any) -> tuple[Group, ...]:
    """The groups in the order of their first parameters.

    Those of `mindspore.nn` keep rate and decay by parameter and forget the groups: equal ones are one group.
    """
    wrapped = getattr(optimizer, "opt", None)
    if isinstance(wrapped, mindspore.nn.Optimizer):  # LARS keeps a rate of its own that is always 0
        return groups_of(wrapped)
    if hasattr(optimizer, "param_groups"):
        return tuple(Group(tuple(group["params"]), group["lr"], _plain(group)) for group in optimizer.param_groups)
    parameters, common = tuple(optimizer.parameters), _plain(getattr(optimizer, "init_args", {}))
    rates = optimizer.learning_rate
    if not optimizer.is_group:
        rate = rates[0] if optimizer.is_group_lr else rates
        return (Group(parameters, rate, {**common, "weight_decay": _number(optimizer.weight_decay)}),)
    decays = optimizer.group_weight_decay
    members: dict[tuple[int, Json], list[int]] = {}
    for index in range(len(parameters)):
        rate = rates[index] if optimizer.is_group_lr else rates
        members.setdefault((id(rate), _number(decays[index])), []).append(index)
    return tuple(
        Group(
            tuple(parameters[index] for index in indices),
            rates[indices[0]] if optimizer.is_group_lr else rates,
            {**common, "weight_decay": decay},
        )
        for (_, decay), indices in members.items()
    )


def rate_of(group: Group, optimizer: Any) -> float:
    """The rate of the step that comes next; asking a schedule does not move it on."""
    rate = group.rate(optimizer.global_step) if isinstance(group.rate, mindspore.nn.Cell) else group.rate
    return float(rate.asnumpy().item() if isinstance(rate, mindspore.Tensor) else rate)


def slots_of(optimizer: Any) -> dict[str, dict[int, Tensor]]:
    """Slots by the optimizer's own name for them: `id` of a parameter -> its slot.

    A slot is a tuple of parameters as long as the optimizer's own, or as a group's own, one for each of them.
    """
    found: dict[str, dict[int, Tensor]] = {}
    parameters = tuple(optimizer.parameters)
    for _, cell in optimizer.cells_and_names():  # LARS keeps the optimizer that it wraps as a cell of its own
        _take_slots(found, vars(cell).items(), parameters)
    for group in getattr(optimizer, "param_groups", ()):
        _take_slots(found, group.items(), tuple(group["params"]))
    return found


def optimizer_infos(optimizers: Iterable[Any]) -> tuple[OptimizerInfo, ...]:
    """Class and options of every optimizer; options that are no plain values are left out."""
    return tuple(
        OptimizerInfo(
            type(optimizer).__name__,
            tuple({"lr": rate_of(group, optimizer), **group.options} for group in groups_of(optimizer)),
        )
        for optimizer in optimizers
    )


def _take_slots(
    found: dict[str, dict[int, Tensor]], named: Iterable[tuple[str, Any]], parameters: Sequence[Tensor]
) -> None:
    own = {id(parameter) for parameter in parameters}
    for name, value in named:
        if not isinstance(value, tuple | list) or len(value) != len(parameters):
            continue
        if all(isinstance(one, mindspore.Parameter) and id(one) not in own and one.ndim for one in value):
            slots = found.setdefault(name, {})
            slots.update((id(parameter), one) for parameter, one in zip(parameters, value, strict=True))


def _number(value: Any) -> Json:
    """The number, None of a schedule."""
    if isinstance(value, mindspore.nn.Cell):
        return None
    return float(value.asnumpy().item()) if isinstance(value, mindspore.Tensor) else value


def _plain(options: Mapping[str, Any]) -> dict[str, Json]:
    return dict(_plain_items(options))


def _plain_items(options: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    for name, value in options.items():
        if name == "lr" or (isinstance(value, tuple | list) and not all(isinstance(one, int | float) for one in value)):
            continue
        if isinstance(value, tuple | list):
            yield name, list(value)
        elif value is None or isinstance(value, bool | int | float | str):
            yield name, value
