"""Initial values of parameters: constants and distributions drawn from explicit keys, scaled to a layer's shape.

An initializer is a small frozen value; called with a shape, a key and a dtype it gives an array, always the same one
for the same three. Fans of a weight `(out, in, *window)`: `fan_in = in * window`, `fan_out = out * window`, as `Dense`
and `Conv2d` store theirs.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod, sqrt
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..random import Key
from ..tensor import Array


class Initializer(ABC):
    """First values as a function of shape, key and dtype."""

    __slots__ = ()

    def __call__(self, shape: tuple[int, ...], key: Key, dtype: DTypeLike = np.float32) -> Array:
        """Return a new array of that shape and dtype."""
        values: Array = np.asarray(self.draw(shape, key.generator())).astype(dtype)
        return values

    @abstractmethod
    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return float64 values of that shape."""


@dataclass(frozen=True, slots=True)
class Constant(Initializer):
    """`value` everywhere."""

    value: float = 0.0

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return float64 values of that shape."""
        del generator
        return np.full(shape, self.value)


@dataclass(frozen=True, slots=True)
class Zero(Initializer):
    """0 everywhere."""

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return float64 values of that shape."""
        del generator
        return np.zeros(shape)


@dataclass(frozen=True, slots=True)
class One(Initializer):
    """1 everywhere."""

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return float64 values of that shape."""
        del generator
        return np.ones(shape)


@dataclass(frozen=True, slots=True)
class Normal(Initializer):
    """Normal with standard deviation `sigma` around `mean`."""

    sigma: float = 0.01
    mean: float = 0.0

    def __post_init__(self) -> None:
        _check_not_negative(self, self.sigma)

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return float64 values of that shape."""
        return generator.normal(self.mean, self.sigma, shape)


@dataclass(frozen=True, slots=True)
class TruncatedNormal(Initializer):
    """Normal around `mean`, values further than `limit` standard deviations drawn again.

    `sigma` is that of the normal before truncation; at the default limit of 2 the result has 0.88 of it.
    """

    sigma: float = 0.01
    mean: float = 0.0
    limit: float = 2.0

    def __post_init__(self) -> None:
        _check_not_negative(self, self.sigma)
        if not self.limit > 0.0:
            raise ValueError(f"TruncatedNormal expects limit above 0, got {self.limit}")

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return float64 values of that shape."""
        values = np.asarray(generator.standard_normal(shape))
        outside = np.abs(values) > self.limit
        while outside.any():
            values[outside] = generator.standard_normal(int(outside.sum()))
            outside = np.abs(values) > self.limit
        return self.mean + self.sigma * values


@dataclass(frozen=True, slots=True)
class Uniform(Initializer):
    """Uniform in `[-scale, scale)`."""

    scale: float = 0.07

    def __post_init__(self) -> None:
        _check_not_negative(self, self.scale)

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return float64 values of that shape."""
        return generator.uniform(-self.scale, self.scale, shape)


def _check_not_negative(initializer: Initializer, width: float) -> None:
    if not width >= 0.0:
        raise ValueError(f"{type(initializer).__name__} expects a width of 0 or more, got {width}")


Fan = Literal["fan_in", "fan_out"]


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return `(fan_in, fan_out)` of a weight.

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
        """Return float64 values of that shape."""
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
        """Return float64 values of that shape."""
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
        """Return float64 values of that shape."""
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
        """Return float64 values of that shape."""
        return generator.normal(0.0, _he_deviation(shape, self.negative_slope, self.mode), shape)


@dataclass(frozen=True, slots=True)
class Orthogonal(Initializer):
    """Rows (or columns, whichever are fewer) orthogonal and of length `gain`, after joining all axes but the first.

    Reference:
        Saxe et al. 2014, arXiv:1312.6120.
    """

    gain: float = 1.0

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return float64 values of that shape."""
        fans(shape)
        rows, columns = shape[0], prod(shape[1:])
        q, r = np.linalg.qr(generator.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.where(np.diag(r) < 0.0, -1.0, 1.0)  # uniform over the orthogonal matrices, not only over those of qr
        wide: Array = q if rows >= columns else q.T
        return self.gain * wide.reshape(shape)


def _he_deviation(shape: tuple[int, ...], negative_slope: float, mode: Fan) -> float:
    fan_in, fan_out = fans(shape)
    return sqrt(2.0 / ((1.0 + negative_slope**2) * (fan_in if mode == "fan_in" else fan_out)))
