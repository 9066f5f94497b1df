"""Images sampled between pixels: grids, aligned regions of interest, and deformable convolution.

Reference:
    Jaderberg et al. 2015, arXiv:1506.02025 (grids); He et al. 2017, arXiv:1703.06870 (regions); Zhu et al. 2019,
    arXiv:1811.11168 (deformable convolution).
"""

from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np

from ..dtype import Array
from ..errors import ShapeError
from ..specs import Shape
from ..tensor import Tensor, wrap
from .arithmetic_ops import abs as absolute
from .arithmetic_ops import maximum, minimum
from .indexing_ops import getitem
from .layout import concat
from .logic_ops import greater_equal, less_equal, logical_and, where
from .matrix_products import matmul
from .operands import cast_to
from .rounding_ops import floor, remainder
from .sliding_window import PerAxis, per_axis

SampleMode = Literal["nearest", "linear", "cubic"]
SamplePadding = Literal["zeros", "border", "reflection"]


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Return the coordinate, folded back at both ends as often as needed."""
    span = high - low
    if span <= 0:
        return x * 0.0
    rest = remainder(absolute(x - low), 2.0 * span)
    return minimum(rest, 2.0 * span - rest) + low


def pixels_at(image: Tensor, places: Sequence[Tensor], padding: SamplePadding, align_corners: bool) -> Tensor:
    """Return the pixels `(n, *points, channels)` of `(n, channels, *lengths)` at whole places `(n, *points)`, one an
    axis."""
    lengths = image.shape[2:]
    inside: Tensor | None = None
    index: list[Tensor | slice] = []
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
    """Return weights of the four elements around a place `t` (0 to 1) behind the second of them."""
    near, far = [], []
    for d in (t, 1.0 - t):
        near.append(((a + 2) * d - (a + 3)) * d * d + 1.0)
        far.append(((a * (d + 1.0) - 5 * a) * (d + 1.0) + 8 * a) * (d + 1.0) - 4 * a)
    return [far[0], near[0], near[1], far[1]]


def around(position: Tensor, mode: SampleMode, a: float) -> list[tuple[Tensor, Tensor | None]]:
    """Return the whole places around a position, and how much each counts (None: fully)."""
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
    """Return values `(n, *points, channels)` of an image at positions in pixels `(n, *points)`, one tensor an axis."""
    total: Tensor | None = None
    for corner in product(*(around(position, mode, cubic_a) for position in positions)):
        value = pixels_at(image, [place for place, _ in corner], padding, align_corners)
        for _, weight in corner:
            if weight is not None:
                value = value * weight.reshape(*weight.shape, 1)
        total = value if total is None else total + value
    assert total is not None  # there is one corner or more
    return total


def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: SampleMode = "linear",
    padding: SamplePadding = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Return the values of images at the places of a grid, as `(n, channels, *points)`; differentiable in both.

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
    """Return the grid for `grid_sample` that an affine map makes of the regular one.

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


def roi_align(
    x: Tensor,
    rois: Tensor,
    batch: Tensor,
    size: tuple[int, int],
    *,
    scale: float = 1.0,
    sampling_ratio: int = 0,
    mode: Literal["avg", "max"] = "avg",
    half_pixel: bool = True,
) -> Tensor:
    """Return regions of images brought to one size, as `(regions, channels, *size)`.

    Args:
        x: Images `(n, channels, h, w)`.
        rois: Regions `(regions, 4)`: left, top, right, bottom.
        batch: Which image each region is in, `(regions)`.
        size: Rows and columns of the result.
        scale: By which region coordinates become pixels of `x`.
        sampling_ratio: Samples along each axis of a bin; 0 takes as many as the bin has pixels, which needs the
            regions' values.
        mode: Mean or largest of the samples of a bin.
        half_pixel: Whether pixels' centres lie half a pixel from their corner; without it, regions have at least one
            pixel.
    """
    box = rois * scale - (0.5 if half_pixel else 0.0)
    spans = [(box[:, 1], box[:, 3]), (box[:, 0], box[:, 2])]
    results = []
    for region in range(rois.shape[0]):
        axes = []
        for axis, (first, last) in enumerate(spans):
            extent = last[region] - first[region]
            if not half_pixel:
                extent = maximum(extent, 1.0)
            count = sampling_ratio or int(np.ceil(float(extent) / size[axis]))
            fractions = (np.arange(size[axis] * count) + 0.5) / (size[axis] * count)
            axes.append((first[region] + extent * wrap(fractions.astype(x.dtype)), count))
        image = x[batch[region].reshape(1)]
        results.append(_region(image, axes, size, mode))
    return concat(results) if results else wrap(np.zeros((0, x.shape[1], *size), x.dtype))


def _region(image: Tensor, axes: Sequence[tuple[Tensor, int]], size: tuple[int, int], mode: str) -> Tensor:
    """Return one region `(1, channels, *size)` of an image from sample positions along both axes."""
    (rows, down), (columns, across) = axes
    points = (1, rows.shape[0], columns.shape[0])
    positions = [rows.reshape(1, -1, 1), columns.reshape(1, 1, -1)]
    inside: Tensor | None = None
    held = []
    for position, length in zip(positions, image.shape[2:], strict=True):
        here = logical_and(greater_equal(position, -1.0), less_equal(position, float(length)))
        inside = here if inside is None else logical_and(inside, here)
        held.append(minimum(maximum(position, 0.0), length - 1.0) + wrap(np.zeros(points, image.dtype)))
    assert inside is not None  # there are two axes
    # The four weighted corners apart, for the largest of them is taken before they are added up.
    corners = []
    for corner in product(*(around(position, "linear", 0.0) for position in held)):
        value = pixels_at(image, [place for place, _ in corner], "border", True)
        for _, weight in corner:
            if weight is not None:
                value = value * weight.reshape(*weight.shape, 1)
        corners.append(where(inside.reshape(*inside.shape, 1), value, 0.0))
    bins = (size[0], down, size[1], across, image.shape[1])
    if mode == "avg":
        total = corners[0] + corners[1] + corners[2] + corners[3]
        return total.reshape(bins).mean((1, 3)).transpose(2, 0, 1).reshape(1, -1, *size)
    largest = maximum(maximum(corners[0], corners[1]), maximum(corners[2], corners[3]))
    return largest.reshape(bins).max((1, 3)).transpose(2, 0, 1).reshape(1, -1, *size)


def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Sequence[tuple[int, int]] = ((0, 0), (0, 0)),
    dilation: PerAxis = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """Return convolution of images whose window's elements are moved, each by an offset of its own.

    Args:
        x: `(n, channels, h, w)`.
        weight: `(out, channels / groups, kh, kw)`.
        offset: `(n, offset_groups * kh * kw * 2, h', w')`: down and right, for each element of the window.
        bias: `(out)`.
        mask: `(n, offset_groups * kh * kw, h', w')`: by which the elements are multiplied.
    """
    step, spread = per_axis(stride, 2, "stride"), per_axis(dilation, 2, "dilation")
    kernel, size = weight.shape[2:], offset.shape[2:]
    taps = kernel[0] * kernel[1]
    moves = offset.reshape(x.shape[0], offset_groups, taps, 2, *size)
    base = _tap_positions(kernel, size, step, padding, spread)
    columns = []
    share = x.shape[1] // offset_groups
    for group in range(offset_groups):
        positions = [moves[:, group, :, axis] + wrap(base[axis].astype(x.dtype)) for axis in (0, 1)]
        part = sampled(x[:, group * share : (group + 1) * share], positions, "linear", "zeros", True)
        if mask is not None:
            weights = mask.reshape(x.shape[0], offset_groups, taps, *size)[:, group]
            part = part * weights.reshape(*weights.shape, 1)
        columns.append(part)
    gathered = concat(columns, -1) if len(columns) > 1 else columns[0]
    # (n, taps, h', w', channels) to (groups, n h' w', channels / groups * taps)
    depth = x.shape[1] // groups
    rows = gathered.reshape(x.shape[0], taps, *size, groups, depth).transpose(4, 0, 2, 3, 5, 1)
    matrix = weight.reshape(groups, weight.shape[0] // groups, depth * taps)
    product_ = matmul(rows.reshape(groups, -1, depth * taps), matrix.swapaxes(1, 2))
    out = product_.reshape(groups, x.shape[0], *size, -1).transpose(1, 0, 4, 2, 3)
    out = out.reshape(x.shape[0], weight.shape[0], *size)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def _tap_positions(
    kernel: Shape, size: Shape, stride: Shape, padding: Sequence[tuple[int, int]], dilation: Shape
) -> tuple[Array, Array]:
    """Return rows and columns `(taps, h', w')` of the window's elements before they are moved."""
    lines = [
        np.arange(kernel[i])[:, None] * dilation[i] + np.arange(size[i]) * stride[i] - padding[i][0] for i in (0, 1)
    ]
    rows = np.broadcast_to(lines[0][:, None, :, None], (*kernel, *size)).reshape(-1, *size)
    columns = np.broadcast_to(lines[1][None, :, None, :], (*kernel, *size)).reshape(-1, *size)
    return rows, columns
