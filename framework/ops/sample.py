"""Images looked at between their pixels: sampling at a grid, and the grid of an affine map.

Reference:
    Jaderberg et al. 2015, arXiv:1506.02025.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, Literal

import numpy as np

from ..errors import ShapeError
from ..tensor import Tensor, wrap
from .arithmetic import abs as absolute
from .arithmetic import maximum, minimum
from .choose import where
from .compare import greater_equal, less_equal, logical_and
from .indexing import getitem
from .linalg import matmul
from .operands import cast_to
from .rounding import floor, remainder

SampleMode = Literal["nearest", "linear", "cubic"]
SamplePadding = Literal["zeros", "border", "reflection"]


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """The coordinate, folded back at both ends as often as needed."""
    span = high - low
    if span <= 0:
        return x * 0.0
    rest = remainder(absolute(x - low), 2.0 * span)
    return minimum(rest, 2.0 * span - rest) + low


def pixels_at(image: Tensor, places: Sequence[Tensor], padding: SamplePadding, align_corners: bool) -> Tensor:
    """The pixels `(n, *points, channels)` of `(n, channels, *lengths)` at whole places `(n, *points)`, one an axis."""
    lengths = image.shape[2:]
    inside: Any = None
    index: list[Any] = []
    for place, length in zip(places, lengths, strict=True):
        if padding == "reflection":
            edge = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
            place = _reflected(place, *edge)
        if padding == "zeros":
            here = logical_and(greater_equal(place, 0.0), less_equal(place, length - 1.0))
            inside = here if inside is None else logical_and(inside, here)
        index.append(cast_to(minimum(maximum(place.detach(), 0.0), length - 1.0), np.dtype(np.int64)))
    batch = wrap(np.arange(image.shape[0]).reshape(-1, *(1,) * (places[0].ndim - 1)))
    last = image.transpose(0, *range(2, image.ndim), 1)
    found = getitem(last, (batch, *index))
    return found if inside is None else where(inside.reshape(*inside.shape, 1), found, 0.0)


def _cubic(t: Tensor, a: float) -> list[Tensor]:
    """Weights of the four elements around a place `t` (0 to 1) behind the second of them."""
    near, far = [], []
    for d in (t, 1.0 - t):
        near.append(((a + 2) * d - (a + 3)) * d * d + 1.0)
        far.append(((a * (d + 1.0) - 5 * a) * (d + 1.0) + 8 * a) * (d + 1.0) - 4 * a)
    return [far[0], near[0], near[1], far[1]]


def around(position: Tensor, mode: SampleMode, a: float) -> list[tuple[Tensor, Any]]:
    """The whole places around a position, and how much each counts (None: fully)."""
    if mode == "nearest":
        up = floor(position + 0.5)
        half_way = (position + 0.5 - up) == 0.0
        odd = remainder(up, 2.0) == 1.0
        return [(where(logical_and(half_way, odd), up - 1.0, up), None)]
    low = floor(position)
    t = position - low
    if mode == "linear":
        return [(low, 1.0 - t), (low + 1.0, t)]
    return [(low + float(i - 1), weight) for i, weight in enumerate(_cubic(t, a))]


def sampled(
    image: Tensor,
    positions: Sequence[Tensor],
    mode: SampleMode,
    padding: SamplePadding,
    align_corners: bool,
    cubic_a: float = -0.75,
) -> Tensor:
    """Values `(n, *points, channels)` of an image at positions in pixels `(n, *points)`, one tensor an axis."""
    total: Any = None
    for corner in product(*(around(position, mode, cubic_a) for position in positions)):
        value = pixels_at(image, [place for place, _ in corner], padding, align_corners)
        for _, weight in corner:
            if weight is not None:
                value = value * weight.reshape(*weight.shape, 1)
        total = value if total is None else total + value
    result: Tensor = total
    return result


def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: SampleMode = "linear",
    padding: SamplePadding = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """The values of images at the places of a grid, as `(n, channels, *points)`; differentiable in both.

    Args:
        x: `(n, channels, *lengths)` with one axis or more behind the channels.
        grid: `(n, *points, axes)`: where to look, from -1 to 1, the last axis of the image first.
        mode: The nearest pixel (ties to even), or linear or cubic between pixels.
        padding: What stands outside: zeros, the border, or the image mirrored.
        align_corners: Whether -1 and 1 are the centres of the outermost pixels, and not their outer edges.

    Raises:
        ShapeError: Grid and images do not fit.
    """
    lengths = x.shape[2:]
    if grid.ndim != x.ndim or grid.shape[-1] != len(lengths) or grid.shape[0] != x.shape[0]:
        raise ShapeError(
            f"grid_sample of images {x.shape} expects a grid ({x.shape[0]}, *points, {len(lengths)}), got {grid.shape}"
        )
    positions = []
    for axis, length in enumerate(lengths):
        place = grid[..., len(lengths) - 1 - axis]
        position = (place + 1.0) * ((length - 1) / 2.0) if align_corners else ((place + 1.0) * length - 1.0) * 0.5
        if padding == "border" and mode != "cubic":
            position = minimum(maximum(position, 0.0), length - 1.0)
        elif padding == "reflection" and mode != "cubic":
            edge = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
            position = minimum(maximum(_reflected(position, *edge), 0.0), length - 1.0)
        positions.append(position)
    found = sampled(x, positions, mode, padding, align_corners)
    return found.transpose(0, found.ndim - 1, *range(1, found.ndim - 1))


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The grid for `grid_sample` that an affine map makes of the regular one.

    Args:
        theta: `(n, axes, axes + 1)`, for two or three axes.
        size: `(n, channels, *lengths)` of the images to be made.
        align_corners: As in `grid_sample`.
    """
    lengths = tuple(size[2:])
    if theta.shape[1:] != (len(lengths), len(lengths) + 1):
        raise ShapeError(
            f"affine_grid to {tuple(size)} expects theta (n, {len(lengths)}, {len(lengths) + 1}), got {theta.shape}"
        )
    lines = []
    for length in lengths:
        line = np.linspace(-1, 1, length) if align_corners else (2 * np.arange(length) + 1) / length - 1
        lines.append(np.zeros(1) if align_corners and length == 1 else line)
    spots = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(lengths)], -1)
    base = wrap(spots.reshape(-1, len(lengths) + 1).astype(theta.dtype))
    return matmul(base, theta.swapaxes(1, 2)).reshape(theta.shape[0], *lengths, len(lengths))
