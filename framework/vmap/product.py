"""Batching of products: stacks of matrices, and one more letter for Einstein's sums."""

from string import ascii_letters
from typing import Any

from ..ops.arithmetic import add
from ..ops.array import reshape
from ..ops.linalg import matmul as product
from .elementwise import lined_up
from .rule import Application, batching


@batching("matmul")
def matmul(call: Application) -> Any:
    """A product of matrices; vectors become matrices of one row or column."""
    a, b = call.inputs
    rows, columns = call.rank(0), call.rank(1)
    if rows == 1:
        a = reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    if columns == 1:
        b = reshape(b, (*b.shape, 1))
    if call.batched[1] or not (call.batched[0] and columns <= 2):
        a, b = _stacks(call, a, b)
    found = product(a, b)
    shape = found.shape
    if columns == 1:
        shape = shape[:-1]
    if rows == 1:
        shape = (*shape[: -2 + (columns == 1)], *shape[len(shape) - 1 + (columns == 1) :])
    return found if shape == found.shape else reshape(found, shape)


def _stacks(call: Application, a: Any, b: Any) -> tuple[Any, Any]:
    """The operands, the leading axes of their samples lined up."""
    rank = max(a.ndim - call.batched[0], b.ndim - call.batched[1])
    lined = []
    for x, is_batched in ((a, call.batched[0]), (b, call.batched[1])):
        missing = rank + is_batched - x.ndim
        lined.append(reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:])) if is_batched and missing else x)
    return lined[0], lined[1]


@batching("linear")
def linear(call: Application) -> Any:
    """`x weight^T + bias`; with one weight for all samples they are rows of one product."""
    if not call.batched[1] and not call.batched[2]:
        return call.apply(*call.inputs)
    x, weight, bias = call.samples
    return call.whole(add(product(x, weight.swapaxes(-1, -2)), bias))


@batching("einsum")
def einsum(call: Application) -> Any:
    """A letter more for the samples, in each batched operand and in the result."""
    left, result = call.attributes["subscripts"].replace(" ", "").split("->")
    letter = next(letter for letter in ascii_letters if letter not in left + result)
    terms = [letter * is_batched + term for term, is_batched in zip(left.split(","), call.batched, strict=True)]
    return call.apply(*call.inputs, subscripts=f"{','.join(terms)}->{letter}{result}")


@batching(
    "cholesky", "det", "eigh", "inv", "pinv", "qr", "slogdet", "solve", "svd",
    "triangular_solve",
)  # fmt: skip
def stacks_of_matrices(call: Application) -> Any:
    """A function of the last two axes, any number before them, which broadcast."""
    return call.apply(*lined_up(call))


@batching("attention", "attention_gradient")
def attention(call: Application) -> Any:
    """Attention with the samples as one more axis in front; a mask broadcasts from the right."""
    tensors = 3 if call.primitive.name == "attention" else 6
    every = [call.full(i) for i in range(tensors)]
    for i in range(tensors, len(call.inputs)):
        mask, missing = call.inputs[i], call.rank(1) - call.rank(i)
        ones = (1,) * missing
        every.append(reshape(mask, (mask.shape[0], *ones, *mask.shape[1:])) if call.batched[i] else mask)
    return call.apply(*every)
