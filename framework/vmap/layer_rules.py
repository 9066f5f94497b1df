"""Batching rules of products, linear algebra, normalizations, convolutions and pools."""

from string import ascii_letters

from ..ops.arithmetic_ops import add, divide, multiply
from ..ops.convolution_ops import ConvolutionWindow
from ..ops.create import full
from ..ops.layout import reshape, transpose
from ..ops.matrix_products import matmul
from ..ops.reduce import mean, sum_to
from ..ops.transcendental import sqrt
from ..primitive import PRIMITIVES, Results
from ..tensor import Tensor
from .array_rules import lined_up
from .batched import Application, batching


def _merged(x: Tensor, axis: int) -> Tensor:
    """Return the batch axis (0) joined with axis `axis` of a sample, samples first."""
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.ndim))
    shape = x.shape[1:]
    joined = (*shape[:axis], x.shape[0] * shape[axis], *shape[axis + 1 :])
    return reshape(x if axis == 0 else transpose(x, order), joined)


def _parted(x: Tensor, axis: int, size: int) -> Tensor:
    """Take apart what `_merged` has joined: the batch axis in front again."""
    shape = (*x.shape[:axis], size, x.shape[axis] // (size or 1), *x.shape[axis + 1 :])
    separated = reshape(x, shape)
    return separated if axis == 0 else transpose(separated, (axis, *range(axis), *range(axis + 1, separated.ndim)))


@batching("matmul")
def _matmul_rule(call: Application) -> Tensor:
    """Return a product of matrices; vectors become matrices of one row or column."""
    a, b = call.inputs
    rows, columns = call.rank(0), call.rank(1)
    if rows == 1:
        a = reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    if columns == 1:
        b = reshape(b, (*b.shape, 1))
    if call.batched[1] or not (call.batched[0] and columns <= 2):
        a, b = _stacks(call, a, b)
    found = matmul(a, b)
    shape = found.shape
    if columns == 1:
        shape = shape[:-1]
    if rows == 1:
        shape = (*shape[: -2 + (columns == 1)], *shape[len(shape) - 1 + (columns == 1) :])
    return found if shape == found.shape else reshape(found, shape)


def _stacks(call: Application, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the operands, the leading axes of their samples lined up."""
    rank = max(a.ndim - call.batched[0], b.ndim - call.batched[1])
    lined = []
    for x, is_batched in ((a, call.batched[0]), (b, call.batched[1])):
        missing = rank + is_batched - x.ndim
        lined.append(reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:])) if is_batched and missing else x)
    return lined[0], lined[1]


@batching("linear")
def _linear_rule(call: Application) -> Tensor:
    """Compute `x weight^T + bias`; with one weight for all samples they are rows of one product."""
    if not call.batched[1] and not call.batched[2]:
        return call.apply(*call.inputs)
    x, weight, bias = call.samples
    return call.whole(add(matmul(x, weight.swapaxes(-1, -2)), bias))


@batching("einsum")
def _einsum_rule(call: Application) -> Tensor:
    """Add a letter for the samples to each batched operand and to the result."""
    left, result = call.attributes["subscripts"].replace(" ", "").split("->")
    letter = next(letter for letter in ascii_letters if letter not in left + result)
    terms = [letter * is_batched + term for term, is_batched in zip(left.split(","), call.batched, strict=True)]
    return call.apply(*call.inputs, subscripts=f"{','.join(terms)}->{letter}{result}")


#: Functions of the last two axes.
OF_MATRICES = ("cholesky", "det", "eigh", "inv", "pinv", "qr", "slogdet", "solve", "svd", "triangular_solve")


@batching(*OF_MATRICES)
def _stacks_of_matrices(call: Application) -> Tensor:
    """Return a function of the last two axes, any number before them, which broadcast."""
    return call.apply(*lined_up(call))


@batching("attention", "attention_gradient")
def _attention_rule(call: Application) -> Tensor:
    """Attend with the samples as one more axis in front; a mask broadcasts from the right."""
    tensors = 3 if call.primitive.name == "attention" else 6
    every = [call.full(i) for i in range(tensors)]
    for i in range(tensors, len(call.inputs)):
        mask, missing = call.inputs[i], call.rank(1) - call.rank(i)
        ones = (1,) * missing
        every.append(reshape(mask, (mask.shape[0], *ones, *mask.shape[1:])) if call.batched[i] else mask)
    return call.apply(*every)


@batching("layer_norm", "rms_norm")
def _row_norm_rule(call: Application) -> Tensor:
    """Return normalized rows; a scale for each sample is applied afterwards."""
    x = call.samples[0]
    if not any(call.batched[1:]):
        return call.apply(*call.inputs)
    gamma, *beta = call.samples[1:]
    plain = [full(x.shape[-1:], value, x.dtype) for value in (1.0, 0.0)[: len(call.inputs) - 1]]
    scaled = multiply(call.apply(x, *plain), gamma)
    return call.whole(add(scaled, beta[0]) if beta else scaled)


@batching("layer_norm_gradient")
def _layer_norm_gradient_rule(call: Application) -> Results:
    """Return the three gradients of each sample, from basic operations: the kernel would add up the samples' rows."""
    g, x, gamma = call.samples
    centred = x - mean(x, -1, keepdims=True)
    scale = divide(1.0, sqrt(mean(centred * centred, -1, keepdims=True) + call.attributes["epsilon"]))
    normal = centred * scale
    weighted = g * gamma
    along = mean(weighted * normal, -1, keepdims=True)
    of_x = scale * (weighted - mean(weighted, -1, keepdims=True) - normal * along)
    return tuple(call.whole(y) for y in (of_x, sum_to(g * normal, gamma.shape), sum_to(g, gamma.shape)))


@batching("rms_norm_gradient")
def _rms_norm_gradient_rule(call: Application) -> Results:
    """Return the two gradients of each sample, from basic operations."""
    g, x, gamma = call.samples
    scale = divide(1.0, sqrt(mean(x * x, -1, keepdims=True) + call.attributes["epsilon"]))
    weighted = g * gamma
    along = mean(weighted * x, -1, keepdims=True)
    of_x = scale * weighted - x * along * scale * scale * scale
    return tuple(call.whole(y) for y in (of_x, sum_to(g * x * scale, gamma.shape)))


@batching("batch_norm", "batch_norm_gradient")
def _batch_norm_rule(call: Application) -> Results:
    """Return moments of each channel of each sample: the samples join the channels."""
    joined = [_merged(x, 1 if call.rank(i) > 1 else 0) for i, x in enumerate(call.every())]
    return tuple(_parted(y, 1 if y.ndim > 1 else 0, call.level.size) for y in call.apply(*joined))


def _grouped(call: Application) -> ConvolutionWindow:
    """Return the window with a set of groups for each sample."""
    window: ConvolutionWindow = call.attributes["window"]
    return window._replace(groups=window.groups * call.level.size)


@batching("conv")
def _conv_rule(call: Application) -> Tensor:
    """Convolve; with a weight for each sample the samples are groups."""
    size = call.level.size
    if not call.batched[1]:
        return _parted(call.apply(_merged(call.inputs[0], 0), call.inputs[1]), 0, size)
    if not call.batched[0] and call.attributes["window"].groups == 1:
        return _parted(call.apply(call.inputs[0], _merged(call.inputs[1], 0)), 1, size)
    found = call.apply(_merged(call.full(0), 1), _merged(call.full(1), 0), window=_grouped(call))
    return _parted(found, 1, size)


@batching("conv_bias")
def _conv_bias_rule(call: Application) -> Tensor:
    """Convolve and add a bias for each channel."""
    if not call.batched[1] and not call.batched[2]:
        return _parted(call.apply(_merged(call.inputs[0], 0), *call.inputs[1:]), 0, call.level.size)
    x, weight, bias = call.samples
    plain = PRIMITIVES["conv"](x, weight, **call.attributes)
    return call.whole(add(plain, reshape(bias, (bias.shape[0], *(1,) * (plain.ndim - 2)))))


@batching("conv_input_gradient")
def _conv_input_gradient_rule(call: Application) -> Tensor:
    """Return the transpose of a convolution by its weight."""
    size, shape = call.level.size, call.attributes["shape"]
    if not call.batched[1]:
        merged_shape = (size * shape[0], *shape[1:])
        return _parted(call.apply(_merged(call.inputs[0], 0), call.inputs[1], shape=merged_shape), 0, size)
    wide = (shape[0], size * shape[1], *shape[2:])
    found = call.apply(_merged(call.full(0), 1), _merged(call.full(1), 0), window=_grouped(call), shape=wide)
    return _parted(found, 1, size)


@batching("conv_weight_gradient")
def _conv_weight_gradient_rule(call: Application) -> Tensor:
    """Return the gradient of a convolution by its weight, for each sample its own."""
    size, shape = call.level.size, call.attributes["shape"]
    tall = (size * shape[0], *shape[1:])
    found = call.apply(_merged(call.full(0), 1), _merged(call.full(1), 1), window=_grouped(call), shape=tall)
    return _parted(found, 0, size)


#: Functions of each row of axis 0 by itself.
OF_ROWS = (
    "avg_pool", "avg_pool_gradient", "cross_entropy", "cross_entropy_gradient", "max_pool", "pick_places", "put_places",
)  # fmt: skip


@batching(*OF_ROWS)
def _images_rule(call: Application) -> Results:
    """Return a function of each row of axis 0 by itself, which the samples join."""
    changed = {}
    if "shape" in call.attributes:
        shape = call.attributes["shape"]
        changed["shape"] = (call.level.size * shape[0], *shape[1:])
    found = call.results(*(_merged(x, 0) for x in call.every()), **changed)
    if isinstance(found, tuple):
        return tuple(_parted(y, 0, call.level.size) for y in found)
    return _parted(found, 0, call.level.size)
