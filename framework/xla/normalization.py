"""Normalizations and losses; their gradients are what JAX derives from the forward translation."""

from typing import Any

import jax
import jax.numpy as jnp

from .translation import translation


@translation("layer_norm")
def _layer_norm(x: Any, gamma: Any, beta: Any, *, epsilon: float) -> Any:
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + epsilon) * gamma + beta


@translation("layer_norm_gradient")
def _layer_norm_gradient(g: Any, x: Any, gamma: Any, *, epsilon: float) -> Any:
    return jax.vjp(lambda x, w, b: _layer_norm(x, w, b, epsilon=epsilon), x, gamma, jnp.zeros_like(gamma))[1](g)


@translation("rms_norm")
def _rms_norm(x: Any, gamma: Any, *, epsilon: float) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + epsilon) * gamma


@translation("rms_norm_gradient")
def _rms_norm_gradient(g: Any, x: Any, gamma: Any, *, epsilon: float) -> Any:
    return jax.vjp(lambda x, w: _rms_norm(x, w, epsilon=epsilon), x, gamma)[1](g)


def _normalized(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    centre = jnp.mean(x, axes)
    centred = x - centre.reshape(shape)
    spread = jnp.mean(centred * centred, axes)
    scale = (gamma * jax.lax.rsqrt(spread + epsilon)).reshape(shape)
    return centred * scale + beta.reshape(shape), centre, spread


@translation("batch_norm")
def _batch_norm(x: Any, gamma: Any, beta: Any, *, epsilon: float) -> Any:
    return _normalized(x, gamma, beta, epsilon)


@translation("batch_norm_gradient")
def _batch_norm_gradient(g: Any, x: Any, gamma: Any, centre: Any, spread: Any, *, epsilon: float) -> Any:
    del centre, spread  # functions of x
    return jax.vjp(lambda x, w, b: _normalized(x, w, b, epsilon)[0], x, gamma, jnp.zeros_like(gamma))[1](g)


@translation("cross_entropy")
def _cross_entropy(logits: Any, labels: Any, *, ignore: int, smoothing: float) -> Any:
    """The label of an ignored row is not looked at."""
    counted = labels != ignore
    scores = jax.nn.log_softmax(logits, -1)
    safe = jnp.where(counted, labels, 0)
    at_label = jnp.take_along_axis(scores, safe[:, None], 1)[:, 0]
    losses = -(1.0 - smoothing) * at_label - smoothing * jnp.mean(scores, -1)
    return jnp.where(counted, losses, 0.0)


@translation("cross_entropy_gradient")
def _cross_entropy_gradient(g: Any, logits: Any, labels: Any, *, ignore: int, smoothing: float) -> Any:
    return jax.vjp(lambda x: _cross_entropy(x, labels, ignore=ignore, smoothing=smoothing), logits)[1](g)[0]
