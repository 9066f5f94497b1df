"""Batching rules of element-wise functions, functions along axes, moves of elements, and random draws."""

from typing import Any, NoReturn

from ..devices import to
from ..ops.create import ones
from ..ops.layout import concat, expand_dims, reshape
from ..primitive import Results
from ..random import Key, fold_in
from ..specs import normalize_axis, reshaped
from ..tensor import Tensor
from .batched import Application, BatchingError, batching


def lined_up(call: Application) -> list[Any]:
    """Return the inputs, with axes of length 1 after the batch axis so that samples of fewer axes broadcast from the
    right."""
    rank = max(call.rank(i) for i in range(len(call.inputs)))
    lined: list[Any] = []
    for i, x in enumerate(call.inputs):
        missing = rank - call.rank(i)
        if call.batched[i] and missing:
            x = reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))
        lined.append(x)
    return lined


#: Element-wise functions whose operands broadcast.
ELEMENTWISE = (
    "abs", "add", "bitcast", "cast", "clip", "complex", "equal", "greater", "greater_equal", "imag", "isclose",
    "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor",
    "not_equal", "polygamma", "real", "where",
)  # fmt: skip


@batching(*ELEMENTWISE)
def _broadcasting(call: Application) -> Tensor:
    """Return an element-wise function of operands that broadcast."""
    return call.apply(*lined_up(call))


@batching("gelu_exact_gradient", "gelu_gradient", "relu_gradient", "silu_gradient")
def _equal_shapes(call: Application) -> Tensor:
    """Return an element-wise function whose kernel wants operands of one shape."""
    return call.apply(*call.every())


@batching(
    *("full_like", "gate", "identity", "mark", "mark_gradient", "observe", "observe_gradient", "segment", "show"),
    "stop_gradient",
)
def _pass_through(call: Application) -> Tensor:
    """Return a function that does not look at the axes: it is shown all samples at once."""
    return call.apply(*call.every())


@batching("fft", "sum")
def _over_axes(call: Application) -> Tensor:
    """Return a function over the attribute `axes`."""
    return call.apply(call.inputs[0], axes=tuple(axis + 1 for axis in call.attributes["axes"]))


@batching("argmax", "argmin")
def _over_one_or_all(call: Application) -> Tensor:
    """Return a reduction over one axis, or over all elements where `axis` is None."""
    x, axis = call.inputs[0], call.attributes["axis"]
    if axis is None:
        return call.apply(reshape(x, (x.shape[0], x.size // (x.shape[0] or 1))), axis=1)
    return call.apply(x, axis=normalize_axis(axis, call.rank(0)) + 1)


#: Functions along the attribute `axis`.
ALONG_AXIS = (
    "concat", "cummax", "cummin", "cumprod", "cumsum", "gather_elements", "irfft", "logcumsumexp", "one_hot", "rfft",
    "scatter_elements", "sort", "split", "topk",
)  # fmt: skip


@batching(*ALONG_AXIS)
def _along_axis(call: Application) -> Tensor:
    """Return a function along the attribute `axis`, counted from the left."""
    return call.apply(*call.every(), axis=call.attributes["axis"] + 1)


@batching("put_elements")
def _into_axis(call: Application) -> Tensor:
    """Add values up along `axis` in zeros of `shape`."""
    shape = (call.level.size, *call.attributes["shape"])
    return call.apply(*call.every(), axis=call.attributes["axis"] + 1, shape=shape)


@batching("log_softmax", "softmax", "softmax_gradient")
def _along_last_axis(call: Application) -> Tensor:
    """Return a function of rows, any number of axes before them."""
    every = call.every()
    if call.rank(0):
        return call.apply(*every)
    return reshape(call.apply(*(reshape(x, (x.shape[0], 1)) for x in every)), (call.level.size,))


@batching("searchsorted")
def _rows_and_values(call: Application) -> Tensor:
    """Find places in sorted rows."""
    row, x = call.inputs
    if not call.batched[0] and call.rank(0) == 1:
        return call.apply(row, x)
    row, x = call.full(0), call.full(1)
    if call.rank(0) > 1:
        return call.apply(row, x)
    return reshape(call.apply(row, reshape(x, (x.shape[0], x.size // (x.shape[0] or 1)))), x.shape)


@batching("reshape")
def _reshape_rule(call: Application) -> Tensor:
    """Reshape each sample."""
    return call.apply(
        call.inputs[0], shape=(call.level.size, *reshaped(call.samples[0].shape, call.attributes["shape"]))
    )


@batching("transpose")
def _transpose_rule(call: Application) -> Tensor:
    """Transpose the axes of each sample."""
    return call.apply(call.inputs[0], axes=(0, *(axis % call.rank(0) + 1 for axis in call.attributes["axes"])))


@batching("swapaxes")
def _swapaxes_rule(call: Application) -> Tensor:
    """Exchange two axes of each sample."""
    first, second = (normalize_axis(call.attributes[name], call.rank(0)) + 1 for name in ("first", "second"))
    return call.apply(call.inputs[0], first=first, second=second)


@batching("broadcast_to")
def _broadcast_to_rule(call: Application) -> Tensor:
    """Repeat each sample."""
    x, shape = call.inputs[0], call.attributes["shape"]
    lined = reshape(x, (x.shape[0], *(1,) * (len(shape) - call.rank(0)), *x.shape[1:]))
    return call.apply(lined, shape=(call.level.size, *shape))


@batching("sum_to")
def _sum_to_rule(call: Application) -> Tensor:
    """Sum each sample to a shape that broadcasts to its own."""
    x, shape = call.inputs[0], call.attributes["shape"]
    kept = (call.level.size, *(1,) * (call.rank(0) - len(shape)), *shape)
    total = x if kept == x.shape else call.apply(x, shape=kept)
    return reshape(total, (call.level.size, *shape))


@batching("pad")
def _pad_rule(call: Application) -> Tensor:
    """Pad each sample; the batch axis gets no padding."""
    return call.apply(call.inputs[0], widths=((0, 0), *call.attributes["widths"]))


@batching("transfer")
def _transfer_rule(call: Application) -> Tensor:
    """Move all samples to another device."""
    return to(call.inputs[0], call.attributes["device"])


@batching("dropout")
def _dropout_rule(call: Application) -> Tensor:
    """Drop elements: in each sample others, or in all the same."""
    x, key = call.full(0), call.inputs[1]
    if call.batched[1] or call.level.randomness == "different":
        return call.apply(x, key)
    if call.level.randomness == "same":
        return x * call.apply(ones(x.shape[1:], x.dtype), key)
    raise BatchingError(
        "'dropout' inside vmap(randomness='error'): pass randomness='different' for another mask for each sample, "
        "or 'same' for one mask"
    )


#: There is no form of these for many samples at once: counts, draws of varying length, recurrences whose kernels take
#: one set of weights.
SEQUENTIAL = (
    "bincount", "gamma", "grouped_matmul", "grouped_outer", "gru", "gru_gradient", "histogram", "lstm", "lstm_gradient",
    "poisson", "rnn", "rnn_gradient",
)  # fmt: skip

#: Draws with a key for each sample: they must give what a loop gives, and every key has a generator of its own.
DRAWS = ("exponential", "normal", "permutation", "randint", "uniform")


@batching(*SEQUENTIAL, *DRAWS)
def one_by_one(call: Application) -> Results:
    """Return a stack of the results for each sample."""
    found = [call.results(*(_sample(x, flag, i) for x, flag in _inputs(call))) for i in range(call.level.size)]
    if isinstance(found[0], tuple):
        return tuple(concat([expand_dims(y, 0) for y in parts]) for parts in zip(*found, strict=True))
    return concat([expand_dims(y, 0) for y in found if isinstance(y, Tensor)])


def _inputs(call: Application) -> list[tuple[Tensor | Key, bool]]:
    return list(zip(call.inputs, call.batched, strict=True))


def _sample(x: Tensor | Key, is_batched: bool, number: int) -> Tensor | Key:
    if not is_batched:
        return x
    return x[number] if isinstance(x, Tensor) else fold_in(x, number)


@batching("nonzero", "unique")
def of_unknown_shape(call: Application) -> NoReturn:
    """Raise: each sample would have another shape."""
    raise BatchingError(
        f"'{call.primitive.name}' gives every sample another shape, so it cannot be mapped; "
        f"use ops.where or a function of fixed shape, or call it outside of vmap"
    )
