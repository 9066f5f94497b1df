"""What a torch model is made of beside its modules: parameters, and the options of the optimizers that step them."""

from collections.abc import Iterable
from typing import Any

import torch

from ....storage.records import Json
from ....storage.run import OptimizerInfo
from ...access.tensors import Tensor


def describe(parameter: Tensor) -> tuple[tuple[int, ...], str, int]:
    """Shape, dtype and memory of a parameter."""
    shape = () if _is_unborn(parameter) else tuple(parameter.shape)
    return shape, str(parameter.dtype).removeprefix("torch."), memory_of(parameter)


def optimizer_infos(optimizers: Iterable[Any]) -> tuple[OptimizerInfo, ...]:
    """Class and options of every optimizer; options that are no plain values are left out."""
    return tuple(
        OptimizerInfo(type(optimizer).__name__, tuple(_options(group) for group in optimizer.param_groups))
        for optimizer in optimizers
    )


def plain(value: Any) -> Json:
    """The value as JSON can hold it, one-element tensors as numbers.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"no plain value: {type(value).__name__}")


def _options(group: dict[str, Any]) -> dict[str, Json]:
    options: dict[str, Json] = {}
    for name, value in group.items():
        try:
            options[name] = plain(value) if name != "params" else None
        except TypeError:
            continue
    options.pop("params", None)
    return options


def _is_unborn(parameter: Tensor) -> bool:
    return isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin)


def memory_of(parameter: Tensor) -> int:
    """Where the values lie; the parameter's own number where it has none."""
    return id(parameter) if _is_unborn(parameter) else int(parameter.data_ptr()) or id(parameter)
