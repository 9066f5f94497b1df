"""Batching of element-wise primitives: the samples of all operands are lined up, then NumPy broadcasts."""

from typing import Any

from ..ops.array import reshape
from .rule import Application, batching


def lined_up(call: Application) -> list[Any]:
    """The inputs, with axes of length 1 after the batch axis so that samples of fewer axes broadcast from the right."""
    rank = max(call.rank(i) for i in range(len(call.inputs)))
    lined: list[Any] = []
    for i, x in enumerate(call.inputs):
        missing = rank - call.rank(i)
        if call.batched[i] and missing:
            x = reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))
        lined.append(x)
    return lined


@batching(
    "abs",
    "add", "bitcast", "cast", "clip", "complex", "equal", "greater", "greater_equal", "imag", "isclose", "isfinite",
    "isinf", "isnan", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal",
    "polygamma", "real", "where",
)  # fmt: skip
def broadcasting(call: Application) -> Any:
    """An element-wise function of operands that broadcast."""
    return call.apply(*lined_up(call))


@batching("gelu_exact_gradient", "gelu_gradient", "relu_gradient", "silu_gradient")
def equal_shapes(call: Application) -> Any:
    """An element-wise function whose kernel wants operands of one shape."""
    return call.apply(*call.every())


@batching(
    *("full_like", "gate", "identity", "mark", "mark_gradient", "observe", "observe_gradient", "segment", "show"),
    "stop_gradient",
)
def as_it_is(call: Application) -> Any:
    """A function that does not look at the axes: it is shown all samples at once."""
    return call.apply(*call.every())
