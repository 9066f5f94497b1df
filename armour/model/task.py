"""Tasks other than one class for each input: parts of an output that are right or wrong, and how many make it wrong.

A task turns outputs into margins, one for each part: a label of several, a pixel, a predicted number. A margin is above
0 where the part is wrong. A search then sees two classes, kept and broken, whose logits are 0 and the margin of that
part which breaks the sample.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Floats, namespace, to_numpy
from ..errors import InvalidInput, InvalidModel
from .output_field import OutputField


class Task(ABC):
    """What the outputs of a model mean, and when an input counts as adversarial."""

    def field(self, output: str | int | None) -> OutputField:
        """Return what finds the array that the task reads in the output of a model.

        Args:
            output: The name that the user gives it.
        """
        return OutputField(output)

    @abstractmethod
    def check(self, outputs: Array, y: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return what the first outputs should have been, `(n, ...)`, in the form that `margins` takes.

        Args:
            outputs: Of the first inputs.
            y: For all inputs, as the user gives it.

        Raises:
            InvalidInput, InvalidModel: They do not fit each other or the task.
        """

    @abstractmethod
    def margins(self, outputs: Array, y: Array) -> Array:
        """Return `(n, parts)` margins, above 0 where a part is wrong and minus infinity where it does not count."""

    @abstractmethod
    def pull(self, outputs: Array, y: Array, weights: Array) -> Array:
        """Return the gradient to the outputs of the margins times `(n, parts)` weights."""

    @abstractmethod
    def needed(self, counting: Floats) -> NDArray[np.int64]:
        """Return `(n,)` how many wrong parts, of `(n,)` that count, make a sample wrong; 1 or more."""

    def excess(self, outputs: Array, y: Array) -> Array:
        """Return `(n,)` margins that decide: above 0 where the sample is wrong."""
        margins = self.margins(outputs, y)
        xp = namespace(margins)
        order = xp.argsort(margins, axis=1, descending=True)
        return xp.take_along_axis(xp.take_along_axis(margins, order, axis=1), self._last(margins), axis=1)[:, 0]

    def slope(self, outputs: Array, y: Array) -> Array:
        """Return the direction in outputs in which the excess rises.

        With one part needed it is the gradient. Else all parts up to the deciding one share it, since the gradient of
        that one alone would let a search turn pixels wrong one after the other.
        """
        margins = self.margins(outputs, y)
        xp = namespace(margins)
        rank = xp.argsort(xp.argsort(margins, axis=1, descending=True), axis=1)
        last = self._last(margins)
        weights = xp.astype((rank <= last) & ((margins <= 0) | (rank == last)), margins.dtype)
        return self.pull(outputs, y, weights / xp.sum(weights, axis=1, keepdims=True))

    def scores(self, outputs: NDArray[np.floating], y: NDArray[np.generic]) -> dict[str, float]:
        """Return what is reported of these outputs: the share of right parts, and what else the field names."""
        margins = np.asarray(self.margins(outputs, y), np.float64)
        return {"right": float(1.0 - (margins > 0).sum() / max(int(np.isfinite(margins).sum()), 1))}

    def _last(self, margins: Array) -> Array:
        """Return `(n, 1)` positions of the deciding part among the sorted ones."""
        counting = np.asarray(np.isfinite(to_numpy(margins)).sum(axis=1), np.float64)
        return namespace(margins).asarray(self.needed(counting)[:, None] - 1, device=_device(margins))


def _device(x: Array) -> object:
    return "cpu" if isinstance(x, np.ndarray) else x.device


@dataclass(frozen=True, slots=True)
class MultiLabel(Task):
    """Several labels at once: outputs `(n, labels)` are logits, `y` of the same shape has 1 for each label that holds.

    Args:
        wrong: How many labels must be wrong; 1 is the field's subset accuracy.

    Reference:
        Song et al. 2018, "Multi-label adversarial perturbations", arXiv:1901.00546.
    """

    wrong: int = 1

    def __post_init__(self) -> None:
        if self.wrong < 1:
            raise InvalidInput(f"MultiLabel expects wrong of 1 or more, got {self.wrong}")

    def check(self, outputs: Array, y: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return 0 and 1 for every label."""
        check_shape("logits (n, labels)", outputs, 2, y.shape, tuple(outputs.shape[1:]))
        if not np.isin(y, (0, 1)).all():
            raise InvalidInput(f"y expects 0 or 1 for every label, got {np.unique(y)[:5].tolist()}")
        if self.wrong > y.shape[1]:
            raise InvalidInput(f"MultiLabel expects wrong of 1 to {y.shape[1]}, the labels, got {self.wrong}")
        return y.astype(np.float32)

    def margins(self, outputs: Array, y: Array) -> Array:
        """Return the logits, with the other sign where the label holds."""
        return outputs * self._signs(outputs, y)

    def pull(self, outputs: Array, y: Array, weights: Array) -> Array:
        """Return the weights with those signs."""
        return weights * self._signs(outputs, y)

    def needed(self, counting: Floats) -> NDArray[np.int64]:
        """Return the number of wrong labels."""
        return np.full(len(counting), self.wrong)

    @staticmethod
    def _signs(outputs: Array, y: Array) -> Array:
        return 1.0 - 2.0 * namespace(outputs).astype(y, outputs.dtype)


@dataclass(frozen=True, slots=True)
class Regression(Task):
    """Numbers: outputs `(n,)` or `(n, numbers)`, `y` of the same shape; wrong where an error exceeds the tolerance.

    Args:
        tolerance: Largest error that is no harm, in the unit of `y`.
    """

    tolerance: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance) and self.tolerance > 0):
            raise InvalidInput(f"Regression expects a tolerance above 0, got {self.tolerance}")

    def check(self, outputs: Array, y: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the numbers, one row a sample."""
        columns = 1 if len(outputs.shape) == 1 else int(outputs.shape[1])
        rows = y.reshape((len(y), -1)) if y.ndim in (1, 2) else y
        check_shape("numbers (n,) or (n, numbers)", outputs.reshape((len(outputs), -1)), 2, rows.shape, (columns,))
        if rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
            raise InvalidInput(f"y expects finite numbers, got {rows.dtype}")
        return rows.astype(np.float64)

    def margins(self, outputs: Array, y: Array) -> Array:
        """Return absolute errors less the tolerance."""
        return namespace(outputs).abs(self._errors(outputs, y)) - self.tolerance

    def pull(self, outputs: Array, y: Array, weights: Array) -> Array:
        """Return the weights with the signs of the errors; upward where there is none, so that a search gets away."""
        errors = self._errors(outputs, y)
        return namespace(errors).where(errors >= 0, weights, -weights).reshape(outputs.shape)

    def needed(self, counting: Floats) -> NDArray[np.int64]:
        """Return 1: a single number decides."""
        return np.ones(len(counting), np.int64)

    def scores(self, outputs: NDArray[np.floating], y: NDArray[np.generic]) -> dict[str, float]:
        """Return the share of right numbers, and the mean absolute error."""
        return Task.scores(self, outputs, y) | {"mean_absolute_error": float(np.abs(self._errors(outputs, y)).mean())}

    @staticmethod
    def _errors(outputs: Array, y: Array) -> Array:
        return outputs.reshape((len(outputs), -1)) - namespace(outputs).astype(y, outputs.dtype)


def check_shape(expected: str, outputs: Array, axes: int, y: tuple[int, ...], of_sample: tuple[int, ...]) -> None:
    """Check that the outputs have so many axes, and `y` one value for each of their places.

    Raises:
        InvalidInput, InvalidModel: They do not.
    """
    if len(outputs.shape) != axes:
        raise InvalidModel(f"the model must return {expected} for this task, got shape {tuple(outputs.shape)}")
    if y[1:] != of_sample:
        raise InvalidInput(f"y expects shape (n, {', '.join(map(str, of_sample))}), as the model returns, got {y}")
