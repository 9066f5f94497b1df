"""What an engine model is made of beside its cells: parameters, and the options of the optimizers that step them."""

from collections.abc import Iterable, Mapping
from typing import Any

from ....framework.tensor import Parameter
from ....storage.records import Json
from ....storage.run import OptimizerInfo


def describe(parameter: Parameter) -> tuple[tuple[int, ...], str, int]:
    """Shape, dtype and memory of a parameter."""
    return parameter.shape, parameter.dtype.name, parameter.numpy().ctypes.data


def optimizer_infos(optimizers: Iterable[Any]) -> tuple[OptimizerInfo, ...]:
    """Class and options of every optimizer; options that are no plain values are left out."""
    return tuple(
        OptimizerInfo(type(optimizer).__name__, tuple(_options(group) for group in optimizer.param_groups))
        for optimizer in optimizers
    )


def _options(group: Mapping[str, Any]) -> dict[str, Json]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in _plain(group.items())}


def _plain(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    return (one for one in items if one[0] != "params" and isinstance(one[1], bool | int | float | str | tuple | None))
