"""Batching of randomness: a key for all samples or one for each, as `vmap(randomness=...)` says."""

from typing import Any

from ..ops.array import concat, expand_dims, ones
from ..random import fold_in
from .rule import Application, BatchingError, batching


@batching("dropout")
def dropout(call: Application) -> Any:
    """Elements dropped: in each sample others, or in all the same."""
    x, key = call.full(0), call.inputs[1]
    if call.batched[1] or call.level.randomness == "different":
        return call.apply(x, key)
    if call.level.randomness == "same":
        return x * call.apply(ones(x.shape[1:], x.dtype), key)
    raise BatchingError(
        "'dropout' inside vmap(randomness='error'): pass randomness='different' for another mask for each sample, "
        "or 'same' for one mask"
    )


@batching("normal", "permutation", "uniform")
def draw(call: Application) -> Any:
    """Numbers drawn with a key for each sample, one after the other: they must equal those of a loop."""
    (base,) = call.inputs
    return concat([expand_dims(call.apply(fold_in(base, i)), 0) for i in range(call.level.size)])
