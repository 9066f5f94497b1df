"""Preprocessing that belongs to a model: budgets are measured before it."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, cast, from_numpy
from ..errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Normalization:
    """Preprocessing `(x - mean) / std` that belongs to the model: budgets are measured before it.

    Args:
        mean: One number, or one a channel.
        std: As `mean`, greater than 0.
        axis: The channel axis, counted from the last.
    """

    mean: float | tuple[float, ...]
    std: float | tuple[float, ...]
    axis: int = -3

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.std, np.float64) > 0):
            raise InvalidInput(f"normalization expects every std > 0, got {self.std}")

    def statistics(self, x: Array) -> tuple[Array, Array]:
        """Mean and std in the dtype of `x`, shaped to broadcast against it."""
        return self._along_axis(self.mean, x), self._along_axis(self.std, x)

    def _along_axis(self, values: float | tuple[float, ...], x: Array) -> Array:
        array = np.asarray(values, np.float64).reshape(-1)
        if array.size > 1:
            shape = [1] * x.ndim
            if not -x.ndim <= self.axis < x.ndim or x.shape[self.axis] != array.size:
                raise InvalidInput(
                    f"normalization has {array.size} channels on axis {self.axis}, x has shape {tuple(x.shape)}; "
                    "name the channel axis with axis="
                )
            shape[self.axis] = array.size
            array = array.reshape(shape)
        return cast(from_numpy(array, x), x)
