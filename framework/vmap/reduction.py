"""Batching of what works along axes: the batch axis in front moves each of them by one."""

from typing import Any

from ..ops.array import reshape
from ..shape import normalize_axis
from .rule import Application, batching


@batching("fft", "sum")
def over_axes(call: Application) -> Any:
    """A function over the attribute `axes`."""
    return call.apply(call.inputs[0], axes=tuple(axis + 1 for axis in call.attributes["axes"]))


@batching("argmax", "argmin")
def over_one_or_all(call: Application) -> Any:
    """A reduction over one axis, or over all elements where `axis` is None."""
    x, axis = call.inputs[0], call.attributes["axis"]
    if axis is None:
        return call.apply(reshape(x, (x.shape[0], x.size // (x.shape[0] or 1))), axis=1)
    return call.apply(x, axis=normalize_axis(axis, call.rank(0)) + 1)


@batching(
    "concat", "cummax", "cummin", "cumprod", "cumsum", "gather_elements", "irfft", "logcumsumexp", "one_hot", "rfft",
    "scatter_elements", "sort", "split", "topk",
)  # fmt: skip
def along_axis(call: Application) -> Any:
    """A function along the attribute `axis`, counted from the left."""
    return call.apply(*call.every(), axis=call.attributes["axis"] + 1)


@batching("put_elements")
def into_axis(call: Application) -> Any:
    """Values added up along `axis` in zeros of `shape`."""
    shape = (call.level.size, *call.attributes["shape"])
    return call.apply(*call.every(), axis=call.attributes["axis"] + 1, shape=shape)


@batching("log_softmax", "softmax", "softmax_gradient")
def along_last_axis(call: Application) -> Any:
    """A function of rows, any number of axes before them."""
    every = call.every()
    if call.rank(0):
        return call.apply(*every)
    return reshape(call.apply(*(reshape(x, (x.shape[0], 1)) for x in every)), (call.level.size,))


@batching("searchsorted")
def rows_and_values(call: Application) -> Any:
    """Places in sorted rows."""
    row, x = call.inputs
    if not call.batched[0] and call.rank(0) == 1:
        return call.apply(row, x)
    row, x = call.full(0), call.full(1)
    if call.rank(0) > 1:
        return call.apply(row, x)
    return reshape(call.apply(row, reshape(x, (x.shape[0], x.size // (x.shape[0] or 1)))), x.shape)
