"""The few primitives whose samples are computed one after the other, and those that cannot be mapped at all."""

from typing import Any, NoReturn

from ..ops.array import concat, expand_dims
from ..tensor import Tensor
from .rule import Application, BatchingError, batching

__all__ = ["SEQUENTIAL"]

#: NumPy has no form of these for many samples at once.
SEQUENTIAL = ("bincount", "histogram")


@batching(*SEQUENTIAL)
def one_by_one(call: Application) -> Any:
    """A stack of the results for each sample."""
    found = [call.apply(*(_sample(x, flag, i) for x, flag in _inputs(call))) for i in range(call.level.size)]
    if isinstance(found[0], tuple):
        return tuple(concat([expand_dims(y, 0) for y in parts]) for parts in zip(*found, strict=True))
    return concat([expand_dims(y, 0) for y in found])


def _inputs(call: Application) -> list[tuple[Any, bool]]:
    return list(zip(call.inputs, call.batched, strict=True))


def _sample(x: Any, is_batched: bool, number: int) -> Any:
    return x[number] if is_batched and isinstance(x, Tensor) else x


@batching("nonzero", "unique")
def of_unknown_shape(call: Application) -> NoReturn:
    """Never: each sample would have another shape."""
    raise BatchingError(
        f"'{call.primitive.name}' gives every sample another shape, so it cannot be mapped; "
        f"use ops.where or a function of fixed shape, or call it outside of vmap"
    )
