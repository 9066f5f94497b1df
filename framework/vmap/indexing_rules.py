"""Batching of indexing: a full slice for the batch axis, or the number of each sample as one more index.

NumPy puts the axes picked by arrays where the first array stood if all stand side by side, else in front. A batch axis
among them shifts that; `_Plan` knows the index for all samples at once and the order in which axes come back.
"""

import numpy as np

from ..errors import DataDependentShape
from ..ops.indexing_ops import ARRAY, Part, Slice
from ..ops.layout import reshape, transpose
from ..primitive import PRIMITIVES
from ..specs import Shape
from ..tensor import Tensor, wrap
from .batched import Application, batching

_ALL = Slice(None, None, None)


class _Plan:
    """How one index is applied to all samples.

    Attributes:
        index: The static template, the batch axis included where `x` has one.
        arrays: Its arrays.
        order: The axes of what NumPy returns, the samples first, then as one sample has them.
    """

    def __init__(self, call: Application, x_rank: int, x_is_batched: bool, result_rank: int) -> None:
        parts = _expanded(call.attributes["index"], x_rank)
        places = range(1, len(call.inputs))
        if any(call.batched[i] and call.inputs[i].dtype.kind == "b" for i in places):
            raise DataDependentShape.of("x[mask] of each sample in vmap", "ops.where or ops.masked_fill")
        picked = max((call.rank(i) for i in places), default=0)
        advanced = [
            i for i, part in enumerate(parts) if len(places) and part is not None and not isinstance(part, Slice)
        ]
        together = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
        before = advanced[0] if advanced and together else 0
        axes = range(result_rank + 1)
        self.arrays = [_aligned(call, i, picked) for i in places]
        if not any(call.batched[i] for i in places):
            self.index = (_ALL, *parts)
            self.order = tuple(axes) if together else (picked, *axes[:picked], *axes[picked + 1 :])
        elif x_is_batched:
            numbers = np.arange(call.level.size).reshape(-1, *(1,) * picked)
            self.index, self.arrays = (ARRAY, *parts), [wrap(numbers), *self.arrays]
            rest = axes[picked + 1 :]
            self.order = (0, *rest[:before], *axes[1 : picked + 1], *rest[before:])
        else:
            self.index = parts
            self.order = (before, *axes[:before], *axes[before + 1 :])


def _aligned(call: Application, position: int, picked: int) -> Tensor:
    """Return an index array, axes of length 1 after the batch axis so that it broadcasts with the others."""
    x: Tensor = call.inputs[position]
    missing = picked - call.rank(position)
    if not call.batched[position] or not missing:
        return x
    return reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))


def _expanded(index: tuple[Part, ...], rank: int) -> tuple[Part, ...]:
    """Return the index with one part an axis."""
    taken = sum(part is not None and part is not Ellipsis for part in index)
    full = (_ALL,) * (rank - taken)
    if Ellipsis not in index:
        return index + full
    place = index.index(Ellipsis)
    return index[:place] + full + index[place + 1 :]


def _in_order(x: Tensor, order: Shape) -> Tensor:
    return x if order == tuple(range(len(order))) else transpose(x, order)


@batching("getitem")
def _getitem_rule(call: Application) -> Tensor:
    """Return `x[index]` of each sample."""
    rank = _result_rank(call, call.rank(0))
    plan = _Plan(call, call.rank(0), call.batched[0], rank)
    return _in_order(call.apply(call.inputs[0], *plan.arrays, index=plan.index), plan.order)


def _result_rank(call: Application, x_rank: int) -> int:
    parts = _expanded(call.attributes["index"], x_rank)
    arrays = len(call.inputs) - 1
    kept = sum(part is None or isinstance(part, Slice) for part in parts)
    return kept + (max(call.rank(i) for i in range(1, len(call.inputs))) if arrays else 0)


@batching("put")
def _put_rule(call: Application) -> Tensor:
    """Return the transpose of `getitem`: the values of each sample added up in zeros of its shape."""
    shape = call.attributes["shape"]
    plan = _Plan(call, len(shape), True, call.rank(0))
    back = tuple(int(axis) for axis in np.argsort(plan.order))
    return call.apply(_in_order(call.full(0), back), *plan.arrays, index=plan.index, shape=(call.level.size, *shape))


@batching("gather")
def _gather_rule(call: Application) -> Tensor:
    """Return rows of a table at indices."""
    table, indices = call.inputs
    if not call.batched[0]:
        return call.apply(table, indices)
    pick = PRIMITIVES["getitem"]
    if not call.batched[1]:
        return pick(table, indices, index=(_ALL, ARRAY))
    return pick(table, _numbers(call, 1), indices, index=(ARRAY, ARRAY))


@batching("scatter_add")
def _scatter_add_rule(call: Application) -> Tensor:
    """Add values up in the rows of a table."""
    values, indices = call.inputs
    rows, depth = call.attributes["rows"], call.rank(1)
    if not call.batched[1]:
        inside = (*range(1, depth + 1), 0, *range(depth + 1, values.ndim))
        table = call.apply(_in_order(values, inside), indices)
        return _in_order(table, (1, 0, *range(2, table.ndim)))
    values = call.full(0)
    shape = (call.level.size, rows, *values.shape[depth + 1 :])
    return PRIMITIVES["put"](values, _numbers(call, 1), indices, index=(ARRAY, ARRAY), shape=shape)


def _numbers(call: Application, position: int) -> Tensor:
    """Return the number of each sample, to broadcast with an input."""
    return wrap(np.arange(call.level.size).reshape(-1, *(1,) * call.rank(position)))
