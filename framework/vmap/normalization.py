"""Batching of normalizations: rows take samples as they come, channels get one set for each sample."""

from typing import Any

from ..ops.arithmetic import add, divide, multiply
from ..ops.create import full
from ..ops.math import sqrt
from ..ops.reduce import mean, sum_to
from .joined import merged, parted
from .rule import Application, batching


@batching("layer_norm", "rms_norm")
def rows(call: Application) -> Any:
    """Normalized rows; a scale for each sample is applied afterwards."""
    x = call.samples[0]
    if not any(call.batched[1:]):
        return call.apply(*call.inputs)
    gamma, *beta = call.samples[1:]
    plain = [full(x.shape[-1:], value, x.dtype) for value in (1.0, 0.0)[: len(call.inputs) - 1]]
    scaled = multiply(call.apply(x, *plain), gamma)
    return call.whole(add(scaled, beta[0]) if beta else scaled)


@batching("layer_norm_gradient")
def layer_norm_gradient(call: Application) -> Any:
    """The three gradients of each sample, from basic operations: the kernel would add up the samples' rows."""
    g, x, gamma = call.samples
    centred = x - mean(x, -1, keepdims=True)
    scale = divide(1.0, sqrt(mean(centred * centred, -1, keepdims=True) + call.attributes["epsilon"]))
    normal = centred * scale
    weighted = g * gamma
    along = mean(weighted * normal, -1, keepdims=True)
    of_x = scale * (weighted - mean(weighted, -1, keepdims=True) - normal * along)
    return tuple(call.whole(y) for y in (of_x, sum_to(g * normal, gamma.shape), sum_to(g, gamma.shape)))


@batching("rms_norm_gradient")
def rms_norm_gradient(call: Application) -> Any:
    """The two gradients of each sample, from basic operations."""
    g, x, gamma = call.samples
    scale = divide(1.0, sqrt(mean(x * x, -1, keepdims=True) + call.attributes["epsilon"]))
    weighted = g * gamma
    along = mean(weighted * x, -1, keepdims=True)
    of_x = scale * weighted - x * along * scale * scale * scale
    return tuple(call.whole(y) for y in (of_x, sum_to(g * x * scale, gamma.shape)))


@batching("batch_norm", "batch_norm_gradient")
def channels(call: Application) -> Any:
    """Moments of each channel of each sample: the samples join the channels."""
    joined = [merged(x, 1 if call.rank(i) > 1 else 0) for i, x in enumerate(call.every())]
    return tuple(parted(y, 1 if y.ndim > 1 else 0, call.level.size) for y in call.apply(*joined))
