"""Batching of convolutions and pools: samples join the images, or the channels as groups of their own."""

from typing import Any

from ..ops.arithmetic import add
from ..ops.array import reshape
from ..primitive import PRIMITIVES
from .joined import merged, parted
from .rule import Application, batching


def _grouped(call: Application) -> Any:
    """The window with a set of groups for each sample."""
    window = call.attributes["window"]
    return window._replace(groups=window.groups * call.level.size)


@batching("conv")
def conv(call: Application) -> Any:
    """A convolution; with a weight for each sample the samples are groups."""
    size = call.level.size
    if not call.batched[1]:
        return parted(call.apply(merged(call.inputs[0], 0), call.inputs[1]), 0, size)
    if not call.batched[0] and call.attributes["window"].groups == 1:
        return parted(call.apply(call.inputs[0], merged(call.inputs[1], 0)), 1, size)
    found = call.apply(merged(call.full(0), 1), merged(call.full(1), 0), window=_grouped(call))
    return parted(found, 1, size)


@batching("conv_bias")
def conv_bias(call: Application) -> Any:
    """A convolution and a bias for each channel."""
    if not call.batched[1] and not call.batched[2]:
        return parted(call.apply(merged(call.inputs[0], 0), *call.inputs[1:]), 0, call.level.size)
    x, weight, bias = call.samples
    plain = PRIMITIVES["conv"](x, weight, **call.attributes)
    return call.whole(add(plain, reshape(bias, (bias.shape[0], *(1,) * (plain.ndim - 2)))))


@batching("conv_input_gradient")
def conv_input_gradient(call: Application) -> Any:
    """The transpose of a convolution by its weight."""
    size, shape = call.level.size, call.attributes["shape"]
    if not call.batched[1]:
        merged_shape = (size * shape[0], *shape[1:])
        return parted(call.apply(merged(call.inputs[0], 0), call.inputs[1], shape=merged_shape), 0, size)
    wide = (shape[0], size * shape[1], *shape[2:])
    found = call.apply(merged(call.full(0), 1), merged(call.full(1), 0), window=_grouped(call), shape=wide)
    return parted(found, 1, size)


@batching("conv_weight_gradient")
def conv_weight_gradient(call: Application) -> Any:
    """The gradient of a convolution by its weight, for each sample its own."""
    size, shape = call.level.size, call.attributes["shape"]
    tall = (size * shape[0], *shape[1:])
    found = call.apply(merged(call.full(0), 1), merged(call.full(1), 1), window=_grouped(call), shape=tall)
    return parted(found, 0, size)


@batching(
    "avg_pool", "avg_pool_gradient", "cross_entropy", "cross_entropy_gradient", "max_pool", "pick_places", "put_places"
)
def images(call: Application) -> Any:
    """A function of each row of axis 0 by itself, which the samples join."""
    changed = {}
    if "shape" in call.attributes:
        shape = call.attributes["shape"]
        changed["shape"] = (call.level.size * shape[0], *shape[1:])
    found = call.apply(*(merged(x, 0) for x in call.every()), **changed)
    if isinstance(found, tuple):
        return tuple(parted(y, 0, call.level.size) for y in found)
    return parted(found, 0, call.level.size)
