"""Shapes, indexing, gathering and scattering, sorting, reductions and running totals."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..ops.indexing_ops import ARRAY, Slice
from .translation_table import translation


@translation("reshape")
def _reshape(x: Any, *, shape: Any) -> Any:
    return jnp.reshape(x, shape)


@translation("transpose")
def _transpose(x: Any, *, axes: Any) -> Any:
    return jnp.transpose(x, axes)


@translation("swapaxes")
def _swapaxes(x: Any, *, first: int, second: int) -> Any:
    return jnp.swapaxes(x, first, second)


@translation("broadcast_to")
def _broadcast_to(x: Any, *, shape: Any) -> Any:
    return jnp.broadcast_to(x, shape)


@translation("concat")
def _concat(*parts: Any, axis: int) -> Any:
    return jnp.concatenate(parts, axis)


@translation("split")
def _split(x: Any, *, sizes: Any, axis: int) -> Any:
    return tuple(jnp.split(x, np.cumsum(sizes)[:-1].tolist(), axis))


@translation("pad")
def _pad(x: Any, *, widths: Any, value: float) -> Any:
    return jax.lax.pad(x, jnp.asarray(value, x.dtype), [(before, after, 0) for before, after in widths])


@translation("one_hot")
def _one_hot(x: Any, *, depth: int, axis: int) -> Any:
    return jax.nn.one_hot(jnp.where(x < 0, x + depth, x), depth, axis=axis)


def _index(index: Any, arrays: Any) -> Any:
    rest = iter(arrays)
    return tuple(slice(*part) if isinstance(part, Slice) else next(rest) if part == ARRAY else part for part in index)


@translation("getitem")
def _getitem(x: Any, *arrays: Any, index: Any) -> Any:
    return jnp.asarray(x)[_index(index, arrays)]


@translation("put")
def _put(g: Any, *arrays: Any, index: Any, shape: Any) -> Any:
    return jnp.zeros(shape, g.dtype).at[_index(index, arrays)].add(g)


@translation("gather")
def _gather(table: Any, indices: Any) -> Any:
    return table[indices]


@translation("scatter_add")
def _scatter_add(values: Any, indices: Any, *, rows: int) -> Any:
    return jnp.zeros((rows, *values.shape[indices.ndim :]), values.dtype).at[indices].add(values)


def _places(indices: Any, axis: int) -> Any:
    grid = list(jnp.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = indices
    return tuple(grid)


@translation("gather_elements")
def _gather_elements(x: Any, indices: Any, *, axis: int) -> Any:
    return x[_places(indices, axis)]


@translation("put_elements")
def _put_elements(g: Any, indices: Any, *, axis: int, shape: Any) -> Any:
    return jnp.zeros(shape, g.dtype).at[_places(indices, axis)].add(g)


@translation("scatter_elements")
def _scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int, reduction: str) -> Any:
    target = x.at[_places(indices, axis)]
    methods = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}
    return getattr(target, methods[reduction])(updates)


@translation("bincount")
def _bincount(x: Any, *weights: Any, length: int) -> Any:
    return jnp.bincount(x, *weights, length=length)


@translation("searchsorted")
def _searchsorted(row: Any, x: Any, *, right: bool) -> Any:
    side = "right" if right else "left"
    if row.ndim == 1:
        return jnp.searchsorted(row, x, side)
    found = [
        jnp.searchsorted(a, b, side)
        for a, b in zip(row.reshape(-1, row.shape[-1]), x.reshape(-1, x.shape[-1]), strict=True)
    ]
    return jnp.stack(found).reshape(x.shape)


@translation("put_places")
def _put_places(g: Any, places: Any, *, shape: Any) -> Any:
    planes = jnp.zeros((*shape[:2], _size(shape[2:])), g.dtype)
    n, c = jnp.ogrid[: shape[0], : shape[1]]
    flat = places.reshape(*places.shape[:2], -1)
    return planes.at[n[..., None], c[..., None], flat].add(g.reshape(flat.shape)).reshape(shape)


@translation("pick_places")
def _pick_places(x: Any, places: Any) -> Any:
    planes = x.reshape(*x.shape[:2], -1)
    return jnp.take_along_axis(planes, places.reshape(*x.shape[:2], -1), -1).reshape(places.shape)


def _size(shape: Any) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def _order(x: Any, axis: int, descending: bool) -> Any:
    return jnp.argsort(x, axis, stable=True, descending=descending)


@translation("sort")
def _sort(x: Any, *, axis: int, descending: bool) -> Any:
    places = _order(x, axis, descending)
    return jnp.take_along_axis(x, places, axis), places


@translation("topk")
def _topk(x: Any, *, count: int, axis: int, largest: bool) -> Any:
    places = jax.lax.slice_in_dim(_order(x, axis, largest), 0, count, axis=axis)
    return jnp.take_along_axis(x, places, axis), places


def _extremes(accumulate: Any, x: Any, axis: int) -> Any:
    values = accumulate(x, axis)
    fresh = (values == x) | (jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.inexact) else False)
    counter = jax.lax.broadcasted_iota(jnp.int64, x.shape, axis)
    return values, jax.lax.cummax(jnp.where(fresh, counter, 0), axis)


@translation("cummax")
def _cummax(x: Any, *, axis: int) -> Any:
    return _extremes(jax.lax.cummax, x, axis)


@translation("cummin")
def _cummin(x: Any, *, axis: int) -> Any:
    return _extremes(jax.lax.cummin, x, axis)


_NARROW = ("float16", "bfloat16")


def _wide(x: Any) -> Any:
    return x.astype(jnp.float32) if str(x.dtype) in _NARROW else x


@translation("sum")
def _sum(x: Any, *, axes: Any, keepdims: bool) -> Any:
    return jnp.sum(_wide(x), axes, keepdims=keepdims)


@translation("mean")
def _mean(x: Any, *, axes: Any, keepdims: bool) -> Any:
    return jnp.mean(_wide(x), axes, keepdims=keepdims)


@translation("prod")
def _prod(x: Any, *, axes: Any, keepdims: bool) -> Any:
    return jnp.prod(_wide(x), axes, keepdims=keepdims)


@translation("max")
def _max(x: Any, *, axes: Any, keepdims: bool) -> Any:
    return jnp.max(x, axes, keepdims=keepdims)


@translation("min")
def _min(x: Any, *, axes: Any, keepdims: bool) -> Any:
    return jnp.min(x, axes, keepdims=keepdims)


@translation("all")
def _all(x: Any, *, axes: Any, keepdims: bool) -> Any:
    return jnp.all(x, axes, keepdims=keepdims)


@translation("any")
def _any(x: Any, *, axes: Any, keepdims: bool) -> Any:
    return jnp.any(x, axes, keepdims=keepdims)


@translation("logsumexp")
def _logsumexp(x: Any, *, axes: Any, keepdims: bool) -> Any:
    return jax.nn.logsumexp(x, axes, keepdims=keepdims)


@translation("argmax")
def _argmax(x: Any, *, axis: int | None) -> Any:
    return jnp.argmax(x, axis)


@translation("argmin")
def _argmin(x: Any, *, axis: int | None) -> Any:
    return jnp.argmin(x, axis)


@translation("sum_to")
def _sum_to(x: Any, *, shape: Any) -> Any:
    extra = x.ndim - len(shape)
    axes = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1))
    return jnp.sum(_wide(x), axes).reshape(shape)


@translation("softmax")
def _softmax(x: Any, *, scale: float, causal: bool) -> Any:
    scores = x * jnp.asarray(scale, x.dtype)
    if causal:
        n, m = x.shape[-2:]
        scores = jnp.where(np.tri(n, m, m - n, dtype=bool), scores, -jnp.inf)
    return jax.nn.softmax(scores, -1)


@translation("softmax_gradient")
def _softmax_gradient(g: Any, y: Any, *, scale: float, causal: bool) -> Any:
    del causal  # the weights of what is hidden are zero
    return scale * y * (g - jnp.sum(g * y, -1, keepdims=True))


@translation("log_softmax")
def _log_softmax(x: Any) -> Any:
    return jax.nn.log_softmax(x, -1)


def _running(function: Any, x: Any, axis: int, exclusive: bool, reverse: bool, first: float) -> Any:
    turned = jnp.flip(x, axis) if reverse else x
    total = function(_wide(turned), axis)
    if exclusive:
        total = jnp.roll(total, 1, axis).at[(*(slice(None),) * axis, slice(0, 1))].set(jnp.asarray(first, total.dtype))
    return jnp.flip(total, axis) if reverse else total


@translation("cumsum")
def _cumsum(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    return _running(jnp.cumsum, x, axis, exclusive, reverse, 0.0)


@translation("cumprod")
def _cumprod(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    return _running(jnp.cumprod, x, axis, exclusive, reverse, 1.0)


@translation("logcumsumexp")
def _logcumsumexp(x: Any, *, axis: int, reverse: bool) -> Any:
    return jax.lax.cumlogsumexp(x, axis, reverse)
