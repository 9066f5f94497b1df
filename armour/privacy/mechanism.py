"""How much noise a step gets and how its gradients are clipped: constant, or adapted as training goes on."""

import math
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from ..errors import InvalidInput


class Noise(Protocol):
    """The noise multiplier of every step."""

    def multiplier(self, step: int) -> float:
        """Standard deviation of the noise by the clipping norm, in the step of that number from 0."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """The same noise in every step.

    Reference:
        Abadi et al. 2016, arXiv:1607.00133.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        _check_positive(noise_multiplier=self.noise_multiplier)

    def multiplier(self, step: int) -> float:
        """The one multiplier."""
        del step
        return self.noise_multiplier


@dataclass(frozen=True, slots=True)
class AdaptiveGaussian:
    """Noise that falls as the gradients do: by 1 / (1 + decay t) in `time`, by exp(-decay t) in `exponential`.

    Args:
        noise_multiplier: Of the first step.
        decay: 0 or more.
        policy: How it falls.
        least: Below this it does not fall; so the whole cost stays foreseeable.

    Reference:
        Yu et al. 2019, arXiv:1904.02200, section 5.
    """

    noise_multiplier: float
    decay: float
    policy: Literal["time", "exponential"] = "time"
    least: float = 0.3

    def __post_init__(self) -> None:
        _check_positive(noise_multiplier=self.noise_multiplier, least=self.least)
        if not (math.isfinite(self.decay) and self.decay >= 0):
            raise InvalidInput(f"decay expects a finite number of 0 or more, got {self.decay}")
        if self.policy not in ("time", "exponential"):
            raise InvalidInput(f"policy expects 'time' or 'exponential', got {self.policy!r}")

    def multiplier(self, step: int) -> float:
        """The multiplier of that step."""
        fallen = 1 / (1 + self.decay * step) if self.policy == "time" else math.exp(-self.decay * step)
        return max(self.noise_multiplier * fallen, min(self.least, self.noise_multiplier))


class Clipping(Protocol):
    """The norm to which gradients are clipped, and what a step teaches about the next one's."""

    @property
    def norm(self) -> float:
        """The longest gradient that a sample may contribute."""

    def gradient_noise(self, noise_multiplier: float) -> float:
        """The multiplier of the noise on gradients, so that the step as a whole spends `noise_multiplier`."""

    def after(self, unclipped: int, samples: int, batch: float, generator: np.random.Generator) -> "Clipping":
        """The clipping of the next step.

        Args:
            unclipped: How many gradients were no longer than the norm.
            samples: Of how many.
            batch: How many were expected, which is no secret.
            generator: Of the noise.
        """


@dataclass(frozen=True, slots=True)
class FixedClipping:
    """One norm for the whole training."""

    norm: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(norm=self.norm)

    def gradient_noise(self, noise_multiplier: float) -> float:
        """As given: nothing else is published."""
        return noise_multiplier

    def after(self, unclipped: int, samples: int, batch: float, generator: np.random.Generator) -> "FixedClipping":
        """The same."""
        del unclipped, samples, batch, generator
        return self


@dataclass(frozen=True, slots=True)
class AdaptiveClipping:
    """A norm that follows a quantile of the gradients' lengths, which is itself learned with noise.

    Args:
        norm: Of the first step.
        quantile: Share of the gradients that shall stay unclipped.
        learning_rate: Of the logarithm of the norm.
        count_noise: Standard deviation of the noise on the number of unclipped gradients; a twentieth of the expected
            batch is the paper's choice.

    Reference:
        Andrew et al. 2021, arXiv:1905.03871, algorithm 1 and theorem 1.
    """

    norm: float = 1.0
    quantile: float = 0.5
    learning_rate: float = 0.2
    count_noise: float = 5.0

    def __post_init__(self) -> None:
        _check_positive(norm=self.norm, learning_rate=self.learning_rate, count_noise=self.count_noise)
        if not 0 < self.quantile < 1:
            raise InvalidInput(f"quantile expects a number between 0 and 1, got {self.quantile}")

    def gradient_noise(self, noise_multiplier: float) -> float:
        """More than given, as the count of unclipped gradients spends a part."""
        left = noise_multiplier**-2 - (2 * self.count_noise) ** -2
        if left <= 0:
            raise InvalidInput(
                f"count_noise {self.count_noise} spends more than a noise_multiplier of {noise_multiplier} allows; "
                f"it must exceed half of the multiplier"
            )
        return float(left**-0.5)

    def after(self, unclipped: int, samples: int, batch: float, generator: np.random.Generator) -> "AdaptiveClipping":
        """A larger norm when more gradients than the quantile were clipped, a smaller one otherwise."""
        # Counts are centred at one half, so that a sample moves the sum by one half only.
        noisy = (unclipped - 0.5 * samples + generator.normal(0.0, self.count_noise)) / batch + 0.5
        return replace(self, norm=self.norm * math.exp(-self.learning_rate * (noisy - self.quantile)))


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"{name} expects a finite number above 0, got {value}")
