"""Indexing, gathering and scattering."""

from typing import Any

import jax.numpy as jnp

from ..ops.indexing import ARRAY, Slice
from .translation import translation


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
