"""Convolutions and pools."""

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .translation import translation

_LETTERS = {1: "W", 2: "HW", 3: "DHW"}


@translation("conv")
def _conv(x: Any, w: Any, *, window: Any) -> Any:
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
def _conv_bias(x: Any, w: Any, bias: Any, *, window: Any) -> Any:
    return _conv(x, w, window=window) + bias.reshape(-1, *(1,) * len(window.stride))


@translation("conv_input_gradient")
def _conv_input_gradient(g: Any, w: Any, *, window: Any, shape: Any) -> Any:
    return jax.vjp(lambda x: _conv(x, w, window=window), jnp.zeros(shape, g.dtype))[1](g)[0]


@translation("conv_weight_gradient")
def _conv_weight_gradient(g: Any, x: Any, *, window: Any, shape: Any) -> Any:
    return jax.vjp(lambda w: _conv(x, w, window=window), jnp.zeros(shape, g.dtype))[1](g)[0]


def _padding(x: Any, window: Any) -> list[tuple[int, int]]:
    """The padding of all axes; with `ceil` as much more behind as the last window needs."""
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


def _windows(x: Any, window: Any, first: Any, combine: Any, padding: Any) -> Any:
    return jax.lax.reduce_window(
        x,
        first,
        combine,
        (1, 1, *window.kernel),
        (1, 1, *window.stride),
        padding,
        window_dilation=(1, 1, *window.dilation),
    )


def _sums(x: Any, window: Any) -> Any:
    padding = _padding(x, window)
    short = [(before, max(after, 0)) for before, after in padding]
    total = _windows(x, window, np.zeros((), x.dtype)[()], jax.lax.add, short)
    return total[tuple(slice(0, n) for n in _counts(x, window, padding))]


def _counts(x: Any, window: Any, padding: Any) -> list[int]:
    lengths = [n + before + after for n, (before, after) in zip(x.shape[2:], padding[2:], strict=True)]
    reaches = [d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
    steps = zip(lengths, reaches, window.stride, strict=True)
    return [*x.shape[:2], *((n - reach) // stride + 1 for n, reach, stride in steps)]


@translation("avg_pool")
def _avg_pool(x: Any, *, window: Any, divisor: str) -> Any:
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
def _avg_pool_gradient(g: Any, *, shape: Any, window: Any, divisor: str) -> Any:
    return jax.vjp(lambda x: _avg_pool(x, window=window, divisor=divisor), jnp.zeros(shape, g.dtype))[1](g)[0]


@translation("max_pool")
def _max_pool(x: Any, *, window: Any) -> Any:
    """All elements of each window side by side; the first of the largest is found by argmax."""
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


def _flat_places(best: Any, offsets: Any, lengths: Any, shape: Any, window: Any) -> Any:
    """The number of the chosen element in its plane."""
    place = jnp.zeros(best.shape, jnp.int32)
    for axis, length in enumerate(lengths):
        start = np.arange(length) * window.stride[axis] - window.padding[axis][0]
        starts = start.reshape(-1, *(1,) * (len(lengths) - 1 - axis))
        coordinate = jnp.asarray(offsets[:, axis] * window.dilation[axis])[best] + starts
        place = place + (coordinate * prod(shape[axis + 1 :])).astype(jnp.int32)
    return place
