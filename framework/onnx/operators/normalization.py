"""Normalization."""

from typing import Any

from ... import ops
from ...tensor import Tensor
from ..call import Call
from ..registry import operator
from ..values import dtype_of


@operator("BatchNormalization")
def batch_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, ...]:
    """The images normalized by the moments given; in training by their own, which move the running ones."""
    epsilon, momentum = call.get("epsilon", 1e-5), call.get("momentum", 0.9)
    if not call.get("training_mode", 0):
        return (ops.cast(ops.batch_norm_inference(x, scale, bias, mean, var, epsilon), x.dtype),)
    axes = (0, *range(2, x.ndim))
    own_mean, own_var = x.mean(axes), x.var(axes)
    out = ops.batch_norm(x, scale, bias, epsilon)[0]
    return out, mean * momentum + own_mean * (1 - momentum), var * momentum + own_var * (1 - momentum)


@operator("InstanceNormalization")
def instance_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Each channel of each image normalized by its own moments."""
    return _by_moments(x, tuple(range(2, x.ndim)), call.get("epsilon", 1e-5), scale, bias)


def _by_moments(x: Tensor, axes: tuple[int, ...], epsilon: float, scale: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(axes, keepdims=True)
    shape = (-1, *(1,) * (x.ndim - 2))
    normal = centred / ops.sqrt((centred * centred).mean(axes, keepdims=True) + epsilon)
    return normal * scale.reshape(shape) + bias.reshape(shape)


@operator("LayerNormalization")
def layer_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
    """The tensor normalized over the axes from `axis` on, with the mean and the inverse deviation used."""
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
def rms_norm(call: Call, x: Tensor, scale: Tensor) -> Tensor:
    """The tensor divided by its root mean square over the axes from `axis` on."""
    axis = call.get("axis", -1) % x.ndim
    epsilon = call.get("epsilon", 1e-5)
    if axis == x.ndim - 1 and scale.shape == x.shape[-1:] and scale.dtype == x.dtype:
        return ops.rms_norm(x, scale, epsilon)
    wide = ops.cast(x, dtype_of(call.get("stash_type", 1))) if x.dtype.itemsize < 4 else x
    axes = tuple(range(axis, x.ndim))
    normal = wide * ops.rsqrt((wide * wide).mean(axes, keepdims=True) + epsilon)
    return ops.cast(normal, scale.dtype) * scale


@operator("GroupNormalization", since=21)
def group_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """The channels normalized in groups, then scaled one by one."""
    groups = call.get("num_groups")
    grouped = x.reshape(x.shape[0], groups, -1)
    wide = ops.cast(grouped, dtype_of(call.get("stash_type", 1))) if x.dtype.itemsize < 4 else grouped
    centred = wide - wide.mean(2, keepdims=True)
    normal = centred / ops.sqrt((centred * centred).mean(2, keepdims=True) + call.get("epsilon", 1e-5))
    shape = (-1, *(1,) * (x.ndim - 2))
    return ops.cast(normal, x.dtype).reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)


@operator("LRN")
def local_response_norm(call: Call, x: Tensor) -> Tensor:
    """`x / (bias + alpha / size sum of squares over neighbouring channels) ** beta`."""
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
def lp_norm(call: Call, x: Tensor) -> Tensor:
    """The tensor divided by its norm along an axis; zeros stay zeros."""
    axis = call.get("axis", -1) % x.ndim
    norm = abs(x).sum(axis, keepdims=True) if call.get("p", 2) == 1 else ops.sqrt((x * x).sum(axis, keepdims=True))
    return x / ops.where(ops.equal(norm, 0.0), 1.0, norm)


@operator("MeanVarianceNormalization")
def mean_variance_norm(call: Call, x: Tensor) -> Tensor:
    """The tensor less its mean, over its deviation, over axes."""
    axes = tuple(axis % x.ndim for axis in call.get("axes", (0, 2, 3)))
    centred = x - x.mean(axes, keepdims=True)
    return centred / (ops.sqrt((centred * centred).mean(axes, keepdims=True)) + 1e-9)
