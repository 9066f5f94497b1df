"""What networks are made of: matrix products, convolution, pooling, normalization."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import ops
from ...ops.sliding_window import ConvolutionOptions, Padding, PoolOptions
from ...tensor import Tensor, wrap
from ..onnx_values import dtype_of
from ..operator_call import Elements, OperatorCall, operator, whole_numbers


@operator("MatMul")
def matmul(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return `a @ b`, as NumPy broadcasts it."""
    return ops.matmul(a, b)


@operator("Gemm")
def gemm(call: OperatorCall, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """Return `alpha a b + beta c`, either matrix transposed if asked for."""
    a = a.transpose(1, 0) if call.get("transA", 0) else a
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    is_layer = call.get("transB", 0) and alpha == beta == 1.0
    if is_layer and c is not None and c.shape == b.shape[:1] and a.dtype.kind == "f":
        return ops.linear(a, b, c)
    b = b.transpose(1, 0) if call.get("transB", 0) else b
    out = ops.matmul(a, b)
    if alpha != 1.0:
        out = ops.cast(out * alpha, a.dtype)
    if c is None or beta == 0.0:
        return out
    return out + (c if beta == 1.0 else ops.cast(c * beta, a.dtype))


@operator("Einsum")
def einsum(call: OperatorCall, *operands: Tensor) -> Tensor:
    """Return the sum of products that the equation describes."""
    left, _, result = _complete(call.get("equation").replace(" ", "")).partition("->")
    pairs = [_distinct(x, term) for x, term in zip(operands, left.split(","), strict=True)]
    return ops.einsum(f"{','.join(term for _, term in pairs)}->{result}", *(x for x, _ in pairs))


@operator("Det")
def determinant(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the determinants of square matrices."""
    found: Tensor = ops.det(x)
    return found


def _complete(equation: str) -> str:
    """Return the equation with its result written out: letters that appear once, in the order of the alphabet."""
    if "->" in equation:
        return equation
    letters = equation.replace(",", "").replace("...", "")
    once = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    return f"{equation}->{'...' if '...' in equation else ''}{once}"


def _distinct(x: Tensor, term: str) -> tuple[Tensor, str]:
    """Return the operand and its letters, with a diagonal taken for every letter that stands there twice."""
    for letter in sorted(set(term) - {"."}):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            hidden = x.ndim - len(term.replace("...", ""))  # axes that the dots stand for
            places = [i + (hidden - 3 if "..." in term[:i] else 0) for i in (first, second)]
            x = ops.diagonal(x, 0, *places)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term


_AUTO: dict[str, Padding] = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}
_CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_CONV_TRANSPOSE = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
_AVG_POOL = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


def padding_of(call: OperatorCall, axes: int) -> Padding:
    """Return the padding as the engine takes it."""
    auto = call.get("auto_pad", "NOTSET")
    if auto in _AUTO:
        return _AUTO[auto]
    pads = call.get("pads", (0,) * 2 * axes)
    return tuple(zip(pads[:axes], pads[axes:], strict=True))


def _how(call: OperatorCall, axes: int) -> ConvolutionOptions:
    return {
        "stride": call.get("strides", 1),
        "padding": padding_of(call, axes),
        "dilation": call.get("dilations", 1),
        "groups": call.get("group", 1),
    }


def _known(call: OperatorCall, table: Mapping[int, Callable[..., Tensor]], axes: int) -> Callable[..., Tensor]:
    if axes not in table:
        raise call.refuse(f"windows over {axes} axes (1 to 3 are possible)")
    return table[axes]


@operator("Conv")
def conv(call: OperatorCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return images correlated with weights."""
    axes = x.ndim - 2
    return _known(call, _CONV, axes)(x, weight, bias, **_how(call, axes))


@operator("ConvTranspose")
def conv_transpose(call: OperatorCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the transpose of a convolution; with `output_shape` the padding follows from it."""
    axes = x.ndim - 2
    how = _how(call, axes)
    extra = call.get("output_padding", (0,) * axes)
    wanted = call.get("output_shape")
    if wanted is not None:
        how["padding"] = _padding_for(call, x, weight, wanted[-axes:], extra)
    return _known(call, _CONV_TRANSPOSE, axes)(x, weight, bias, output_padding=extra, **how)


def _padding_for(
    call: OperatorCall, x: Tensor, weight: Tensor, wanted: tuple[int, ...], extra: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    axes = x.ndim - 2
    stride, dilation = call.get("strides", (1,) * axes), call.get("dilations", (1,) * axes)
    sides = []
    for i in range(axes):
        natural = stride[i] * (x.shape[2 + i] - 1) + extra[i] + (weight.shape[2 + i] - 1) * dilation[i] + 1
        total = natural - wanted[i]
        half = total // 2
        sides.append((half, total - half) if call.get("auto_pad") == "SAME_UPPER" else (total - half, half))
    return tuple(sides)


@operator("DeformConv")
def deform_conv(
    call: OperatorCall,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return convolution whose window's elements are moved by offsets."""
    if x.ndim != 4:
        raise call.refuse(f"a deformed convolution over {x.ndim - 2} axes (2 are possible)")
    how: Any = _how(call, 2)  # the operation takes pairs of padding only
    return ops.deform_conv(x, weight, offset, bias, mask, offset_groups=call.get("offset_group", 1), **how)


def _pool_how(call: OperatorCall, axes: int) -> PoolOptions:
    return {
        "stride": call.get("strides", 1),
        "padding": padding_of(call, axes),
        "dilation": call.get("dilations", 1),
        "ceil_mode": bool(call.get("ceil_mode", 0)),
    }


@operator("MaxPool")
def max_pool(call: OperatorCall, x: Tensor) -> tuple[Tensor, ...]:
    """Return the largest element of each window, and its place in the flattened tensor."""
    values, places = ops.max_pool_with_places(x, call.get("kernel_shape"), **_pool_how(call, x.ndim - 2))
    if not call.wants(1):
        return (values,)
    lengths = x.shape[2:]
    flat = ops.cast(places, "int64")
    if call.get("storage_order", 0):
        flat = _column_major(flat, lengths)
    plane = int(np.prod(lengths))
    first = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(lengths)) * plane
    return values, flat + wrap(first)


def _column_major(places: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """Return places in a plane, counted with the first axis running fastest."""
    total: Tensor | None = None
    step = 1
    rest = places
    below = int(np.prod(lengths))
    for length in lengths:
        below //= length
        coordinate = ops.floor_divide(rest, below)
        rest = rest - coordinate * below
        total = coordinate * step if total is None else total + coordinate * step
        step *= length
    assert total is not None  # a plane has axes
    return total


@operator("MaxUnpool")
def max_unpool(call: OperatorCall, x: Tensor, places: Tensor, shape: Elements | None = None) -> Tensor:
    """Return zeros with each element at its place in the flattened tensor that was pooled."""
    axes = x.ndim - 2
    kernel, stride = call.get("kernel_shape"), call.get("strides", (1,) * axes)
    pads = call.get("pads", (0,) * 2 * axes)
    pooled = (
        *x.shape[:2],
        *((x.shape[2 + i] - 1) * stride[i] + kernel[i] - pads[i] - pads[axes + i] for i in range(axes)),
    )
    plane = int(np.prod(pooled[2:]))
    whole = whole_numbers(shape) if shape is not None else pooled
    out = ops.max_unpool(x, ops.remainder(places, plane), pooled)
    # In a larger result the elements keep their coordinates.
    return ops.pad(out, [(0, more - had) for more, had in zip(whole, pooled, strict=True)])


@operator("AveragePool")
def average_pool(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the mean of each window, without padding unless `count_include_pad`."""
    axes = x.ndim - 2
    how = _pool_how(call, axes)
    include = bool(call.get("count_include_pad", 0))
    return _known(call, _AVG_POOL, axes)(x, call.get("kernel_shape"), count_include_pad=include, **how)


@operator("LpPool")
def lp_pool(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the p-norm of each window."""
    return ops.lp_pool(x, float(call.get("p", 2)), call.get("kernel_shape"), **_pool_how(call, x.ndim - 2))


@operator("GlobalAveragePool")
def global_average_pool(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the mean of each channel."""
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the largest element of each channel."""
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the p-norm of each channel."""
    p = float(call.get("p", 2))
    return (abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1.0 / p)


@operator("Col2Im")
def col2im(call: OperatorCall, columns: Tensor, image: Elements, block: Elements) -> Tensor:
    """Return columns added up in images."""
    lengths, kernel = whole_numbers(image), whole_numbers(block)
    axes = len(lengths)
    if axes > 3:
        raise call.refuse(f"images of {axes} axes (1 to 3 are possible)")
    return ops.fold(columns, lengths, kernel, call.get("strides", 1), padding_of(call, axes), call.get("dilations", 1))


@operator("BatchNormalization")
def batch_norm(
    call: OperatorCall, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> tuple[Tensor, ...]:
    """Return the images normalized by the moments given; in training by their own, which move the running ones."""
    epsilon, momentum = call.get("epsilon", 1e-5), call.get("momentum", 0.9)
    if not call.get("training_mode", 0):
        return (ops.cast(ops.batch_norm_inference(x, scale, bias, mean, var, epsilon), x.dtype),)
    axes = (0, *range(2, x.ndim))
    own_mean, own_var = x.mean(axes), x.var(axes)
    out = ops.batch_norm(x, scale, bias, epsilon)[0]
    return out, mean * momentum + own_mean * (1 - momentum), var * momentum + own_var * (1 - momentum)


@operator("InstanceNormalization")
def instance_norm(call: OperatorCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Return each channel of each image normalized by its own moments."""
    return _by_moments(x, tuple(range(2, x.ndim)), call.get("epsilon", 1e-5), scale, bias)


def _by_moments(x: Tensor, axes: tuple[int, ...], epsilon: float, scale: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(axes, keepdims=True)
    shape = (-1, *(1,) * (x.ndim - 2))
    normal = centred / ops.sqrt((centred * centred).mean(axes, keepdims=True) + epsilon)
    return normal * scale.reshape(shape) + bias.reshape(shape)


@operator("LayerNormalization")
def layer_norm(call: OperatorCall, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return the tensor normalized over the axes from `axis` on, with the mean and the inverse deviation used."""
    axis = call.get("axis", -1) % x.ndim
    epsilon, dtype = call.get("epsilon", 1e-5), x.dtype
    if axis == x.ndim - 1 and not call.wants(1) and bias is not None and scale.shape == bias.shape == x.shape[-1:]:
        return (ops.layer_norm(x, scale, bias, epsilon),)
    wide = ops.cast(x, dtype_of(call.get("stash_type", 1))) if dtype.itemsize < 4 else x
    axes = tuple(range(axis, x.ndim))
    mean = wide.mean(axes, keepdims=True)
    centred = wide - mean
    inverse = ops.rsqrt((centred * centred).mean(axes, keepdims=True) + epsilon)
    out = ops.cast(centred * inverse, dtype) * scale
    return (out if bias is None else out + bias), mean, inverse


@operator("RMSNormalization")
def rms_norm(call: OperatorCall, x: Tensor, scale: Tensor) -> Tensor:
    """Return the tensor divided by its root mean square over the axes from `axis` on."""
    axis = call.get("axis", -1) % x.ndim
    epsilon = call.get("epsilon", 1e-5)
    if axis == x.ndim - 1 and scale.shape == x.shape[-1:] and scale.dtype == x.dtype:
        return ops.rms_norm(x, scale, epsilon)
    wide = ops.cast(x, dtype_of(call.get("stash_type", 1))) if x.dtype.itemsize < 4 else x
    axes = tuple(range(axis, x.ndim))
    normal = wide * ops.rsqrt((wide * wide).mean(axes, keepdims=True) + epsilon)
    return ops.cast(normal, scale.dtype) * scale


@operator("GroupNormalization", since=21)
def group_norm(call: OperatorCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Return the channels normalized in groups, then scaled one by one."""
    groups = call.get("num_groups")
    grouped = x.reshape(x.shape[0], groups, -1)
    wide = ops.cast(grouped, dtype_of(call.get("stash_type", 1))) if x.dtype.itemsize < 4 else grouped
    centred = wide - wide.mean(2, keepdims=True)
    normal = centred / ops.sqrt((centred * centred).mean(2, keepdims=True) + call.get("epsilon", 1e-5))
    shape = (-1, *(1,) * (x.ndim - 2))
    return ops.cast(normal, x.dtype).reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)


@operator("LRN")
def local_response_norm(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x / (bias + alpha / size sum of squares over neighbouring channels) ** beta`."""
    size = call.get("size")
    before, after = (size - 1) // 2, size // 2
    squares = ops.pad(x * x, [(0, 0), (before, after), *((0, 0),) * (x.ndim - 2)])
    total: Any = None
    for shift in range(size):
        part = ops.narrow(squares, 1, shift, shift + x.shape[1])
        total = part if total is None else total + part
    scale = total * (call.get("alpha", 1e-4) / size) + call.get("bias", 1.0)
    power: float = call.get("beta", 0.75)
    return x / ops.power(scale, power)


@operator("LpNormalization")
def lp_norm(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the tensor divided by its norm along an axis; zeros stay zeros."""
    axis = call.get("axis", -1) % x.ndim
    norm = abs(x).sum(axis, keepdims=True) if call.get("p", 2) == 1 else ops.sqrt((x * x).sum(axis, keepdims=True))
    return x / ops.where(ops.equal(norm, 0.0), 1.0, norm)


@operator("MeanVarianceNormalization")
def mean_variance_norm(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the tensor less its mean, over its deviation, over axes."""
    axes = tuple(axis % x.ndim for axis in call.get("axes", (0, 2, 3)))
    centred = x - x.mean(axes, keepdims=True)
    return centred / (ops.sqrt((centred * centred).mean(axes, keepdims=True)) + 1e-9)
