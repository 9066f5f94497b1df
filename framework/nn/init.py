"""First values of parameters: constants and plain distributions, drawn from explicit keys.

An initializer is a small frozen value; called with a shape, a key and a dtype it gives an array, always the same one
for the same three. Those that look at the shape of a layer stand in `fan.py`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ..random import Key
from ..tensor import Array


class Initializer(ABC):
    """First values as a function of shape, key and dtype."""

    __slots__ = ()

    def __call__(self, shape: tuple[int, ...], key: Key, dtype: DTypeLike = np.float32) -> Array:
        """A new array of that shape and dtype."""
        values: Array = np.asarray(self.draw(shape, key.generator())).astype(dtype)
        return values

    @abstractmethod
    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""


@dataclass(frozen=True, slots=True)
class Constant(Initializer):
    """`value` everywhere."""

    value: float = 0.0

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""
        del generator
        return np.full(shape, self.value)


@dataclass(frozen=True, slots=True)
class Zero(Initializer):
    """0 everywhere."""

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""
        del generator
        return np.zeros(shape)


@dataclass(frozen=True, slots=True)
class One(Initializer):
    """1 everywhere."""

    def draw(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Float64 values of that shape."""
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
        """Float64 values of that shape."""
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
        """Float64 values of that shape."""
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
        """Float64 values of that shape."""
        return generator.uniform(-self.scale, self.scale, shape)


def _check_not_negative(initializer: Initializer, width: float) -> None:
    if not width >= 0.0:
        raise ValueError(f"{type(initializer).__name__} expects a width of 0 or more, got {width}")
