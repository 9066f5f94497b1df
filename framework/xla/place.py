"""Shapes, orders of axes, joining and cutting."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .translation import translation


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
