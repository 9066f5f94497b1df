"""Regions of images sampled between pixels: aligned regions of interest, and convolutions whose taps move.

Reference:
    He et al. 2017, arXiv:1703.06870 (regions); Zhu et al. 2019, arXiv:1811.11168 (deformable convolution).
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, Literal

import numpy as np

from ..shape import Shape
from ..tensor import Tensor, wrap
from .arithmetic import maximum, minimum
from .choose import where
from .compare import greater_equal, less_equal, logical_and
from .join import concat
from .linalg import matmul
from .sample import around, pixels_at, sampled
from .window import PerAxis, per_axis


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
    """Regions of images brought to one size, as `(regions, channels, *size)`.

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
    """One region `(1, channels, *size)` of an image from sample positions along both axes."""
    (rows, down), (columns, across) = axes
    points = (1, rows.shape[0], columns.shape[0])
    positions = [rows.reshape(1, -1, 1), columns.reshape(1, 1, -1)]
    inside: Any = None
    held = []
    for position, length in zip(positions, image.shape[2:], strict=True):
        here = logical_and(greater_equal(position, -1.0), less_equal(position, float(length)))
        inside = here if inside is None else logical_and(inside, here)
        held.append(minimum(maximum(position, 0.0), length - 1.0) + wrap(np.zeros(points, image.dtype)))
    # The four weighted corners apart, for the largest of them is taken before they are added up.
    corners = []
    for corner in product(*(around(position, "linear", 0.0) for position in held)):
        value = pixels_at(image, [place for place, _ in corner], "border", True)
        for _, weight in corner:
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
    """Convolution of images whose window's elements are moved, each by an offset of its own.

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
) -> tuple[Any, Any]:
    """Rows and columns `(taps, h', w')` of the window's elements before they are moved."""
    lines = [
        np.arange(kernel[i])[:, None] * dilation[i] + np.arange(size[i]) * stride[i] - padding[i][0] for i in (0, 1)
    ]
    rows = np.broadcast_to(lines[0][:, None, :, None], (*kernel, *size)).reshape(-1, *size)
    columns = np.broadcast_to(lines[1][None, :, None, :], (*kernel, *size)).reshape(-1, *size)
    return rows, columns
