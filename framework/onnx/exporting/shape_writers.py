"""Writers of primitives that move elements, and of reductions."""

from collections.abc import Sequence
from math import prod

import numpy as np

from ...ir import Apply, Node
from ...ops.indexing_ops import ARRAY, Part, Slice
from ...specs import Shape
from ..onnx_errors import ExportError
from .model_builder import Builder, spec_of_node, writer

_LAST = np.iinfo(np.int64).max


def _shape(node: Node) -> Shape:
    return tuple(spec_of_node(node).shape)


@writer("reshape")
def reshape(builder: Builder, node: Apply, x: str) -> str:
    """Write another shape, as known."""
    return builder.reshape(x, _shape(node))


@writer("broadcast_to")
def broadcast(builder: Builder, node: Apply, x: str) -> str:
    """Write a tensor repeated along axes of length 1."""
    return builder.add("Expand", x, builder.shape(_shape(node)))


@writer("sum_to")
def sum_to(builder: Builder, node: Apply, x: str) -> str:
    """Write a sum over the axes along which the shape was broadcast."""
    had, wanted = _shape(node.arguments[0]), _shape(node)
    extra = len(had) - len(wanted)
    axes = [axis for axis in range(len(had)) if axis < extra or (wanted[axis - extra] == 1 and had[axis] != 1)]
    total = builder.add("ReduceSum", x, builder.numbers(*axes), keepdims=1) if axes else x
    return builder.reshape(total, wanted)


@writer("transpose")
def transpose(builder: Builder, node: Apply, x: str) -> str:
    """Write axes in another order."""
    return builder.add("Transpose", x, perm=[axis % len(_shape(node)) for axis in node.attributes["axes"]])


@writer("swapaxes")
def swapaxes(builder: Builder, node: Apply, x: str) -> str:
    """Write two axes exchanged."""
    ndim = len(_shape(node))
    order = list(range(ndim))
    i, j = node.attributes["first"] % ndim, node.attributes["second"] % ndim
    order[i], order[j] = order[j], order[i]
    return builder.add("Transpose", x, perm=order)


@writer("concat")
def concat(builder: Builder, node: Apply, *parts: str) -> str:
    """Write one after the other."""
    return builder.add("Concat", *parts, axis=node.attributes["axis"])


@writer("split")
def split(builder: Builder, node: Apply, x: str) -> tuple[str, ...]:
    """Write parts of the sizes given."""
    sizes = node.attributes["sizes"]
    return builder.several("Split", x, builder.numbers(*sizes), outputs=len(sizes), axis=node.attributes["axis"])


@writer("pad")
def pad(builder: Builder, node: Apply, x: str) -> str:
    """Write a constant around."""
    before, after = zip(*node.attributes["widths"], strict=True)
    value = builder.number(node.attributes.get("value", 0.0), spec_of_node(node).dtype)
    return builder.add("Pad", x, builder.numbers(*before, *after), value)


@writer("getitem")
def getitem(builder: Builder, node: Apply, x: str, *arrays: str) -> str:
    """Write slices by Slice, numbers and one array of indices by Gather, new axes by Reshape."""
    source, index = node.arguments[0], list(node.attributes["index"])
    ndim = len(_shape(source))
    taken = sum(part is not None and part is not Ellipsis for part in index)
    full = [Slice(None, None, None)] * (ndim - taken)
    place = index.index(Ellipsis) if Ellipsis in index else len(index)
    parts = [part for part in (*index[:place], *full, *index[place + 1 :]) if part is not None]
    if sum(part == ARRAY for part in parts) > 1:
        return _at_coordinates(builder, node, x, parts, arrays)
    name = _sliced(builder, x, parts)
    for axis in reversed(range(ndim)):
        if parts[axis] == ARRAY:
            name = builder.add("Gather", name, arrays[0], axis=axis)
        elif not isinstance(parts[axis], Slice):
            name = builder.add("Gather", name, builder.store(np.asarray(parts[axis], np.int64)), axis=axis)
    return builder.reshape(name, _shape(node))


def _sliced(builder: Builder, x: str, parts: Sequence[Part]) -> str:
    cuts = [(axis, part) for axis, part in enumerate(parts) if isinstance(part, Slice) and part != (None, None, None)]
    if not cuts:
        return x
    rows = []
    for axis, part in cuts:
        step = 1 if part.step is None else part.step
        start = (0 if step > 0 else _LAST) if part.start is None else part.start
        stop = (_LAST if step > 0 else -_LAST) if part.stop is None else part.stop
        rows.append((start, stop, axis, step))
    return builder.add("Slice", x, *(builder.numbers(*column) for column in zip(*rows, strict=True)))


def _at_coordinates(builder: Builder, node: Apply, x: str, parts: Sequence[Part], arrays: tuple[str, ...]) -> str:
    """Write several arrays of indices: coordinates for GatherND, where they stand for the first axes."""
    depth = len(arrays)
    if parts[:depth] != [ARRAY] * depth or any(part != Slice(None, None, None) for part in parts[depth:]):
        raise ExportError(
            f"an index of several arrays is written where they stand for the first axes only, got {parts}"
        )
    shapes = [_shape(argument) for argument in node.arguments[1:]]
    shape = np.broadcast_shapes(*shapes)
    columns = [
        builder.reshape(builder.add("Expand", builder.add("Cast", name, to=7), builder.numbers(*shape)), (*shape, 1))
        for name in arrays
    ]
    return builder.add("GatherND", x, builder.add("Concat", *columns, axis=-1))


@writer("gather")
def gather(builder: Builder, node: Apply, table: str, indices: str) -> str:
    """Write rows of a table."""
    return builder.add("Gather", table, indices, axis=0)


@writer("gather_elements")
def gather_elements(builder: Builder, node: Apply, x: str, indices: str) -> str:
    """Write elements at an index along an axis."""
    return builder.add("GatherElements", x, builder.add("Cast", indices, to=7), axis=node.attributes["axis"])


@writer("scatter_elements")
def scatter_elements(builder: Builder, node: Apply, x: str, indices: str, updates: str) -> str:
    """Write updates at an index along an axis."""
    places = builder.add("Cast", indices, to=7)
    return builder.add("ScatterElements", x, places, updates, **node.attributes)


@writer("one_hot")
def one_hot(builder: Builder, node: Apply, x: str) -> str:
    """Write whether a place is the index."""
    depth, axis = node.attributes["depth"], node.attributes["axis"]
    shape = _shape(node.arguments[0])
    places = builder.cast(x, np.dtype(np.int64))
    zero, length = builder.number(0, np.dtype(np.int64)), builder.number(depth, np.dtype(np.int64))
    below = builder.add("Less", places, zero)
    places = builder.add("Where", below, builder.add("Add", places, length), places)
    line = builder.store(np.arange(depth).reshape(depth, *(1,) * (len(shape) - axis)))
    return builder.add("Equal", builder.reshape(places, (*shape[:axis], 1, *shape[axis:])), line)


@writer("topk", "sort")
def order(builder: Builder, node: Apply, x: str) -> tuple[str, ...]:
    """Write the largest or smallest elements and their places; all of them for a sort."""
    how = node.attributes
    length = _shape(node.arguments[0])[how["axis"]]
    count, largest = how.get("count", length), how.get("largest", how.get("descending", True))
    return builder.several("TopK", x, builder.numbers(count), outputs=2, axis=how["axis"], largest=int(largest))


@writer("cumsum")
def cumsum(builder: Builder, node: Apply, x: str) -> str:
    """Write running sums."""
    how = node.attributes
    axis = builder.store(np.asarray(how["axis"], np.int64))
    return builder.add("CumSum", x, axis, exclusive=int(how["exclusive"]), reverse=int(how["reverse"]))


_REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd",
    "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


@writer(*_REDUCTIONS)
def reduce(builder: Builder, node: Apply, x: str) -> str:
    """Write a reduction over axes; integers are summed in the type of the result."""
    operator = next(name for primitive, name in _REDUCTIONS.items() if node.applies(primitive))
    had, result = spec_of_node(node.arguments[0]), spec_of_node(node)
    if had.dtype != result.dtype:
        x = builder.cast(x, result.dtype)
    axes = node.attributes["axes"]
    if not axes:
        return x
    return builder.add(operator, x, builder.numbers(*axes), keepdims=int(node.attributes["keepdims"]))


@writer("any", "all")
def truth(builder: Builder, node: Apply, x: str) -> str:
    """Write `any` or `all` over axes: the largest or smallest of 0 and 1."""
    operator = "ReduceMax" if node.applies("any") else "ReduceMin"
    numbers = builder.cast(builder.cast(x, np.dtype(np.bool_)), np.dtype(np.int32))
    keep = int(node.attributes["keepdims"])
    found = builder.add(operator, numbers, builder.numbers(*node.attributes["axes"]), keepdims=keep)
    return builder.cast(found, np.dtype(np.bool_))


@writer("argmax", "argmin")
def place_of_extreme(builder: Builder, node: Apply, x: str) -> str:
    """Write the place of the first largest or smallest element."""
    operator, axis = ("ArgMax" if node.applies("argmax") else "ArgMin"), node.attributes["axis"]
    if axis is None:
        x = builder.reshape(x, (prod(_shape(node.arguments[0])),))
        return builder.add(operator, x, axis=0, keepdims=0)
    return builder.add(operator, x, axis=axis, keepdims=0)
