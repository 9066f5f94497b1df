"""Windows laid out as columns, and columns added back: convolutions whose weights are zeros and ones."""

from collections.abc import Sequence
from math import prod

import numpy as np

from ..errors import ShapeError
from ..tensor import Tensor, wrap
from .convolution_ops import ConvolutionWindow, convolve, deconvolve
from .sliding_window import Padding, PerAxis, per_axis, sides_of


def _window(
    lengths: Sequence[int], kernel: PerAxis, stride: PerAxis, padding: Padding, dilation: PerAxis
) -> tuple[tuple[int, ...], ConvolutionWindow]:
    axes = len(lengths)
    size, step, spread = per_axis(kernel, axes), per_axis(stride, axes, "stride"), per_axis(dilation, axes, "dilation")
    return size, ConvolutionWindow(step, sides_of(padding, tuple(lengths), size, step, spread), spread, 1)


def _picks(channels: int, kernel: tuple[int, ...], dtype: object) -> Tensor:
    """Return weights `(channels * taps, 1, *kernel)`: each output is one element of the window of one channel."""
    taps = prod(kernel)
    return wrap(np.tile(np.eye(taps, dtype=dtype), (channels, 1)).reshape(channels * taps, 1, *kernel))  # type: ignore[call-overload]


def unfold(x: Tensor, kernel: PerAxis, stride: PerAxis = 1, padding: Padding = 0, dilation: PerAxis = 1) -> Tensor:
    """Return the windows of images `(n, channels, ...)` as columns `(n, channels * elements of a window, windows)`."""
    size, window = _window(x.shape[2:], kernel, stride, padding, dilation)
    columns = convolve(x, _picks(x.shape[1], size, x.dtype), window._replace(groups=x.shape[1]))
    return columns.reshape(x.shape[0], columns.shape[1], -1)


def fold(
    columns: Tensor,
    lengths: Sequence[int],
    kernel: PerAxis,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
) -> Tensor:
    """Return the transpose of `unfold`: columns `(n, channels * taps, windows)` added up in images `(n, channels,
    *lengths)`.

    Raises:
        ShapeError: The columns are not those of such images.
    """
    size, window = _window(lengths, kernel, stride, padding, dilation)
    places = [
        (n + sum(side) - d * (k - 1) - 1) // s + 1
        for n, k, s, side, d in zip(lengths, size, window.stride, window.padding, window.dilation, strict=True)
    ]
    channels = columns.shape[1] // prod(size)
    if columns.ndim != 3 or columns.shape[1] != channels * prod(size) or columns.shape[2] != prod(places):
        raise ShapeError(
            f"fold to {tuple(lengths)} with a window of {size} expects columns (n, channels * {prod(size)}, "
            f"{prod(places)}), got {columns.shape}"
        )
    grid = columns.reshape(columns.shape[0], columns.shape[1], *places)
    weight = _picks(channels, size, columns.dtype)
    return deconvolve(grid, weight, window._replace(groups=channels), (columns.shape[0], channels, *lengths))
