"""Batching of randomness: a key for all samples or one for each, as `vmap(randomness=...)` says."""

from typing import Any

from ..ops.create import ones
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
