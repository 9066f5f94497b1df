"""Reductions, running totals, and functions of rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .translation import translation

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
