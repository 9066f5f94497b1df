"""Boxes: non-maximum suppression and regions."""

from typing import Any

import numpy as np

from ... import ops
from ...tensor import Array, Tensor, wrap
from ..call import Call, array_of
from ..registry import operator


def _corners(boxes: Array, centred: bool) -> Array:
    """Top, left, bottom, right of boxes given by opposite corners, or by centre, width and height."""
    if centred:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], 1)


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of one box with each of the others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0.0), 1)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], 1)
    union = area + areas - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1.0), 0.0)


def _kept(boxes: Array, scores: Array, most: int, limit: float, least: float | None) -> list[int]:
    """The boxes that stay, best first, each overlapping none of the better ones by more than the limit."""
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
    call: Call, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None
) -> Tensor:
    """Which boxes stay: rows of image, class, box."""
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
def roi_align(call: Call, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    """Regions of images brought to one size."""
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
def max_roi_pool(call: Call, x: Tensor, rois: Any) -> Tensor:
    """The largest elements of sections of regions (image, left, top, right, bottom), rounded to pixels."""
    height, width = call.get("pooled_shape")
    scale = call.get("spatial_scale", 1.0)
    results = []
    for row in array_of(rois):
        left, top, right, bottom = (int(np.floor(v * scale + 0.5)) for v in row[1:])
        part = x[int(row[0]) : int(row[0]) + 1, :, top : max(bottom, top) + 1, left : max(right, left) + 1]
        results.append(ops.adaptive_max_pool2d(part, (height, width)))
    return ops.concat(results)
