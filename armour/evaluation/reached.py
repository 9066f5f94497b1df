"""What is kept of an attack at one budget: enough to count with, to show, and to go on from after a kill."""

import base64
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import Json
from ..arrays import to_numpy
from ..contract.result import Attempt
from ..contract.samples import Samples
from ..distances import Norm
from ..metrics.attack_quality import examples_quality
from ..model import Model

_SHOWN: Final = 6  # examples an outcome: our choice, a row of the gallery
_ELEMENTS: Final = 49_152  # of all examples of an outcome together, about 130 kB of text: our choice


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """An attempt without its inputs.

    Args:
        success: `(n,)` bool.
        distances: `(n,)` float64.
        queries, gradient_calls: `(n,)` int64.
        shown: Fields that join the outcome's details.
    """

    success: NDArray[np.bool_]
    distances: NDArray[np.float64]
    queries: NDArray[np.int64]
    gradient_calls: NDArray[np.int64]
    shown: dict[str, Json] = field(default_factory=dict)


def reached(model: Model, samples: Samples, attempt: Attempt, norm: Norm) -> Reached:
    """What is kept of the attempt: its quality in the norm, and a few of its examples where inputs are images."""
    shown: dict[str, Json] = {}
    if attempt.success.any():
        x, found = to_numpy(samples.x), to_numpy(attempt.adversarials)
        quality = examples_quality(model, x, samples.labels, found, attempt.success, samples.solved)
        shown["metrics"] = dict(quality.abbreviated(norm))
        if gallery := _gallery(model, samples, attempt):
            shown["gallery"] = gallery
    return Reached(attempt.success, attempt.distances, attempt.queries, attempt.gradient_calls, shown)


def _gallery(model: Model, samples: Samples, attempt: Attempt) -> list[Json]:
    """The first successful examples: the input in 8 bits, the change in 8 bits of its own scale, and both classes."""
    shape = tuple(samples.x.shape[1:])
    if len(shape) < 2:
        return []
    rows = np.flatnonzero(attempt.success)[: min(_SHOWN, _ELEMENTS // int(np.prod(shape)))]
    if not len(rows):
        return []
    x, found = samples.x[rows], attempt.adversarials[rows]
    before, after = (_probabilities(to_numpy(model.logits(images))) for images in (x, found))
    low, high = model.bounds
    clean = np.asarray(to_numpy(x), np.float64)
    change = np.asarray(to_numpy(found), np.float64) - clean
    entries: list[Json] = []
    for at, row in enumerate(rows):
        scale = float(np.abs(change[at]).max())
        entries.append(
            {
                "sample": int(row),
                "label": int(samples.labels[row]),
                "clean_class": int(before[at].argmax()),
                "adversarial_class": int(after[at].argmax()),
                "clean_confidence": float(before[at].max()),
                "adversarial_confidence": float(after[at].max()),
                "distance": float(attempt.distances[row]),
                "shape": list(shape),
                "clean": _text(np.round((clean[at] - low) / (high - low) * 255).astype(np.uint8)),
                "change": _text(np.round(change[at] / (scale or 1.0) * 127).astype(np.int8)),
                "scale": scale,
            }
        )
    return entries


def _probabilities(logits: NDArray[np.generic]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    odds = np.exp(shifted)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), np.float64)


def _text(values: NDArray[np.generic]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
