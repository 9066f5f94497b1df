"""Transforms of the input before the model sees it, as part of a model that can still be attacked honestly."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Images, to_numpy
from ..errors import InvalidInput
from ..model import WrappedModel

#: Takes NumPy inputs within the model's bounds, `(n, ...)`, and returns inputs of the same shape and dtype.
Transform = Callable[[Images], Images]


@dataclass(frozen=True, slots=True)
class Jpeg:
    """Images of the unit box, written as JPEG of that quality and read again.

    Args:
        quality: 1 to 95.

    Shape:
        `(n, channels, height, width)` with 1 or 3 channels, `(n, height, width)`.

    Reference:
        Dziugaite, Ghahramani and Roy 2016, arXiv:1608.00853; Pillow does the coding.
    """

    quality: int = 75

    def __post_init__(self) -> None:
        if not 1 <= self.quality <= 95:
            raise InvalidInput(f"quality expects 1 to 95, got {self.quality}")

    def __call__(self, x: Images) -> Images:
        """Return the images after the round trip; the dtype stays."""
        if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[1] not in (1, 3)):
            raise InvalidInput(f"JPEG expects images (n, 1 or 3, height, width) or (n, height, width), got {x.shape}")
        pixels = np.round(np.clip(x, 0, 1) * 255).astype(np.uint8)
        return np.asarray(np.stack([self._round_trip(image) for image in pixels]) / 255, x.dtype)

    def _round_trip(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        pillow = _pillow()
        flat = image.reshape(image.shape[-2:]) if image.size == image.shape[-1] * image.shape[-2] else image
        stream = BytesIO()
        pillow.fromarray(flat if flat.ndim == 2 else flat.transpose(1, 2, 0)).save(stream, "jpeg", quality=self.quality)
        read = np.asarray(pillow.open(stream))
        return read.reshape(image.shape) if read.ndim == 2 else read.transpose(2, 0, 1)


def _pillow() -> ModuleType:
    try:
        return import_module("PIL.Image")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("JPEG expects Pillow, which is not installed; pip install pillow") from error


def transformed(model: WrappedModel, *transforms: Transform) -> WrappedModel:
    """Return the model with transforms of its input in front, one after the other.

    Gradients are taken at the transformed input and passed back as if the transforms changed nothing, so that attacks
    are not misled by a rounding whose derivative is zero.

    Args:
        model: Made by `wrap`, of either framework.
        transforms: `BitDepth`, `MedianSmoothing`, `Jpeg`, or any function of NumPy inputs.

    Reference:
        Athalye, Carlini and Wagner 2018, arXiv:1802.00420, section 4.1 (the straight-through gradient).
    """
    return WrappedModel(_Transformed(model, transforms), model.bounds, name=model.name)


class _Transformed:
    """A network whose inputs pass through the transforms first."""

    def __init__(self, model: WrappedModel, transforms: Sequence[Transform]) -> None:
        self.framework = model.framework
        self.has_gradients = model.answers == "gradients"
        self.dtype = model.dtype
        self._model, self._transforms = model, transforms

    def native(self, x: Array) -> Array:
        return self._model.native(x)

    def logits(self, x: Array) -> Array:
        return self._model.logits(self._transform(x))

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        return self._model.pullback(self._transform(x), cotangent)

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        return self._model.pullbacks(self._transform(x), cotangents)

    def training_modules(self) -> int:
        return self._model.training_modules()

    def evaluating(self) -> AbstractContextManager[None]:
        return self._model.evaluating()

    def _transform(self, x: Array) -> Array:
        values = to_numpy(x)
        for transform in self._transforms:
            values = transform(values)
        return self._model.native(np.asarray(values))
