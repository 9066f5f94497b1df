"""Adversarial examples as an evaluation stores them: the input, what was changed, and what the model said of both."""

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...storage import Outcome
from .evaluations import number_in


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One input before and after.

    Args:
        clean: `(height, width, channels)` float64 within 0 and 1; one channel or three.
        change: The same shape, in the same unit.
    """

    sample: int
    label: int
    clean_class: int
    adversarial_class: int
    clean_confidence: float
    adversarial_confidence: float
    distance: float
    clean: NDArray[np.float64]
    change: NDArray[np.float64]

    @property
    def adversarial(self) -> NDArray[np.float64]:
        """What the model was shown."""
        return np.clip(self.clean + self.change, 0.0, 1.0)


def examples_of(outcome: Outcome) -> tuple[Example, ...]:
    """The examples of an outcome; those that cannot be read are left out."""
    listed = outcome.details.get("gallery")
    bounds = outcome.details.get("bounds")
    low, high = (0.0, 1.0)
    if isinstance(bounds, list | tuple) and len(bounds) == 2:
        low, high = (number_in({"": value}, "") for value in bounds)
    found = [_example(one, high - low) for one in (listed if isinstance(listed, list | tuple) else ())]
    return tuple(one for one in found if one is not None)


def _example(said: object, width: float) -> Example | None:
    """One example; None where a part of it is missing or does not fit its shape."""
    if not isinstance(said, Mapping) or not width > 0:
        return None
    try:
        shape = tuple(int(size) for size in said["shape"])
        clean = np.frombuffer(base64.b64decode(said["clean"]), np.uint8).reshape(shape) / 255
        change = np.frombuffer(base64.b64decode(said["change"]), np.int8).reshape(shape) / 127
        sample, label, before, after = (
            int(said[name]) for name in ("sample", "label", "clean_class", "adversarial_class")
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    sure, fooled, distance = (
        number_in(said, name) for name in ("clean_confidence", "adversarial_confidence", "distance")
    )
    scale = number_in(said, "scale") / width
    if len(shape) not in (2, 3) or not all(shape) or not math.isfinite(scale):
        return None
    pictures = _as_picture(clean), _as_picture(change * scale)
    return Example(sample, label, before, after, sure, fooled, distance, *pictures)


def _as_picture(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """`(height, width, channels)`: channels first or last are three or one; of any other number their mean."""
    if values.ndim == 2:
        return values[:, :, None]
    if values.shape[2] not in (1, 3):
        values = np.moveaxis(values, 0, 2)
    return values if values.shape[2] in (1, 3) else values.mean(axis=2, keepdims=True)
