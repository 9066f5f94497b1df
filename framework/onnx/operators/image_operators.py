"""Images: resizing, sampling, decoding, boxes and regions."""

from importlib.util import find_spec
from io import BytesIO
from math import floor

import numpy as np

from ... import ops
from ...tensor import Array, Tensor, wrap
from ..operator_call import Elements, OperatorCall, array_of, operator, whole_numbers


def _axes_of(call: OperatorCall, x: Tensor) -> tuple[int, ...]:
    return tuple(axis % x.ndim for axis in call.get("axes", range(x.ndim)))


def _fitted(
    call: OperatorCall, x: Tensor, axes: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[tuple[int, ...], list[float]]:
    """Return sizes and scales; where the aspect is to be kept, one scale for all axes."""
    policy = call.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    factors = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    scale = min(factors) if policy == "not_larger" else max(factors)
    return tuple(floor(x.shape[axis] * scale + 0.5) for axis in axes), [scale] * len(axes)


@operator("Resize", since=11)
def resize(
    call: OperatorCall,
    x: Tensor,
    roi: Elements | None = None,
    scales: Elements | None = None,
    sizes: Elements | None = None,
) -> Tensor:
    """Return the tensor with axes of other lengths."""
    axes = _axes_of(call, x)
    factors = [float(f) for f in array_of(scales).reshape(-1)] if scales is not None else []
    wanted: tuple[int, ...] | None = None
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
def upsample(call: OperatorCall, x: Tensor, scales: Elements | None = None) -> Tensor:
    """Return the tensor with axes `scales` times as long."""
    factors = call.get("scales") if scales is None else tuple(float(f) for f in array_of(scales).reshape(-1))
    mode = {"bilinear": "linear"}.get(call.get("mode", "nearest"), call.get("mode", "nearest"))
    return ops.resize(x, scales=factors, mode=mode, coordinates="asymmetric", rounding="floor")


@operator("GridSample")
def grid_sample(call: OperatorCall, x: Tensor, grid: Tensor) -> Tensor:
    """Return the values of images at the places of a grid."""
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
def affine_grid(call: OperatorCall, theta: Tensor, size: Elements) -> Tensor:
    """Return the grid that an affine map makes of the regular one."""
    return ops.affine_grid(theta, whole_numbers(size), bool(call.get("align_corners", 0)))


@operator("ImageDecoder")
def decode_image(call: OperatorCall, encoded: Elements) -> Tensor:
    """Return the pixels of an encoded picture, uint8 `(h, w, channels)`."""
    if find_spec("PIL") is None:
        raise call.refuse("a picture to be decoded without the package 'pillow' being installed")
    from PIL import Image  # noqa: PLC0415  (an optional package of an optional package)

    form = call.get("pixel_format", "RGB")
    picture = Image.open(BytesIO(array_of(encoded).tobytes()))
    if form == "Grayscale":
        return wrap(np.asarray(picture.convert("L"))[:, :, None])
    pixels = np.asarray(picture.convert("RGB"))
    return wrap(np.ascontiguousarray(pixels[:, :, ::-1] if form == "BGR" else pixels))


def _corners(boxes: Array, centred: bool) -> Array:
    """Return top, left, bottom, right of boxes given by opposite corners, or by centre, width and height."""
    if centred:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], 1)


def _overlap(box: Array, others: Array) -> Array:
    """Return intersection over union of one box with each of the others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0.0), 1)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], 1)
    union = area + areas - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1.0), 0.0)


def _kept(boxes: Array, scores: Array, most: int, limit: float, least: float | None) -> list[int]:
    """Return the boxes that stay, best first, each overlapping none of the better ones by more than the limit."""
    order = [int(i) for i in np.argsort(-scores, kind="stable") if least is None or scores[i] > least]
    kept: list[int] = []
    for candidate in order:
        if len(kept) >= most:
            break
        if not kept or bool((_overlap(boxes[candidate], boxes[kept]) <= limit).all()):
            kept.append(candidate)
    return kept


@operator("NonMaxSuppression")
def non_max_suppression(
    call: OperatorCall,
    boxes: Elements,
    scores: Elements,
    most: Elements | None = None,
    overlap: Elements | None = None,
    least: Elements | None = None,
) -> Tensor:
    """Return which boxes stay: rows of image, class, box."""
    count = 0 if most is None else int(array_of(most).reshape(-1)[0])
    limit = 0.0 if overlap is None else float(array_of(overlap).reshape(-1)[0])
    floor = None if least is None else float(array_of(least).reshape(-1)[0])
    all_boxes, all_scores = array_of(boxes), array_of(scores)
    rows = []
    for image, classes in enumerate(all_scores):
        corners = _corners(all_boxes[image], bool(call.get("center_point_box", 0)))
        for label, values in enumerate(classes):
            rows += [(image, label, box) for box in _kept(corners, values, count, limit, floor)]
    return wrap(np.asarray(rows, np.int64).reshape(-1, 3))


@operator("RoiAlign")
def roi_align(call: OperatorCall, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    """Return regions of images brought to one size."""
    size = (call.get("output_height", 1), call.get("output_width", 1))
    shifted = call.get("coordinate_transformation_mode", "half_pixel" if call.version >= 16 else "output_half_pixel")
    return ops.roi_align(
        x,
        rois,
        batch,
        size,
        scale=call.get("spatial_scale", 1.0),
        sampling_ratio=call.get("sampling_ratio", 0),
        mode=call.get("mode", "avg"),
        half_pixel=shifted == "half_pixel",
    )


@operator("MaxRoiPool")
def max_roi_pool(call: OperatorCall, x: Tensor, rois: Elements) -> Tensor:
    """Return the largest elements of sections of regions (image, left, top, right, bottom), rounded to pixels."""
    height, width = call.get("pooled_shape")
    scale = call.get("spatial_scale", 1.0)
    results = []
    for row in array_of(rois):
        left, top, right, bottom = (int(np.floor(v * scale + 0.5)) for v in row[1:])
        part = x[int(row[0]) : int(row[0]) + 1, :, top : max(bottom, top) + 1, left : max(right, left) + 1]
        results.append(ops.adaptive_max_pool2d(part, (height, width)))
    return ops.concat(results)
