"""Images: other sizes, other places, and pictures decoded."""

from importlib.util import find_spec
from io import BytesIO
from math import floor
from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor, wrap
from ..call import Call, array_of, whole_numbers
from ..registry import operator


def _axes_of(call: Call, x: Tensor) -> tuple[int, ...]:
    return tuple(axis % x.ndim for axis in call.get("axes", range(x.ndim)))


def _fitted(call: Call, x: Tensor, axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """Sizes and scales; where the aspect is to be kept, one scale for all axes."""
    policy = call.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    factors = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    scale = min(factors) if policy == "not_larger" else max(factors)
    return tuple(floor(x.shape[axis] * scale + 0.5) for axis in axes), [scale] * len(axes)


@operator("Resize", since=11)
def resize(call: Call, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None) -> Tensor:
    """The tensor with axes of other lengths."""
    axes = _axes_of(call, x)
    factors = [float(f) for f in array_of(scales).reshape(-1)] if scales is not None else []
    wanted: Any = None
    if sizes is not None and len(array_of(sizes)):
        wanted, factors = _fitted(call, x, axes, whole_numbers(sizes))
    coordinates = call.get("coordinate_transformation_mode", "half_pixel")
    parts = None
    if coordinates == "tf_crop_and_resize":
        edges = [float(edge) for edge in array_of(roi).reshape(-1)]
        parts = list(zip(edges[: len(axes)], edges[len(axes) :], strict=True))
    elif coordinates == "tf_half_pixel_for_nn":
        coordinates, factors = "asymmetric", factors
    out = ops.resize(
        x,
        wanted,
        scales=factors,
        axes=axes,
        mode=call.get("mode", "nearest"),
        coordinates=coordinates,
        rounding=call.get("nearest_mode", "round_prefer_floor"),
        cubic_a=call.get("cubic_coeff_a", -0.75),
        antialias=bool(call.get("antialias", 0)),
        exclude_outside=bool(call.get("exclude_outside", 0)),
        parts=parts,
        extrapolation=call.get("extrapolation_value", 0.0),
    )
    return ops.cast(out, x.dtype)


@operator("Resize", since=10)
@operator("Upsample")
def upsample(call: Call, x: Tensor, scales: Any = None) -> Tensor:
    """The tensor with axes `scales` times as long."""
    factors = call.get("scales") if scales is None else tuple(float(f) for f in array_of(scales).reshape(-1))
    mode = {"bilinear": "linear"}.get(call.get("mode", "nearest"), call.get("mode", "nearest"))
    return ops.resize(x, scales=factors, mode=mode, coordinates="asymmetric", rounding="floor")


@operator("GridSample")
def grid_sample(call: Call, x: Tensor, grid: Tensor) -> Tensor:
    """The values of images at the places of a grid."""
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = call.get("mode", "linear")
    return ops.grid_sample(
        x,
        grid,
        names.get(mode, mode),
        call.get("padding_mode", "zeros"),
        bool(call.get("align_corners", 0)),
    )


@operator("AffineGrid")
def affine_grid(call: Call, theta: Tensor, size: Any) -> Tensor:
    """The grid that an affine map makes of the regular one."""
    return ops.affine_grid(theta, whole_numbers(size), bool(call.get("align_corners", 0)))


@operator("ImageDecoder")
def decode_image(call: Call, encoded: Any) -> Tensor:
    """The pixels of an encoded picture, uint8 `(h, w, channels)`."""
    if find_spec("PIL") is None:
        raise call.refuse("a picture to be decoded without the package 'pillow' being installed")
    from PIL import Image  # noqa: PLC0415  (an optional package of an optional package)

    form = call.get("pixel_format", "RGB")
    picture = Image.open(BytesIO(array_of(encoded).tobytes()))
    if form == "Grayscale":
        return wrap(np.asarray(picture.convert("L"))[:, :, None])
    pixels = np.asarray(picture.convert("RGB"))
    return wrap(np.ascontiguousarray(pixels[:, :, ::-1] if form == "BGR" else pixels))
