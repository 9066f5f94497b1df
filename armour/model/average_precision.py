"""Which detections find which objects, and the average precision that follows: COCO's, in NumPy.

Written here because pycocotools, which it equals in a test, takes files in its own format and is compiled.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..array_api import Floats, Rows

_RECALLS = np.linspace(0.0, 1.0, 101)


def overlaps(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return `(..., a, b)` intersections over unions of boxes `(..., a, 4)` and `(..., b, 4)`: x1, y1, x2, y2."""
    one, other = first[..., :, None, :], second[..., None, :, :]
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    shared = np.prod(np.maximum(sides, 0.0), axis=-1)
    areas = [np.prod(np.maximum(box[..., 2:] - box[..., :2], 0.0), axis=-1) for box in (one, other)]
    union = areas[0] + areas[1] - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1.0), 0.0)


def matched_objects(detections: NDArray[np.floating], objects: NDArray[np.floating], overlap: float) -> Rows:
    """Return `(n, objects)` positions of the detections that find the objects, -1 where none does.

    Detections choose one after the other, by falling score, the object of their class that they overlap most, of those
    that are left.

    Args:
        detections: `(n, k, 6)` boxes, scores and classes; the class -1 is padding.
        objects: `(n, objects, 5)` boxes and classes, as above.
        overlap: Least intersection over union.
    """
    fits = _fitting(detections, objects, overlap)
    found = np.full(objects.shape[:2], -1, np.int64)
    order = np.argsort(-detections[..., 4], axis=1, kind="stable")
    rows = np.arange(len(detections))
    for position in order.T[: _last_rank(fits, order)]:  # one detection of every image at a time
        choice = np.where(found < 0, fits[rows, position], -1.0)
        best = choice.argmax(axis=1)
        takes = choice[rows, best] >= 0
        found[rows[takes], best[takes]] = position[takes]
    return found


def average_precision(detections: NDArray[np.float64], objects: NDArray[np.float64], levels: Sequence[float]) -> Floats:
    """Return, for each level of overlap, the mean over classes of the area under the curve of precision by recall.

    Args:
        detections, objects: As of `matched_objects`.
        levels: Least intersections over unions, as 0.5.

    Reference:
        Lin et al. 2014, arXiv:1405.0312; the precision at 101 recalls, as pycocotools reads it off.
    """
    classes = np.unique(objects[..., 4])
    scores, kinds = detections[..., 4].reshape(-1), detections[..., 5].reshape(-1)
    found = []
    for level in levels:
        at = matched_objects(detections, objects, min(level, 1 - 1e-10))
        is_hit = np.zeros(detections.shape[:2], np.bool_)
        image, position = np.nonzero(at >= 0)
        is_hit[image, at[image, position]] = True
        found.append(
            np.mean([
                _area(scores[kinds == kind], is_hit.reshape(-1)[kinds == kind], int((objects[..., 4] == kind).sum()))
                for kind in classes[classes >= 0]
            ])
        )  # fmt: skip
    return np.asarray(found, np.float64)


def _fitting(detections: NDArray[np.floating], objects: NDArray[np.floating], overlap: float) -> NDArray[np.floating]:
    """Return `(n, k, objects)` overlaps of pairs of one class that reach the least one, -1 for all others."""
    alike = (detections[..., :, None, 5] == objects[..., None, :, 4]) & (objects[..., None, :, 4] >= 0)
    shares = overlaps(detections[..., :4], objects[..., :4])
    return np.where(alike & (shares >= overlap), shares, -1.0)


def _last_rank(fits: NDArray[np.floating], order: Rows) -> int:
    """Return how many detections, by falling score, have to choose until the rest fits nothing."""
    fit_any = np.take_along_axis((fits >= 0).any(axis=2), order, axis=1).any(axis=0)
    return int(np.flatnonzero(fit_any)[-1]) + 1 if fit_any.any() else 0


def _area(scores: NDArray[np.floating], is_hit: NDArray[np.bool_], objects: int) -> float:
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(is_hit[order])
    if not len(hits):
        return 0.0
    recall, precision = hits / objects, hits / np.arange(1, len(hits) + 1)
    highest = np.maximum.accumulate(precision[::-1])[::-1]  # at this recall or a larger one
    at = np.searchsorted(recall, _RECALLS, side="left")
    return float(np.where(at < len(hits), highest[np.minimum(at, len(hits) - 1)], 0.0).mean())
