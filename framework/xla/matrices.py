"""Products of matrices, linear algebra, attention, Fourier transforms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .translation import translation


@translation("matmul")
def _matmul(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b)


@translation("linear")
def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return jnp.matmul(x, weight.T) + bias


@translation("einsum")
def _einsum(*operands: Any, subscripts: str) -> Any:
    return jnp.einsum(subscripts, *operands)


@translation("inv")
def _inv(x: Any) -> Any:
    return jnp.linalg.inv(x)


@translation("det")
def _det(x: Any) -> Any:
    return jnp.linalg.det(x)


@translation("slogdet")
def _slogdet(x: Any) -> Any:
    return tuple(jnp.linalg.slogdet(x))


@translation("solve")
def _solve(a: Any, b: Any) -> Any:
    return jnp.linalg.solve(a, b)


@translation("triangular_solve")
def _triangular_solve(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    return jax.scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit)


@translation("cholesky")
def _cholesky(x: Any) -> Any:
    return jnp.linalg.cholesky(x)


@translation("pinv")
def _pinv(x: Any, *, rcond: float) -> Any:
    return jnp.linalg.pinv(x, rtol=rcond)


@translation("fft")
def _fft(x: Any, *, axes: Any, norm: str, inverse: bool) -> Any:
    return (jnp.fft.ifftn if inverse else jnp.fft.fftn)(x, axes=axes, norm=norm)


@translation("rfft")
def _rfft(x: Any, *, axis: int, norm: str) -> Any:
    return jnp.fft.rfft(x, axis=axis, norm=norm)


@translation("irfft")
def _irfft(x: Any, *, axis: int, length: int, norm: str) -> Any:
    return jnp.fft.irfft(x, length, axis, norm)


def _scores(query: Any, key: Any, mask: Any, causal: bool, scale: float) -> Any:
    scores = jnp.einsum("...qd,...kd->...qk", query, key) * jnp.asarray(scale, query.dtype)
    hidden = [*mask]
    if causal:
        n, m = scores.shape[-2:]
        hidden.append(np.tri(n, m, m - n, dtype=bool))
    for seen in hidden:
        scores = jnp.where(seen, scores, -jnp.inf)
    return scores


@translation("attention")
def _attention(query: Any, key: Any, value: Any, *mask: Any, causal: bool, scale: float) -> Any:
    scores = _scores(query, key, mask, causal, scale)
    sums = jax.nn.logsumexp(scores, -1)
    return jnp.matmul(jax.nn.softmax(scores, -1), value), sums


@translation("attention_gradient")
def _attention_gradient(
    g: Any, query: Any, key: Any, value: Any, output: Any, sums: Any, *mask: Any, causal: bool, scale: float
) -> Any:
    weights = jnp.exp(_scores(query, key, mask, causal, scale) - sums[..., None])
    delta = jnp.sum(g * output, -1, keepdims=True)
    slopes = weights * (jnp.einsum("...qd,...kd->...qk", g, value) - delta) * jnp.asarray(scale, query.dtype)
    return (
        jnp.matmul(slopes, key),
        jnp.matmul(jnp.swapaxes(slopes, -1, -2), query),
        jnp.matmul(jnp.swapaxes(weights, -1, -2), g),
    )


@translation("grouped_matmul")
def _grouped_matmul(x: Any, matrices: Any, counts: Any) -> Any:
    return jax.lax.ragged_dot(x, matrices, counts.astype(jnp.int32))


@translation("grouped_outer")
def _grouped_outer(x: Any, g: Any, counts: Any) -> Any:
    matrices = jnp.zeros((counts.shape[0], x.shape[1], g.shape[1]), x.dtype)
    return jax.vjp(lambda w: _grouped_matmul(x, w, counts), matrices)[1](g)[0]
