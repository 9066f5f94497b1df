"""Shapes, indexing, gathering and scattering, sorting, reductions and running totals."""

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..ops.indexing_ops import ARRAY, Slice
from ..ops.sliding_window import Sides
from ..specs import Axes, Shape
from .translation_table import translation

#: The parts of an index; `ARRAY` stands for the next of the arrays that come with it.
_Index: TypeAlias = tuple[int | Slice | EllipsisType | str | None, ...]


@translation("reshape")
def _reshape(x: jax.Array, *, shape: Shape) -> jax.Array:
    return jnp.reshape(x, shape)


@translation("transpose")
def _transpose(x: jax.Array, *, axes: Axes) -> jax.Array:
    return jnp.transpose(x, axes)


@translation("swapaxes")
def _swapaxes(x: jax.Array, *, first: int, second: int) -> jax.Array:
    return jnp.swapaxes(x, first, second)


@translation("broadcast_to")
def _broadcast_to(x: jax.Array, *, shape: Shape) -> jax.Array:
    return jnp.broadcast_to(x, shape)


@translation("concat")
def _concat(*parts: jax.Array, axis: int) -> jax.Array:
    return jnp.concatenate(parts, axis)


@translation("split")
def _split(x: jax.Array, *, sizes: Shape, axis: int) -> tuple[jax.Array, ...]:
    return tuple(jnp.split(x, np.cumsum(sizes)[:-1].tolist(), axis))


@translation("pad")
def _pad(x: jax.Array, *, widths: Sides, value: float) -> jax.Array:
    return jax.lax.pad(x, jnp.asarray(value, x.dtype), [(before, after, 0) for before, after in widths])


@translation("one_hot")
def _one_hot(x: jax.Array, *, depth: int, axis: int) -> jax.Array:
    return jax.nn.one_hot(jnp.where(x < 0, x + depth, x), depth, axis=axis)


def _index(index: _Index, arrays: Sequence[jax.Array]) -> tuple[object, ...]:
    rest = iter(arrays)
    return tuple(slice(*part) if isinstance(part, Slice) else next(rest) if part == ARRAY else part for part in index)


@translation("getitem")
def _getitem(x: jax.Array, *arrays: jax.Array, index: _Index) -> jax.Array:
    return jnp.asarray(x)[_index(index, arrays)]


@translation("put")
def _put(g: jax.Array, *arrays: jax.Array, index: _Index, shape: Shape) -> jax.Array:
    return jnp.zeros(shape, g.dtype).at[_index(index, arrays)].add(g)


@translation("gather")
def _gather(table: jax.Array, indices: jax.Array) -> jax.Array:
    return table[indices]


@translation("scatter_add")
def _scatter_add(values: jax.Array, indices: jax.Array, *, rows: int) -> jax.Array:
    return jnp.zeros((rows, *values.shape[indices.ndim :]), values.dtype).at[indices].add(values)


def _places(indices: jax.Array, axis: int) -> tuple[jax.Array, ...]:
    grid = list(jnp.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = indices
    return tuple(grid)


@translation("gather_elements")
def _gather_elements(x: jax.Array, indices: jax.Array, *, axis: int) -> jax.Array:
    return x[_places(indices, axis)]


@translation("put_elements")
def _put_elements(g: jax.Array, indices: jax.Array, *, axis: int, shape: Shape) -> jax.Array:
    return jnp.zeros(shape, g.dtype).at[_places(indices, axis)].add(g)


@translation("scatter_elements")
def _scatter_elements(x: jax.Array, indices: jax.Array, updates: jax.Array, *, axis: int, reduction: str) -> jax.Array:
    target = x.at[_places(indices, axis)]
    methods = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}
    return getattr(target, methods[reduction])(updates)


@translation("bincount")
def _bincount(x: jax.Array, *weights: jax.Array, length: int) -> jax.Array:
    return jnp.bincount(x, *weights, length=length)


@translation("searchsorted")
def _searchsorted(row: jax.Array, x: jax.Array, *, right: bool) -> jax.Array:
    side = "right" if right else "left"
    if row.ndim == 1:
        return jnp.searchsorted(row, x, side)
    found = [
        jnp.searchsorted(a, b, side)
        for a, b in zip(row.reshape(-1, row.shape[-1]), x.reshape(-1, x.shape[-1]), strict=True)
    ]
    return jnp.stack(found).reshape(x.shape)


@translation("put_places")
def _put_places(g: jax.Array, places: jax.Array, *, shape: Shape) -> jax.Array:
    planes = jnp.zeros((*shape[:2], _size(shape[2:])), g.dtype)
    n, c = jnp.ogrid[: shape[0], : shape[1]]
    flat = places.reshape(*places.shape[:2], -1)
    return planes.at[n[..., None], c[..., None], flat].add(g.reshape(flat.shape)).reshape(shape)


@translation("pick_places")
def _pick_places(x: jax.Array, places: jax.Array) -> jax.Array:
    planes = x.reshape(*x.shape[:2], -1)
    return jnp.take_along_axis(planes, places.reshape(*x.shape[:2], -1), -1).reshape(places.shape)


def _size(shape: Shape) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def _order(x: jax.Array, axis: int, descending: bool) -> jax.Array:
    return jnp.argsort(x, axis, stable=True, descending=descending)


@translation("sort")
def _sort(x: jax.Array, *, axis: int, descending: bool) -> tuple[jax.Array, jax.Array]:
    places = _order(x, axis, descending)
    return jnp.take_along_axis(x, places, axis), places


@translation("topk")
def _topk(x: jax.Array, *, count: int, axis: int, largest: bool) -> tuple[jax.Array, jax.Array]:
    places = jax.lax.slice_in_dim(_order(x, axis, largest), 0, count, axis=axis)
    return jnp.take_along_axis(x, places, axis), places


def _extremes(accumulate: Callable[..., jax.Array], x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    values = accumulate(x, axis)
    fresh = (values == x) | (jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.inexact) else False)
    counter = jax.lax.broadcasted_iota(jnp.int64, x.shape, axis)
    return values, jax.lax.cummax(jnp.where(fresh, counter, 0), axis)


@translation("cummax")
def _cummax(x: jax.Array, *, axis: int) -> tuple[jax.Array, jax.Array]:
    return _extremes(jax.lax.cummax, x, axis)


@translation("cummin")
def _cummin(x: jax.Array, *, axis: int) -> tuple[jax.Array, jax.Array]:
    return _extremes(jax.lax.cummin, x, axis)


_NARROW = ("float16", "bfloat16")


def _wide(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float32) if str(x.dtype) in _NARROW else x


@translation("sum")
def _sum(x: jax.Array, *, axes: Axes, keepdims: bool) -> jax.Array:
    return jnp.sum(_wide(x), axes, keepdims=keepdims)


@translation("mean")
def _mean(x: jax.Array, *, axes: Axes, keepdims: bool) -> jax.Array:
    return jnp.mean(_wide(x), axes, keepdims=keepdims)


@translation("prod")
def _prod(x: jax.Array, *, axes: Axes, keepdims: bool) -> jax.Array:
    return jnp.prod(_wide(x), axes, keepdims=keepdims)


@translation("max")
def _max(x: jax.Array, *, axes: Axes, keepdims: bool) -> jax.Array:
    return jnp.max(x, axes, keepdims=keepdims)


@translation("min")
def _min(x: jax.Array, *, axes: Axes, keepdims: bool) -> jax.Array:
    return jnp.min(x, axes, keepdims=keepdims)


@translation("all")
def _all(x: jax.Array, *, axes: Axes, keepdims: bool) -> jax.Array:
    return jnp.all(x, axes, keepdims=keepdims)


@translation("any")
def _any(x: jax.Array, *, axes: Axes, keepdims: bool) -> jax.Array:
    return jnp.any(x, axes, keepdims=keepdims)


@translation("logsumexp")
def _logsumexp(x: jax.Array, *, axes: Axes, keepdims: bool) -> jax.Array:
    return jax.nn.logsumexp(x, axes, keepdims=keepdims)


@translation("argmax")
def _argmax(x: jax.Array, *, axis: int | None) -> jax.Array:
    return jnp.argmax(x, axis)


@translation("argmin")
def _argmin(x: jax.Array, *, axis: int | None) -> jax.Array:
    return jnp.argmin(x, axis)


@translation("sum_to")
def _sum_to(x: jax.Array, *, shape: Shape) -> jax.Array:
    extra = x.ndim - len(shape)
    axes = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1))
    return jnp.sum(_wide(x), axes).reshape(shape)


@translation("softmax")
def _softmax(x: jax.Array, *, scale: float, causal: bool) -> jax.Array:
    scores = x * jnp.asarray(scale, x.dtype)
    if causal:
        n, m = x.shape[-2:]
        scores = jnp.where(np.tri(n, m, m - n, dtype=bool), scores, -jnp.inf)
    return jax.nn.softmax(scores, -1)


@translation("softmax_gradient")
def _softmax_gradient(g: jax.Array, y: jax.Array, *, scale: float, causal: bool) -> jax.Array:
    del causal  # the weights of what is hidden are zero
    return scale * y * (g - jnp.sum(g * y, -1, keepdims=True))


@translation("log_softmax")
def _log_softmax(x: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(x, -1)


def _running(
    function: Callable[..., jax.Array], x: jax.Array, axis: int, exclusive: bool, reverse: bool, first: float
) -> jax.Array:
    turned = jnp.flip(x, axis) if reverse else x
    total = function(_wide(turned), axis)
    if exclusive:
        total = jnp.roll(total, 1, axis).at[(*(slice(None),) * axis, slice(0, 1))].set(jnp.asarray(first, total.dtype))
    return jnp.flip(total, axis) if reverse else total


@translation("cumsum")
def _cumsum(x: jax.Array, *, axis: int, exclusive: bool, reverse: bool) -> jax.Array:
    return _running(jnp.cumsum, x, axis, exclusive, reverse, 0.0)


@translation("cumprod")
def _cumprod(x: jax.Array, *, axis: int, exclusive: bool, reverse: bool) -> jax.Array:
    return _running(jnp.cumprod, x, axis, exclusive, reverse, 1.0)


@translation("logcumsumexp")
def _logcumsumexp(x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    return jax.lax.cumlogsumexp(x, axis, reverse)
