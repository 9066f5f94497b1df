"""The few primitives whose samples are computed one after the other, and those that cannot be mapped at all."""

from typing import Any, NoReturn

from ..ops.array import expand_dims
from ..ops.join import concat
from ..random import fold_in
from ..tensor import Tensor
from .rule import Application, BatchingError, batching

__all__ = ["DRAWS", "SEQUENTIAL"]

#: There is no form of these for many samples at once: counts, draws of varying length, recurrences whose kernels take
#: one set of weights.
SEQUENTIAL = (
    "bincount", "gamma", "grouped_matmul", "grouped_outer", "gru", "gru_gradient", "histogram", "lstm", "lstm_gradient",
    "poisson", "rnn", "rnn_gradient",
)  # fmt: skip

#: Draws with a key for each sample: they must give what a loop gives, and every key has a generator of its own.
DRAWS = ("exponential", "normal", "permutation", "randint", "uniform")


@batching(*SEQUENTIAL, *DRAWS)
def one_by_one(call: Application) -> Any:
    """A stack of the results for each sample."""
    found = [call.apply(*(_sample(x, flag, i) for x, flag in _inputs(call))) for i in range(call.level.size)]
    if isinstance(found[0], tuple):
        return tuple(concat([expand_dims(y, 0) for y in parts]) for parts in zip(*found, strict=True))
    return concat([expand_dims(y, 0) for y in found])


def _inputs(call: Application) -> list[tuple[Any, bool]]:
    return list(zip(call.inputs, call.batched, strict=True))


def _sample(x: Any, is_batched: bool, number: int) -> Any:
    if not is_batched:
        return x
    return x[number] if isinstance(x, Tensor) else fold_in(x, number)


@batching("nonzero", "unique")
def of_unknown_shape(call: Application) -> NoReturn:
    """Never: each sample would have another shape."""
    raise BatchingError(
        f"'{call.primitive.name}' gives every sample another shape, so it cannot be mapped; "
        f"use ops.where or a function of fixed shape, or call it outside of vmap"
    )
