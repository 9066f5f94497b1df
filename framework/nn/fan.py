"""First values scaled to the shape of a layer, so that signals keep their size on the way through.

Fans of a weight `(out, in, *window)`: `fan_in = in * window`, `fan_out = out * window`, as `Dense` and `Conv2d` store
theirs.
"""

from dataclasses import dataclass
from math import prod, sqrt
from typing import Literal

import numpy as np

from ..errors import ShapeError
from ..tensor import Array
from .init import Initializer

Fan = Literal["fan_in", "fan_out"]


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """`(fan_in, fan_out)` of a weight.

    Raises:
        ShapeError: Fewer than two axes, or an axis of length 0.
    """
    if len(shape) < 2 or 0 in shape:
        raise ShapeError(
            f"a fan needs a weight of two axes or more, none of length 0, got {shape}; use Normal or Uniform"
        )
    window = prod(shape[2:])
    return shape[1] * window, shape[0] * window


@dataclass(frozen=True, slots=True)
class XavierUniform(Initializer):
    """Uniform within `gain * sqrt(6 / (fan_in + fan_out))`.

    Reference:
        Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks", eq. 16.
    """

    gain: float = 1.0

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""
        limit = self.gain * sqrt(6.0 / sum(fans(shape)))
        return generator.uniform(-limit, limit, shape)


@dataclass(frozen=True, slots=True)
class XavierNormal(Initializer):
    """Normal of standard deviation `gain * sqrt(2 / (fan_in + fan_out))`.

    Reference:
        Glorot and Bengio 2010, eq. 12.
    """

    gain: float = 1.0

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""
        return generator.normal(0.0, self.gain * sqrt(2.0 / sum(fans(shape))), shape)


@dataclass(frozen=True, slots=True)
class HeUniform(Initializer):
    """Uniform within `sqrt(6 / ((1 + negative_slope**2) * fan))`.

    Args:
        negative_slope: Of the leaky ReLU that follows; 0 for ReLU. `sqrt(5)` gives `1 / sqrt(fan)`, the layers'
        default. mode: Which fan.

    Reference:
        He et al. 2015, arXiv:1502.01852, eq. 15.
    """

    negative_slope: float = 0.0
    mode: Fan = "fan_in"

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""
        limit = sqrt(3.0) * _he_deviation(shape, self.negative_slope, self.mode)
        return generator.uniform(-limit, limit, shape)


@dataclass(frozen=True, slots=True)
class HeNormal(Initializer):
    """Normal of standard deviation `sqrt(2 / ((1 + negative_slope**2) * fan))`.

    Args:
        negative_slope: Of the leaky ReLU that follows; 0 for ReLU.
        mode: Which fan.

    Reference:
        He et al. 2015, arXiv:1502.01852, eq. 15.
    """

    negative_slope: float = 0.0
    mode: Fan = "fan_in"

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""
        return generator.normal(0.0, _he_deviation(shape, self.negative_slope, self.mode), shape)


@dataclass(frozen=True, slots=True)
class Orthogonal(Initializer):
    """Rows (or columns, whichever are fewer) orthogonal and of length `gain`, after joining all axes but the first.

    Reference:
        Saxe et al. 2014, arXiv:1312.6120.
    """

    gain: float = 1.0

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""
        fans(shape)
        rows, columns = shape[0], prod(shape[1:])
        q, r = np.linalg.qr(generator.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.where(np.diag(r) < 0.0, -1.0, 1.0)  # uniform over the orthogonal matrices, not only over those of qr
        wide: Array = q if rows >= columns else q.T
        return self.gain * wide.reshape(shape)


def _he_deviation(shape: tuple[int, ...], negative_slope: float, mode: Fan) -> float:
    fan_in, fan_out = fans(shape)
    return sqrt(2.0 / ((1.0 + negative_slope**2) * (fan_in if mode == "fan_in" else fan_out)))
