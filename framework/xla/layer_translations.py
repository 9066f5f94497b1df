"""Products of matrices, linear algebra, attention, normalizations, losses, convolutions and pools.

The gradients of normalizations and losses are what JAX derives from the forward translation.
"""

from collections.abc import Callable, Sequence
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..ops.convolution_ops import ConvolutionWindow
from ..ops.sliding_window import PoolWindow
from ..specs import Axes, Shape
from ..tensor import Array
from .translation_table import translation


@translation("matmul")
def _matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b)


@translation("linear")
def _linear(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    return jnp.matmul(x, weight.T) + bias


@translation("einsum")
def _einsum(*operands: jax.Array, subscripts: str) -> jax.Array:
    return jnp.einsum(subscripts, *operands)


@translation("inv")
def _inv(x: jax.Array) -> jax.Array:
    return jnp.linalg.inv(x)


@translation("det")
def _det(x: jax.Array) -> jax.Array:
    return jnp.linalg.det(x)


@translation("slogdet")
def _slogdet(x: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(jnp.linalg.slogdet(x))


@translation("solve")
def _solve(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.linalg.solve(a, b)


@translation("triangular_solve")
def _triangular_solve(a: jax.Array, b: jax.Array, *, lower: bool, unit: bool) -> jax.Array:
    return jax.scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit)


@translation("cholesky")
def _cholesky(x: jax.Array) -> jax.Array:
    return jnp.linalg.cholesky(x)


@translation("pinv")
def _pinv(x: jax.Array, *, rcond: float) -> jax.Array:
    return jnp.linalg.pinv(x, rtol=rcond)


@translation("fft")
def _fft(x: jax.Array, *, axes: Axes, norm: str, inverse: bool) -> jax.Array:
    return (jnp.fft.ifftn if inverse else jnp.fft.fftn)(x, axes=axes, norm=norm)


@translation("rfft")
def _rfft(x: jax.Array, *, axis: int, norm: str) -> jax.Array:
    return jnp.fft.rfft(x, axis=axis, norm=norm)


@translation("irfft")
def _irfft(x: jax.Array, *, axis: int, length: int, norm: str) -> jax.Array:
    return jnp.fft.irfft(x, length, axis, norm)


def _scores(query: jax.Array, key: jax.Array, mask: Sequence[jax.Array], causal: bool, scale: float) -> jax.Array:
    scores = jnp.einsum("...qd,...kd->...qk", query, key) * jnp.asarray(scale, query.dtype)
    hidden = [*mask]
    if causal:
        n, m = scores.shape[-2:]
        hidden.append(np.tri(n, m, m - n, dtype=bool))
    for seen in hidden:
        scores = jnp.where(seen, scores, -jnp.inf)
    return scores


@translation("attention")
def _attention(
    query: jax.Array, key: jax.Array, value: jax.Array, *mask: jax.Array, causal: bool, scale: float
) -> tuple[jax.Array, jax.Array]:
    scores = _scores(query, key, mask, causal, scale)
    sums = jax.nn.logsumexp(scores, -1)
    return jnp.matmul(jax.nn.softmax(scores, -1), value), sums


@translation("attention_gradient")
def _attention_gradient(
    g: jax.Array,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    output: jax.Array,
    sums: jax.Array,
    *mask: jax.Array,
    causal: bool,
    scale: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    weights = jnp.exp(_scores(query, key, mask, causal, scale) - sums[..., None])
    delta = jnp.sum(g * output, -1, keepdims=True)
    slopes = weights * (jnp.einsum("...qd,...kd->...qk", g, value) - delta) * jnp.asarray(scale, query.dtype)
    return (
        jnp.matmul(slopes, key),
        jnp.matmul(jnp.swapaxes(slopes, -1, -2), query),
        jnp.matmul(jnp.swapaxes(weights, -1, -2), g),
    )


@translation("grouped_matmul")
def _grouped_matmul(x: jax.Array, matrices: jax.Array, counts: jax.Array) -> jax.Array:
    return jax.lax.ragged_dot(x, matrices, counts.astype(jnp.int32))


@translation("grouped_outer")
def _grouped_outer(x: jax.Array, g: jax.Array, counts: jax.Array) -> jax.Array:
    matrices = jnp.zeros((counts.shape[0], x.shape[1], g.shape[1]), x.dtype)
    return jax.vjp(lambda w: _grouped_matmul(x, w, counts), matrices)[1](g)[0]


@translation("layer_norm")
def _layer_norm(x: jax.Array, gamma: jax.Array, beta: jax.Array, *, epsilon: float) -> jax.Array:
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + epsilon) * gamma + beta


@translation("layer_norm_gradient")
def _layer_norm_gradient(g: jax.Array, x: jax.Array, gamma: jax.Array, *, epsilon: float) -> tuple[jax.Array, ...]:
    return tuple(jax.vjp(lambda x, w, b: _layer_norm(x, w, b, epsilon=epsilon), x, gamma, jnp.zeros_like(gamma))[1](g))


@translation("rms_norm")
def _rms_norm(x: jax.Array, gamma: jax.Array, *, epsilon: float) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + epsilon) * gamma


@translation("rms_norm_gradient")
def _rms_norm_gradient(g: jax.Array, x: jax.Array, gamma: jax.Array, *, epsilon: float) -> tuple[jax.Array, ...]:
    return tuple(jax.vjp(lambda x, w: _rms_norm(x, w, epsilon=epsilon), x, gamma)[1](g))


def _normalized(
    x: jax.Array, gamma: jax.Array, beta: jax.Array, epsilon: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    centre = jnp.mean(x, axes)
    centred = x - centre.reshape(shape)
    spread = jnp.mean(centred * centred, axes)
    scale = (gamma * jax.lax.rsqrt(spread + epsilon)).reshape(shape)
    return centred * scale + beta.reshape(shape), centre, spread


@translation("batch_norm")
def _batch_norm(
    x: jax.Array, gamma: jax.Array, beta: jax.Array, *, epsilon: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    return _normalized(x, gamma, beta, epsilon)


@translation("batch_norm_gradient")
def _batch_norm_gradient(
    g: jax.Array, x: jax.Array, gamma: jax.Array, centre: jax.Array, spread: jax.Array, *, epsilon: float
) -> tuple[jax.Array, ...]:
    del centre, spread  # functions of x
    return tuple(jax.vjp(lambda x, w, b: _normalized(x, w, b, epsilon)[0], x, gamma, jnp.zeros_like(gamma))[1](g))


@translation("cross_entropy")
def _cross_entropy(logits: jax.Array, labels: jax.Array, *, ignore: int, smoothing: float) -> jax.Array:
    """Return the loss of each row; the label of an ignored row is not read."""
    counted = labels != ignore
    scores = jax.nn.log_softmax(logits, -1)
    safe = jnp.where(counted, labels, 0)
    at_label = jnp.take_along_axis(scores, safe[:, None], 1)[:, 0]
    losses = -(1.0 - smoothing) * at_label - smoothing * jnp.mean(scores, -1)
    return jnp.where(counted, losses, 0.0)


@translation("cross_entropy_gradient")
def _cross_entropy_gradient(
    g: jax.Array, logits: jax.Array, labels: jax.Array, *, ignore: int, smoothing: float
) -> jax.Array:
    return jax.vjp(lambda x: _cross_entropy(x, labels, ignore=ignore, smoothing=smoothing), logits)[1](g)[0]


_LETTERS = {1: "W", 2: "HW", 3: "DHW"}


@translation("conv")
def _conv(x: jax.Array, w: jax.Array, *, window: ConvolutionWindow) -> jax.Array:
    letters = _LETTERS[len(window.stride)]
    return jax.lax.conv_general_dilated(
        x,
        w,
        window.stride,
        window.padding,
        rhs_dilation=window.dilation,
        dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
        feature_group_count=window.groups,
    )


@translation("conv_bias")
def _conv_bias(x: jax.Array, w: jax.Array, bias: jax.Array, *, window: ConvolutionWindow) -> jax.Array:
    return _conv(x, w, window=window) + bias.reshape(-1, *(1,) * len(window.stride))


@translation("conv_input_gradient")
def _conv_input_gradient(g: jax.Array, w: jax.Array, *, window: ConvolutionWindow, shape: Shape) -> jax.Array:
    return jax.vjp(lambda x: _conv(x, w, window=window), jnp.zeros(shape, g.dtype))[1](g)[0]


@translation("conv_weight_gradient")
def _conv_weight_gradient(g: jax.Array, x: jax.Array, *, window: ConvolutionWindow, shape: Shape) -> jax.Array:
    return jax.vjp(lambda w: _conv(x, w, window=window), jnp.zeros(shape, g.dtype))[1](g)[0]


def _padding(x: jax.Array, window: PoolWindow) -> list[tuple[int, int]]:
    """Return the padding of all axes; with `ceil` as much more behind as the last window needs."""
    sides = [(0, 0), (0, 0)]
    axes = zip(x.shape[2:], window.kernel, window.stride, window.padding, window.dilation, strict=True)
    for length, kernel, stride, (before, after), dilation in axes:
        reach = dilation * (kernel - 1) + 1
        room = length + before + after - reach
        count = room // stride + 1
        if window.ceil:
            more = -(-room // stride) + 1
            count = more if (more - 1) * stride < length + before else more - 1
        sides.append((before, (count - 1) * stride + reach - length - before))
    return sides


def _windows(
    x: jax.Array,
    window: PoolWindow,
    first: Array | np.generic,
    combine: Callable[..., jax.Array],
    padding: Sequence[tuple[int, int]],
) -> jax.Array:
    return jax.lax.reduce_window(
        x,
        first,
        combine,
        (1, 1, *window.kernel),
        (1, 1, *window.stride),
        padding,
        window_dilation=(1, 1, *window.dilation),
    )


def _sums(x: jax.Array, window: PoolWindow) -> jax.Array:
    padding = _padding(x, window)
    short = [(before, max(after, 0)) for before, after in padding]
    total = _windows(x, window, np.zeros((), x.dtype)[()], jax.lax.add, short)
    return total[tuple(slice(0, n) for n in _counts(x, window, padding))]


def _counts(x: jax.Array, window: PoolWindow, padding: Sequence[tuple[int, int]]) -> list[int]:
    lengths = [n + before + after for n, (before, after) in zip(x.shape[2:], padding[2:], strict=True)]
    reaches = [d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
    steps = zip(lengths, reaches, window.stride, strict=True)
    return [*x.shape[:2], *((n - reach) // stride + 1 for n, reach, stride in steps)]


@translation("avg_pool")
def _avg_pool(x: jax.Array, *, window: PoolWindow, divisor: str) -> jax.Array:
    total = _sums(x, window)
    if divisor == "none":
        return total
    ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
    if divisor == "padded":
        ones = np.pad(ones, [(0, 0), (0, 0), *window.padding], constant_values=1)
        inner = window._replace(padding=((0, 0),) * len(window.kernel), ceil=False)
        sides = [(0, 0), (0, 0)]
        for (before, after), (_, whole) in zip(window.padding, _padding(x, window)[2:], strict=True):
            del before
            sides.append((0, max(whole - after, 0)))
        ones = jnp.pad(ones, sides)
        counted = _sums(ones, inner)
        counted = counted[tuple(slice(0, n) for n in (1, 1, *total.shape[2:]))]
    else:
        counted = _sums(jnp.asarray(ones), window)
    return total / counted


@translation("avg_pool_gradient")
def _avg_pool_gradient(g: jax.Array, *, shape: Shape, window: PoolWindow, divisor: str) -> jax.Array:
    return jax.vjp(lambda x: _avg_pool(x, window=window, divisor=divisor), jnp.zeros(shape, g.dtype))[1](g)[0]


@translation("max_pool")
def _max_pool(x: jax.Array, *, window: PoolWindow) -> tuple[jax.Array, jax.Array]:
    """Return all elements of each window side by side; the first of the largest is found by argmax."""
    padding = [(before, max(after, 0)) for before, after in _padding(x, window)]
    low = -jnp.inf if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo(x.dtype).min
    padded = jnp.pad(x, padding, constant_values=low)
    lengths = _counts(x, window, _padding(x, window))[2:]
    grids = np.meshgrid(*(np.arange(k) for k in window.kernel), indexing="ij")
    offsets = np.stack([grid.reshape(-1) for grid in grids], -1)
    taken = []
    for offset in offsets:
        starts = [int(o) * d for o, d in zip(offset, window.dilation, strict=True)]
        part = tuple(slice(s, s + (n - 1) * t + 1, t) for s, n, t in zip(starts, lengths, window.stride, strict=True))
        taken.append(padded[(slice(None), slice(None), *part)])
    stacked = jnp.stack(taken)
    best = jnp.argmax(stacked, 0)
    return jnp.max(stacked, 0), _flat_places(best, offsets, lengths, x.shape[2:], window)


def _flat_places(
    best: jax.Array, offsets: NDArray[np.int64], lengths: Sequence[int], shape: Shape, window: PoolWindow
) -> jax.Array:
    """Return the number of the chosen element in its plane."""
    place = jnp.zeros(best.shape, jnp.int32)
    for axis, length in enumerate(lengths):
        start = np.arange(length) * window.stride[axis] - window.padding[axis][0]
        starts = start.reshape(-1, *(1,) * (len(lengths) - 1 - axis))
        coordinate = jnp.asarray(offsets[:, axis] * window.dilation[axis])[best] + starts
        place = place + (coordinate * prod(shape[axis + 1 :])).astype(jnp.int32)
    return place
