"""Resizing along axes: each axis is a linear map of its own, written as a matrix, or as a choice of elements.

Reference:
    ONNX operator Resize (opset 19); Keys 1981, "Cubic convolution interpolation for digital image processing".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Literal, get_args

import numpy as np

from ..errors import ShapeError
from ..specs import normalize_axis
from ..tensor import Array, Tensor, wrap
from .indexing_ops import getitem
from .logic_ops import where
from .matrix_products import matmul
from .operands import as_floating

Mode = Literal["nearest", "linear", "cubic"]
Coordinates = Literal[
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
]
Rounding = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis to resize: lengths before and after, how many times longer, and the part (from, to) that is shown."""

    length: int
    size: int
    scale: float
    part: tuple[float, float]

    def positions(self, coordinates: Coordinates) -> Array:
        """Return for each place of the result where in the input it is taken from."""
        y = np.arange(self.size, dtype=np.float64)
        wide = self.scale * self.length
        if coordinates == "align_corners":
            return y * (self.length - 1) / (wide - 1) if wide != 1 else np.zeros(self.size)
        if coordinates == "asymmetric":
            return y / self.scale
        if coordinates == "tf_crop_and_resize":
            first, last = (edge * (self.length - 1) for edge in self.part)
            step = (last - first) / (wide - 1) if wide != 1 else 0.0
            return first + y * step if wide != 1 else np.full(self.size, (first + last) / 2)
        if coordinates == "pytorch_half_pixel" and wide == 1:
            return np.full(self.size, -0.5)
        shift = self.length / 2 * (1 - self.size / wide) if coordinates == "half_pixel_symmetric" else 0.0
        return shift + (y + 0.5) / self.scale - 0.5


def _nearest(positions: Array, rounding: Rounding) -> Array:
    """Return the place of the nearest element."""
    if rounding == "floor":
        found = np.floor(positions)
    elif rounding == "ceil":
        found = np.ceil(positions)
    elif rounding == "round_prefer_ceil":
        found = np.floor(positions + 0.5)
    else:
        found = np.ceil(positions - 0.5)
    return found.astype(np.int64)


def _weight(distance: Array, mode: Mode, a: float) -> Array:
    """Return how much an element at that distance counts: a triangle, or a cubic spline with slope `a` at distance
    1."""
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(0.0, 1.0 - d)
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))


def _matrix(axis: _Axis, positions: Array, mode: Mode, a: float, antialias: bool, exclude_outside: bool) -> Array:
    """Return the map along one axis, `(size, length)`; what lies outside counts as the edge, or does not count at
    all."""
    stretch = min(axis.scale, 1.0) if antialias else 1.0
    reach = int(np.ceil((1 if mode == "linear" else 2) / stretch))
    places = np.floor(positions).astype(np.int64)[:, None] + np.arange(-reach, reach + 2)
    weights = _weight((places - positions[:, None]) * stretch, mode, a)
    if exclude_outside:
        weights = np.where((places >= 0) & (places < axis.length), weights, 0.0)
    if exclude_outside or antialias:
        weights /= weights.sum(1, keepdims=True)
    result = np.zeros((axis.size, axis.length))
    rows = np.broadcast_to(np.arange(axis.size)[:, None], places.shape)
    np.add.at(result, (rows, np.clip(places, 0, axis.length - 1)), weights)
    return result


def _along(x: Tensor, axis: int, matrix: Array) -> Tensor:
    map_ = wrap(np.ascontiguousarray(matrix.T.astype(x.dtype)))
    if axis == x.ndim - 1:
        return matmul(x, map_)
    return matmul(x.swapaxes(axis, -1), map_).swapaxes(axis, -1)


def resize(
    x: Tensor,
    size: Sequence[int] | None = None,
    *,
    scales: Sequence[float] | None = None,
    axes: Sequence[int] | None = None,
    mode: Mode = "linear",
    coordinates: Coordinates = "half_pixel",
    rounding: Rounding = "round_prefer_floor",
    cubic_a: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    parts: Sequence[tuple[float, float]] | None = None,
    extrapolation: float = 0.0,
) -> Tensor:
    """Return the tensor with axes of other lengths.

    Args:
        x: Of any number of axes.
        size: New lengths; by default `floor(length * scale)`.
        scales: How many times longer each axis becomes; by default `size / length`.
        axes: Which axes; by default the last ones, as many as `size` or `scales` has.
        mode: `nearest`, `linear` or `cubic` between elements.
        coordinates: Where in the input a place of the result lies, in ONNX's words.
        rounding: Which of two elements equally near, for `nearest`.
        cubic_a: Slope of the cubic spline at distance 1.
        antialias: When an axis shrinks, average over what falls together.
        exclude_outside: Elements beyond the edge do not count, instead of counting as the edge.
        parts: For `tf_crop_and_resize`: the part of each axis that is shown, from 0 to 1.
        extrapolation: For `tf_crop_and_resize`: what stands where the part leaves the input.

    Raises:
        ShapeError: Neither or both lengths are missing, or the numbers of axes differ.
    """
    given = size if size is not None else scales
    if given is None or mode not in get_args(Mode) or coordinates not in get_args(Coordinates):
        raise ShapeError(
            f"resize expects size or scales, a mode of {get_args(Mode)} and coordinates of {get_args(Coordinates)}, "
            f"got {size}, {scales}, {mode!r}, {coordinates!r}"
        )
    where_ = range(x.ndim - len(given), x.ndim) if axes is None else [normalize_axis(axis, x.ndim) for axis in axes]
    out = x if mode == "nearest" else as_floating(x)
    outside: Array = np.zeros((), np.bool_)
    for i, axis in enumerate(where_):
        length = x.shape[axis]
        scale = float(scales[i]) if scales is not None else given[i] / length
        new = int(size[i]) if size is not None else floor(length * scale)
        one = _Axis(length, new, scale, (0.0, 1.0) if parts is None else parts[i])
        positions = one.positions(coordinates)
        if coordinates == "tf_crop_and_resize":
            beyond = (positions < 0) | (positions > length - 1)
            outside = outside | beyond.reshape(-1, *(1,) * (x.ndim - 1 - axis))
        if (new == length and scale == 1.0 and coordinates != "tf_crop_and_resize") or not new:
            out = out[(*(slice(None),) * axis, slice(0, new))] if not new else out
        elif mode == "nearest":
            places = np.clip(_nearest(positions, rounding), 0, length - 1)
            out = getitem(out, (*(slice(None),) * axis, wrap(places)))
        else:
            out = _along(out, axis, _matrix(one, positions, mode, cubic_a, antialias, exclude_outside))
    return where(wrap(outside), extrapolation, out) if outside.any() else out


def interpolate(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """Return images `(n, channels, ...)` with other lengths behind the channels, as PyTorch and MindSpore name the
    ways.

    Args:
        size: New lengths, one for all axes or one each.
        scale_factor: How many times longer, where `size` is not given.
        mode: `nearest`, `nearest-exact`, `linear`, `bilinear`, `trilinear`, `bicubic`.
        align_corners: Whether corner elements stay where they are.
    """
    axes = x.ndim - 2
    sizes = (size,) * axes if isinstance(size, int) else size
    factors = (scale_factor,) * axes if isinstance(scale_factor, int | float) else scale_factor
    if mode in ("nearest", "nearest-exact"):
        exact = mode == "nearest-exact"
        return resize(
            x,
            sizes,
            scales=None if sizes is not None else factors,
            mode="nearest",
            coordinates="half_pixel" if exact else "asymmetric",
            rounding="round_prefer_ceil" if exact else "floor",
        )
    if mode not in ("linear", "bilinear", "trilinear", "bicubic"):
        raise ShapeError(
            f"interpolate expects a mode of nearest, nearest-exact, linear, bilinear, trilinear, bicubic, got {mode!r}"
        )
    kind: Mode = "cubic" if mode == "bicubic" else "linear"
    corners: Coordinates = "align_corners" if align_corners else "half_pixel"
    if align_corners and sizes is None and factors is not None:
        sizes, factors = [floor(n * f) for n, f in zip(x.shape[2:], factors, strict=True)], None
    return resize(x, sizes, scales=None if sizes is not None else factors, mode=kind, coordinates=corners)
