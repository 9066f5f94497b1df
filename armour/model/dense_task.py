"""A class for each place of an output, as tasks: pixels of an image, tokens of a text."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Floats, is_class, namespace
from ..errors import InvalidInput
from .task import Task, check_shape


class DenseTask(Task):
    """A class for each place: an input is broken when less than a share of its places is right.

    Attributes:
        kept: That share.
        ignore: Class of places that do not count.

    Reference:
        Arnab et al. 2018, arXiv:1711.09856: the share of places that an attack turns wrong.
    """

    kept: float
    ignore: int

    def __post_init__(self) -> None:
        if not 0 < self.kept <= 1:
            raise InvalidInput(f"{type(self).__name__} expects kept above 0 and up to 1, got {self.kept}")

    @abstractmethod
    def logits(self, outputs: Array) -> Array:
        """Return the logits of the outputs, `(n, places, classes)`."""

    @abstractmethod
    def as_outputs(self, logits: Array, shape: tuple[int, ...]) -> Array:
        """Return `(n, places, classes)` numbers as outputs of this shape have them; 0 where these have no place."""

    def margins(self, outputs: Array, y: Array) -> Array:
        """Return by how much the best other class leads the true one at each place."""
        xp = namespace(outputs)
        logits, own, best = self._parts(outputs, y)
        lead = xp.sum(xp.where(best, logits, 0.0), axis=1) - xp.sum(xp.where(own, logits, 0.0), axis=1)
        return xp.where(y == self.ignore, -xp.inf, lead.reshape(y.shape))

    def pull(self, outputs: Array, y: Array, weights: Array) -> Array:
        """Return the weights at the best other class, and less them at the true one."""
        xp = namespace(outputs)
        _, own, best = self._parts(outputs, y)
        sign = xp.astype(best, outputs.dtype) - xp.astype(own, outputs.dtype)
        rows = (sign * weights.reshape((-1, 1))).reshape((*y.shape, int(sign.shape[1])))
        return self.as_outputs(rows, tuple(outputs.shape))

    def needed(self, counting: Floats) -> NDArray[np.int64]:
        """Return the smallest number of places that leaves too few."""
        most = np.floor(counting * (1.0 - self.kept)) + 1
        return np.asarray(np.clip(most, 1, np.maximum(counting, 1)), np.int64)

    def _check_classes(self, y: NDArray[np.generic], counting: NDArray[np.generic], classes: int) -> None:
        """Check that the counting classes of `y` are those that the outputs have.

        Raises:
            InvalidInput: They are not.
        """
        of_places = counting[counting != self.ignore]
        if y.dtype.kind not in "iu" or not of_places.size or of_places.min() < 0 or of_places.max() >= classes:
            raise InvalidInput(f"y expects integer classes 0 to {classes - 1}, or {self.ignore} where none counts")

    def _parts(self, outputs: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return logits, and masks of the true and of the best other class, `(n * places, classes)`."""
        xp = namespace(outputs)
        logits = self.logits(outputs)
        logits = logits.reshape((-1, int(logits.shape[2])))
        own = is_class(logits, y.reshape(-1))
        best = is_class(logits, xp.argmax(xp.where(own, -xp.inf, logits), axis=1))
        return logits, own, best


@dataclass(frozen=True, slots=True)
class Segmentation(DenseTask):
    """A class for each pixel: outputs `(n, classes, height, width)` are logits, `y` is `(n, height, width)` classes.

    Args:
        kept: An image is broken when less than this share of its pixels is right.
        ignore: Class of pixels that do not count.
    """

    kept: float = 0.5
    ignore: int = 255

    def check(self, outputs: Array, y: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the classes of the pixels, one row an image."""
        check_shape("logits (n, classes, height, width)", outputs, 4, y.shape, tuple(outputs.shape[2:]))
        self._check_classes(y, y, int(outputs.shape[1]))
        return y.reshape(len(y), -1).astype(np.int64)

    def logits(self, outputs: Array) -> Array:
        """Return them with the classes last."""
        rows = outputs.reshape((len(outputs), int(outputs.shape[1]), -1))
        return namespace(outputs).permute_dims(rows, (0, 2, 1))

    def as_outputs(self, logits: Array, shape: tuple[int, ...]) -> Array:
        """Return them with the classes first, as images."""
        return namespace(logits).permute_dims(logits, (0, 2, 1)).reshape(shape)

    def scores(self, outputs: NDArray[np.floating], y: NDArray[np.generic]) -> dict[str, float]:
        """Return the share of right pixels, and the mean over classes of intersection over union, of all images."""
        counting = y != self.ignore
        found = outputs.argmax(axis=1).reshape(y.shape)[counting]
        true, overlaps = y[counting], list[float]()
        for number in range(outputs.shape[1]):
            union = ((found == number) | (true == number)).sum()
            if union:
                overlaps.append(float(((found == number) & (true == number)).sum() / union))
        return Task.scores(self, outputs, y) | {"mean_iou": float(np.mean(overlaps))}


@dataclass(frozen=True, slots=True)
class Tokens(DenseTask):
    """A class for each token: outputs `(n, tokens, classes)` are logits, `y` is `(n, tokens)` classes.

    Args:
        kept: A text is broken when less than this share of its tokens is right.
        ignore: Class of tokens that do not count, as padding; -100 is that of transformers.
        following: The logits at a token are about the next one, as those of a language model; `y` is then the ids of
            the text itself.
    """

    kept: float = 0.5
    ignore: int = -100
    following: bool = False

    def check(self, outputs: Array, y: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the classes that each position should have, `(n, tokens)`, one less where they follow."""
        check_shape("logits (n, tokens, classes)", outputs, 3, y.shape, tuple(outputs.shape[1:2]))
        wanted = y[:, 1:] if self.following else y
        self._check_classes(y, wanted, int(outputs.shape[2]))
        return wanted.astype(np.int64)

    def logits(self, outputs: Array) -> Array:
        """Return those that have a class: the last ones have none where classes follow."""
        return outputs[:, :-1] if self.following else outputs

    def as_outputs(self, logits: Array, shape: tuple[int, ...]) -> Array:
        """Return them with zeros at the last tokens where classes follow."""
        xp = namespace(logits)
        return xp.concat([logits, xp.zeros_like(logits[:, :1])], axis=1) if self.following else logits

    def scores(self, outputs: NDArray[np.floating], y: NDArray[np.generic]) -> dict[str, float]:
        """Return the share of right tokens, and the perplexity: the exponential of their mean cross-entropy."""
        logits = np.asarray(self.logits(outputs), np.float64)
        counting = y != self.ignore
        peak = logits.max(axis=2, keepdims=True)
        total = np.log(np.exp(logits - peak).sum(axis=2)) + peak[..., 0]
        own = np.take_along_axis(logits, np.where(counting, y, 0)[..., None].astype(np.int64), axis=2)[..., 0]
        loss = float((total - own)[counting].mean())
        return Task.scores(self, outputs, y) | {"perplexity": float(np.exp(min(loss, 700.0)))}
