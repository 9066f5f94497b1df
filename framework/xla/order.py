"""Sorting, and running extremes with their places."""

from typing import Any

import jax
import jax.numpy as jnp

from .translation import translation


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
