"""Objects found in images: what a detector returns, when an image is lost, and the average precision that is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Floats, from_numpy, namespace, to_numpy
from ..errors import InvalidInput, InvalidModel
from .average_precision import average_precision, matched_objects
from .output_field import OutputField
from .task import Task

_SCORE, _LABEL, _WIDTH = 4, 5, 6  # columns of a detection, after the corners of its box
_NONE: Final = -1  # label of padding
_SMALLEST: Final = 1e-6  # score of what is not there: our choice, below what detectors report
_AP_OVERLAPS: Final = tuple(np.linspace(0.5, 0.95, 10).tolist())


class DetectionField(OutputField):
    """The detections among what a model returns, as one array `(n, most, 6)`: box, score and class.

    Args:
        most: Detections of an image that are kept, those of the highest scores.
    """

    def __init__(self, name: str | int | None, most: int) -> None:
        super().__init__(name)
        self._most = most

    def of(self, output: object, samples: int) -> Array:
        """Return the detections.

        Args:
            output: A mapping of `boxes (k, 4)`, `scores (k,)` and `labels (k,)` for each image, as torchvision's
                detectors return; one such mapping of batches, `(n, k, 4)` and `(n, k)`; `pred_boxes (n, k, 4)`,
                centre and size, with `logits (n, k, classes + 1)`, as those of DETR; or `(n, k, 6)` itself.

        Raises:
            InvalidModel: It is none of these.
        """
        if self._name is not None and not hasattr(output, "shape"):
            output = super().of(output, samples)
        if hasattr(output, "shape"):
            return self._checked(output)
        if isinstance(output, Mapping):
            parts = _of_queries(output) if "pred_boxes" in output else _named(output)
            images = list(zip(*parts, strict=True))
        elif (
            isinstance(output, Sequence) and len(output) == samples and all(isinstance(one, Mapping) for one in output)
        ):
            images = [_named(image) for image in output]
        else:
            raise InvalidModel(
                f"the model must return boxes, scores and labels of each of {samples} images for this task, got "
                f"{type(output).__name__}"
            )
        rows = [self._rows(*image) for image in images]
        return namespace(rows[0]).stack(rows)

    def is_empty(self, output: Array) -> bool:
        """Return whether nothing was found in any image: then nothing has a gradient."""
        return bool((to_numpy(output)[..., _LABEL] < 0).all())

    def _rows(self, boxes: Array, scores: Array, labels: Array) -> Array:
        """Return the `(most, 6)` detections of an image, by falling score, padded."""
        xp = namespace(scores)
        if tuple(boxes.shape) != (len(scores), 4) or len(labels) != len(scores):
            raise InvalidModel(
                f"an image must have boxes (k, 4), scores (k,) and labels (k,), got {tuple(boxes.shape)}, "
                f"{tuple(scores.shape)} and {tuple(labels.shape)}"
            )
        order = xp.argsort(scores, descending=True, stable=True)[: self._most]
        columns = [boxes, scores[:, None], xp.astype(labels, scores.dtype)[:, None]]
        found = xp.concat([xp.astype(column, scores.dtype) for column in columns], axis=1)[order]
        missing = np.zeros((self._most - int(found.shape[0]), _WIDTH), np.float32)
        missing[:, _LABEL] = _NONE
        return xp.concat([found, xp.astype(from_numpy(missing, scores), scores.dtype)], axis=0)

    @staticmethod
    def _checked(output: Any) -> Array:
        if len(output.shape) != 3 or int(output.shape[2]) != _WIDTH:
            raise InvalidModel(
                f"detections in one array must be (n, k, 6), corners of the box, score and class, got "
                f"{tuple(output.shape)}"
            )
        return output


@dataclass(frozen=True, slots=True)
class Detection(Task):
    """Objects in images: `y` has a mapping of `boxes (objects, 4)` and `labels (objects,)` for each image.

    In one array `y` is `(n, objects, 5)`, boxes and classes, padded with the class -1.

    An object is found when a detection of its class, whose score reaches the threshold, overlaps it; each detection
    finds one object. What a search raises is the log-odds by which the scores of those that find objects fall short.

    Args:
        kept: An image is broken when less than this share of its objects, the recall, is found.
        overlap: Intersection over union from which on a box counts.
        score: Threshold of scores, between 0 and 1; it has no part in the average precision.
        most: Detections of an image that count, those of the highest scores.

    Reference:
        Chow et al. 2020, arXiv:2004.04320: attacks that make objects vanish by lowering their scores; Lin et al. 2014,
        arXiv:1405.0312: average precision.
    """

    kept: float = 0.5
    overlap: float = 0.5
    score: float = 0.5
    most: int = 100

    def __post_init__(self) -> None:
        if not (0 < self.kept <= 1 and 0 < self.overlap <= 1 and 0 < self.score < 1 and self.most >= 1):
            raise InvalidInput(
                "Detection expects kept and overlap above 0 and up to 1, score between 0 and 1 and most of 1 or more, "
                f"got kept={self.kept}, overlap={self.overlap}, score={self.score}, most={self.most}"
            )

    def field(self, output: str | int | None) -> DetectionField:
        """Return what finds the detections in the output of a model."""
        return DetectionField(output, self.most)

    def check(self, outputs: Array, y: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the objects, `(n, objects, 5)` boxes and classes, padded with the class -1."""
        images = [_objects(image, number) for number, image in enumerate(_mappings(y) if y.ndim == 3 else y)]
        found = np.full((len(images), max(map(len, images)), 5), float(_NONE))
        for image, objects in zip(found, images, strict=True):
            image[: len(objects)] = objects
        return found

    def margins(self, outputs: Array, y: Array) -> Array:
        """Return by how much the log-odds of each object's detection fall short of the threshold's."""
        xp = namespace(outputs)
        scores, _, _ = self._scores(outputs, y)
        short = float(np.log(self.score / (1 - self.score))) - xp.log(scores / (1.0 - scores))
        return xp.where(y[..., 4] < 0, -xp.inf, short)

    def pull(self, outputs: Array, y: Array, weights: Array) -> Array:
        """Return the weights over the slope of the log-odds, at the scores of the detections that find the objects."""
        scores, at, is_found = self._scores(outputs, y)
        xp = namespace(outputs)
        slope = xp.where(is_found, -weights / (scores * (1.0 - scores)), xp.zeros_like(weights))
        places = at[..., None] == xp.arange(int(outputs.shape[1]), device=getattr(outputs, "device", "cpu"))
        pulled = xp.sum(xp.where(places, slope[..., None], xp.zeros_like(slope[..., None])), axis=1)
        column = from_numpy(np.arange(_WIDTH) == _SCORE, outputs)
        return xp.where(column, xp.astype(pulled, outputs.dtype)[..., None], xp.zeros_like(outputs))

    def needed(self, counting: Floats) -> NDArray[np.int64]:
        """Return the smallest number of lost objects that leaves too few."""
        most = np.floor(counting * (1.0 - self.kept)) + 1
        return np.asarray(np.clip(most, 1, np.maximum(counting, 1)), np.int64)

    def scores(self, outputs: NDArray[np.floating], y: NDArray[np.generic]) -> dict[str, float]:
        """Return the recall at the threshold as `right`, and the average precision at 0.5 and over COCO's overlaps."""
        by_overlap = average_precision(np.asarray(outputs, np.float64), np.asarray(y, np.float64), _AP_OVERLAPS)
        return Task.scores(self, outputs, y) | {
            "average_precision_50": float(by_overlap[0]),
            "average_precision": float(np.mean(by_overlap)),
        }

    def _scores(self, outputs: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return `(n, objects)`: the score that finds each object, its detection's position, and whether any does."""
        xp = namespace(outputs)
        at = matched_objects(to_numpy(outputs), to_numpy(y), self.overlap)
        positions, is_found = from_numpy(np.maximum(at, 0), outputs), from_numpy(at >= 0, outputs)
        scores = xp.take_along_axis(outputs[..., _SCORE], positions, axis=1)
        eps = float(xp.finfo(outputs.dtype).eps)
        scores = xp.clip(xp.where(is_found, scores, xp.zeros_like(scores)), _SMALLEST, 1.0 - eps)
        return scores, positions, is_found


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _named(parts: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    missing = [name for name in ("boxes", "scores", "labels") if name not in parts]
    if missing:
        raise InvalidModel(f"detections must have boxes, scores and labels, got {', '.join(map(str, parts))}")
    return parts["boxes"], parts["scores"], parts["labels"]


def _of_queries(output: Mapping[str, Any]) -> tuple[Array, Array, Array]:
    """Return boxes, scores and labels of what DETR and its like answer to each query; the last class is no object.

    Reference:
        Carion et al. 2020, arXiv:2005.12872.
    """
    logits, boxes = output["logits"], output["pred_boxes"]
    xp = namespace(logits)
    shares = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    shares = (shares / xp.sum(shares, axis=-1, keepdims=True))[..., :-1]
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return xp.concat([middle - half, middle + half], axis=-1), xp.max(shares, axis=-1), xp.argmax(shares, axis=-1)


def _mappings(y: NDArray[np.generic]) -> list[dict[str, NDArray[Any]]]:
    """Return boxes and labels of each image of one array, without padding."""
    if y.shape[2] != _WIDTH - 1 or y.dtype.kind not in "iuf":
        raise InvalidInput(f"y expects (n, objects, 5) boxes and classes, got {y.dtype} of shape {y.shape}")
    rows = [image[image[:, 4] >= 0] for image in y.astype(np.float64)]
    return [{"boxes": row[:, :4], "labels": row[:, 4].astype(np.int64)} for row in rows]


def _objects(image: Any, number: int) -> NDArray[np.float64]:
    """Return `(objects, 5)` boxes and classes of one image of `y`."""
    if not isinstance(image, Mapping) or not {"boxes", "labels"} <= set(image):
        raise InvalidInput(
            f"y expects a mapping of boxes (objects, 4) and labels (objects,) for each image, got "
            f"{type(image).__name__} for image {number}"
        )
    boxes, labels = (np.asarray(to_numpy(image[name]) if hasattr(image[name], "detach") else image[name]) for name in (
        "boxes", "labels",
    ))  # fmt: skip
    is_valid = boxes.ndim == 2 and boxes.shape[1:] == (4,) and labels.shape == boxes.shape[:1] and len(labels) > 0
    if not is_valid or labels.dtype.kind not in "iu" or labels.min() < 0 or not np.isfinite(boxes).all():
        raise InvalidInput(
            f"y expects one object or more in every image, boxes (objects, 4) and as many classes of 0 or more, got "
            f"{boxes.shape} and {labels.dtype}{labels.shape} for image {number}; leave out images without objects"
        )
    if (boxes[:, 2:] <= boxes[:, :2]).any():
        raise InvalidInput(f"y expects boxes x1, y1, x2, y2 with x1 < x2 and y1 < y2, got others for image {number}")
    return np.concatenate([boxes, labels[:, None]], axis=1).astype(np.float64)
