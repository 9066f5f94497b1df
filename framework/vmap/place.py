"""Batching of what moves elements: shapes and orders of axes get the batch axis in front."""

from typing import Any

from ..devices import to
from ..ops.array import reshape as reshaped
from ..shape import normalize_axis
from ..shape import reshaped as filled_shape
from .rule import Application, batching


@batching("reshape")
def reshape(call: Application) -> Any:
    """Another shape for each sample."""
    return call.apply(
        call.inputs[0], shape=(call.level.size, *filled_shape(call.samples[0].shape, call.attributes["shape"]))
    )


@batching("transpose")
def transpose(call: Application) -> Any:
    """Another order of axes for each sample."""
    return call.apply(call.inputs[0], axes=(0, *(axis % call.rank(0) + 1 for axis in call.attributes["axes"])))


@batching("swapaxes")
def swapaxes(call: Application) -> Any:
    """Two axes of each sample exchanged."""
    first, second = (normalize_axis(call.attributes[name], call.rank(0)) + 1 for name in ("first", "second"))
    return call.apply(call.inputs[0], first=first, second=second)


@batching("broadcast_to")
def broadcast_to(call: Application) -> Any:
    """Each sample repeated."""
    x, shape = call.inputs[0], call.attributes["shape"]
    lined = reshaped(x, (x.shape[0], *(1,) * (len(shape) - call.rank(0)), *x.shape[1:]))
    return call.apply(lined, shape=(call.level.size, *shape))


@batching("sum_to")
def sum_to(call: Application) -> Any:
    """Each sample summed to a shape that broadcasts to its own."""
    x, shape = call.inputs[0], call.attributes["shape"]
    kept = (call.level.size, *(1,) * (call.rank(0) - len(shape)), *shape)
    total = x if kept == x.shape else call.apply(x, shape=kept)
    return reshaped(total, (call.level.size, *shape))


@batching("pad")
def pad(call: Application) -> Any:
    """Nothing is added to the batch axis."""
    return call.apply(call.inputs[0], widths=((0, 0), *call.attributes["widths"]))


@batching("transfer")
def transfer(call: Application) -> Any:
    """All samples moved to another device."""
    return to(call.inputs[0], call.attributes["device"])
