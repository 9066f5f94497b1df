"""Writers of what networks are made of: products, windows, normalization, attention, recurrence."""

from typing import Any

import numpy as np

from ...ir import Apply
from ...ops.convolution_ops import ConvolutionWindow
from ...ops.sliding_window import PoolWindow, transposed_length
from ..onnx_errors import ExportError
from .model_builder import Builder, spec_of_node, writer


@writer("matmul")
def matmul(builder: Builder, node: Apply, a: str, b: str) -> str:
    """Write a product of matrices."""
    return builder.add("MatMul", a, b)


@writer("linear")
def linear(builder: Builder, node: Apply, x: str, weight: str, bias: str) -> str:
    """Write a dense layer: Gemm on matrices, else a product and a sum."""
    if spec_of_node(node.arguments[0]).ndim == 2:
        return builder.add("Gemm", x, weight, bias, transB=1)
    turned = builder.add("Transpose", weight, perm=[1, 0])
    return builder.add("Add", builder.add("MatMul", x, turned), bias)


@writer("einsum")
def einsum(builder: Builder, node: Apply, *operands: str) -> str:
    """Write a sum of products."""
    return builder.add("Einsum", *operands, equation=node.attributes["subscripts"])


def _window(window: ConvolutionWindow | PoolWindow) -> dict[str, Any]:
    before, after = zip(*window.padding, strict=True)
    return {"strides": list(window.stride), "dilations": list(window.dilation), "pads": [*before, *after]}


@writer("conv", "conv_bias")
def conv(builder: Builder, node: Apply, *names: str) -> str:
    """Write a convolution."""
    window: ConvolutionWindow = node.attributes["window"]
    kernel = list(spec_of_node(node.arguments[1]).shape[2:])
    return builder.add("Conv", *names, group=window.groups, kernel_shape=kernel, **_window(window))


@writer("conv_input_gradient")
def conv_transpose(builder: Builder, node: Apply, g: str, weight: str) -> str:
    """Write a transposed convolution; what its shape has more than the window reaches is output padding."""
    window: ConvolutionWindow = node.attributes["window"]
    kernel = spec_of_node(node.arguments[1]).shape[2:]
    lengths = spec_of_node(node.arguments[0]).shape[2:]
    axes = zip(lengths, kernel, window.stride, window.padding, window.dilation, strict=True)
    natural = [transposed_length(*axis, 0) for axis in axes]
    extra = [length - least for length, least in zip(node.attributes["shape"][2:], natural, strict=True)]
    how = {"group": window.groups, "kernel_shape": list(kernel), "output_padding": extra, **_window(window)}
    return builder.add("ConvTranspose", g, weight, **how)


def _pool(window: PoolWindow) -> dict[str, Any]:
    return {"kernel_shape": list(window.kernel), "ceil_mode": int(window.ceil), **_window(window)}


@writer("max_pool")
def max_pool(builder: Builder, node: Apply, x: str) -> tuple[str, ...]:
    """Write the largest elements; their places count in the whole tensor in ONNX, so they are not given."""
    return (builder.add("MaxPool", x, **_pool(node.attributes["window"])),)


@writer("avg_pool")
def avg_pool(builder: Builder, node: Apply, x: str) -> str:
    """Write means of windows; sums as means times the number of elements."""
    window, divisor = node.attributes["window"], node.attributes["divisor"]
    if set(window.dilation) != {1} and builder.opset < 19:
        raise ExportError("a mean over windows with gaps needs opset 19 or newer")
    how = _pool(window)
    if set(window.dilation) == {1}:
        del how["dilations"]
    out = builder.add("AveragePool", x, count_include_pad=int(divisor != "inside"), **how)
    if divisor != "none":
        return out
    if window.ceil:
        raise ExportError("sums over windows that may leave the image (ceil mode) cannot be written")
    return builder.add("Mul", out, builder.number(np.prod(window.kernel), spec_of_node(node).dtype))


@writer("softmax")
def softmax(builder: Builder, node: Apply, x: str) -> str:
    """Write a softmax along the last axis, scaled, causal where asked for."""
    spec, scale = spec_of_node(node), node.attributes["scale"]
    if scale != 1.0:
        x = builder.add("Mul", x, builder.number(scale, spec.dtype))
    if node.attributes["causal"]:
        x = builder.add("Where", _visible(builder, *spec.shape[-2:]), x, builder.number(-np.inf, spec.dtype))
    return builder.add("Softmax", x, axis=-1)


def _visible(builder: Builder, queries: Any, keys: Any) -> str:
    """Write which keys each query may see; calculated in the model where a length is open."""
    if isinstance(queries, int) and isinstance(keys, int):
        return builder.store(np.tri(queries, keys, keys - queries, dtype=np.bool_), "causal")
    zero, one = (builder.number(value, np.dtype(np.int64)) for value in (0, 1))
    ends = [builder.add("Squeeze", builder.shape((length,)), builder.numbers(0)) for length in (queries, keys)]
    rows, columns = (builder.add("Range", zero, end, one) for end in ends)
    last = builder.add("Add", rows, builder.add("Sub", ends[1], ends[0]))
    return builder.add("LessOrEqual", columns, builder.add("Unsqueeze", last, builder.numbers(1)))


@writer("log_softmax")
def log_softmax(builder: Builder, node: Apply, x: str) -> str:
    """Write a log-softmax along the last axis."""
    return builder.add("LogSoftmax", x, axis=-1)


@writer("attention")
def attention(builder: Builder, node: Apply, query: str, key: str, value: str, *mask: str) -> tuple[str, ...]:
    """Write values weighted by how well keys match the query; its second output (logarithms) is not given."""
    spec, ndim = spec_of_node(node.arguments[0]), spec_of_node(node.arguments[1]).ndim
    turned = builder.add("Transpose", key, perm=[*range(ndim - 2), ndim - 1, ndim - 2])
    scores = builder.add("MatMul", query, turned)
    scores = builder.add("Mul", scores, builder.number(node.attributes["scale"], spec.dtype))
    least = builder.number(-np.inf, spec.dtype)
    if node.attributes["causal"]:
        keys = spec_of_node(node.arguments[1]).shape[-2]
        scores = builder.add("Where", _visible(builder, spec.shape[-2], keys), scores, least)
    if mask:
        is_truth = spec_of_node(node.arguments[3]).dtype.kind == "b"
        scores = builder.add("Where", mask[0], scores, least) if is_truth else builder.add("Add", scores, mask[0])
    return (builder.add("MatMul", builder.add("Softmax", scores, axis=-1), value),)


@writer("layer_norm")
def layer_norm(builder: Builder, node: Apply, x: str, gamma: str, beta: str) -> str:
    """Write a normalization over the last axis."""
    return builder.add("LayerNormalization", x, gamma, beta, axis=-1, epsilon=node.attributes["epsilon"])


@writer("rms_norm")
def rms_norm(builder: Builder, node: Apply, x: str, gamma: str) -> str:
    """Write a normalization over the last axis; composed, as the operator is younger than most run times."""
    mean = builder.add("ReduceMean", builder.add("Mul", x, x), builder.numbers(-1), keepdims=1)
    epsilon = builder.number(node.attributes["epsilon"], spec_of_node(node).dtype)
    root = builder.add("Sqrt", builder.add("Add", mean, epsilon))
    return builder.add("Mul", builder.add("Div", x, root), gamma)


@writer("batch_norm")
def batch_norm(builder: Builder, node: Apply, x: str, gamma: str, beta: str) -> tuple[str, str, str]:
    """Write a normalization by the batch's own moments, and those moments."""
    spec = spec_of_node(node.arguments[0])
    axes = builder.numbers(0, *range(2, spec.ndim))
    line = (1, spec.shape[1], *(1,) * (spec.ndim - 2))
    mean = builder.add("ReduceMean", x, axes, keepdims=1)
    centred = builder.add("Sub", x, mean)
    var = builder.add("ReduceMean", builder.add("Mul", centred, centred), axes, keepdims=1)
    root = builder.add("Sqrt", builder.add("Add", var, builder.number(node.attributes["epsilon"], spec.dtype)))
    normal = builder.add("Mul", builder.add("Div", centred, root), builder.reshape(gamma, line))
    out = builder.add("Add", normal, builder.reshape(beta, line))
    return out, builder.reshape(mean, spec.shape[1:2]), builder.reshape(var, spec.shape[1:2])


def _arranged(builder: Builder, rows: str, count: int, width: int, order: tuple[int, ...]) -> str:
    """Write weights of `count` gates with the gates in ONNX's order, and a first axis for the one direction."""
    places = np.arange(count * width).reshape(count, width)[list(order)].reshape(-1)
    turned = builder.add("Gather", rows, builder.store(places), axis=0)
    return builder.add("Unsqueeze", turned, builder.numbers(0))


def _recurrence(
    builder: Builder, node: Apply, operator: str, gates: str, w: str, order: tuple[int, ...], **more: Any
) -> tuple[str, ...]:
    """Write a recurrent operator over sums that are made already: its input weights are ones on the diagonal."""
    count, spec = len(order), spec_of_node(node.arguments[0])
    width = spec.shape[2] // count
    unit = np.eye(count * width, dtype=spec.dtype).reshape(count, width, -1)[list(order)].reshape(1, count * width, -1)
    inputs = [gates, builder.store(unit, "unit"), _arranged(builder, w, count, width, order), more.pop("bias", "")]
    lengths = builder.add("Cast", more.pop("lengths"), to=6)
    states = [builder.add("Unsqueeze", state, builder.numbers(0)) for state in more.pop("states")]
    peephole = more.pop("peephole", "")
    given = [*inputs, lengths, *states, *([peephole] if peephole else [])]
    found = builder.several(operator, *given, outputs=1 + len(states), hidden_size=width, **more)
    y = builder.add("Squeeze", found[0], builder.numbers(1))
    return (y, *(builder.add("Squeeze", state, builder.numbers(0)) for state in found[1:]))


@writer("rnn")
def rnn(builder: Builder, node: Apply, gates: str, w: str, h0: str, lengths: str) -> tuple[str, ...]:
    """Write the plain recurrence."""
    function = "Relu" if node.attributes["is_relu"] else "Tanh"
    how: dict[str, Any] = {"lengths": lengths, "states": [h0], "activations": [function]}
    return _recurrence(builder, node, "RNN", gates, w, (0,), **how)


@writer("gru")
def gru(builder: Builder, node: Apply, gates: str, w: str, bias: str, h0: str, lengths: str) -> tuple[str, ...]:
    """Write the gated recurrent unit whose reset comes after the product."""
    order, spec = (1, 0, 2), spec_of_node(node.arguments[0])
    recurrent = _arranged(builder, bias, 3, spec.shape[2] // 3, order)
    nothing = builder.store(np.zeros((1, spec.shape[2]), spec.dtype), "no_bias")
    both = builder.add("Concat", nothing, recurrent, axis=1)
    how: dict[str, Any] = {"lengths": lengths, "states": [h0], "bias": both, "linear_before_reset": 1}
    return _recurrence(builder, node, "GRU", gates, w, order, **how)


@writer("lstm")
def lstm(
    builder: Builder, node: Apply, gates: str, w: str, peephole: str, h0: str, c0: str, lengths: str
) -> tuple[str, ...]:
    """Write Long short-term memory; its fourth output (saved states) is not given."""
    width = spec_of_node(node.arguments[0]).shape[2] // 4
    places = builder.numbers(0, 2, 1)
    look = builder.reshape(builder.add("Gather", peephole, places, axis=0), (1, 3 * width))
    how: dict[str, Any] = {"lengths": lengths, "states": [h0, c0], "peephole": look}
    return _recurrence(builder, node, "LSTM", gates, w, (0, 3, 1, 2), **how)
