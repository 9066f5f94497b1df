"""DP-SGD: each sample's gradient is clipped, the sum gets Gaussian noise, and a ledger keeps the account."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from .per_sample_gradients import Loss, per_sample
from .privacy_accountant import Accountant, Phase, PrivacyLedger


class Noise(Protocol):
    """The noise multiplier of every step."""

    def multiplier(self, step: int) -> float:
        """Return the standard deviation of the noise over the clipping norm, in the step of that number from 0."""


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
        """Return the constant multiplier."""
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
        """Return the multiplier of that step."""
        fallen = 1 / (1 + self.decay * step) if self.policy == "time" else math.exp(-self.decay * step)
        return max(self.noise_multiplier * fallen, min(self.least, self.noise_multiplier))


class Clipping(Protocol):
    """The norm to which gradients are clipped, and its update after each step."""

    @property
    def norm(self) -> float:
        """The longest gradient that a sample may contribute."""

    def gradient_noise(self, noise_multiplier: float) -> float:
        """Return the multiplier of the noise on gradients with which the whole step spends `noise_multiplier`."""

    def after(self, unclipped: int, samples: int, batch: float, generator: np.random.Generator) -> "Clipping":
        """Return the clipping of the next step.

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
        """Return `noise_multiplier`: the step publishes no other number."""
        return noise_multiplier

    def after(self, unclipped: int, samples: int, batch: float, generator: np.random.Generator) -> "FixedClipping":
        """Return the same clipping."""
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
        """Return a larger multiplier, as the count of unclipped gradients spends a part."""
        left = noise_multiplier**-2 - (2 * self.count_noise) ** -2
        if left <= 0:
            raise InvalidInput(
                f"count_noise {self.count_noise} spends more than a noise_multiplier of {noise_multiplier} allows; "
                f"it must exceed half of the multiplier"
            )
        return float(left**-0.5)

    def after(self, unclipped: int, samples: int, batch: float, generator: np.random.Generator) -> "AdaptiveClipping":
        """Return a larger norm if more gradients than the quantile were clipped, else a smaller one."""
        # Counts are centred at one half, so that a sample moves the sum by one half only.
        noisy = (unclipped - 0.5 * samples + generator.normal(0.0, self.count_noise)) / batch + 0.5
        return replace(self, norm=self.norm * math.exp(-self.learning_rate * (noisy - self.quantile)))


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"{name} expects a finite number above 0, got {value}")


class SupportsStep(Protocol):
    """An optimizer, of the engine or of torch, that applies the gradients of its parameters."""

    def step(self) -> object:
        """Apply the gradients; torch's optimizers return a loss, which is ignored."""


@dataclass(frozen=True, slots=True)
class PrivateStep:
    """The numbers of one step.

    Args:
        samples: How many took part; 0 is possible.
        loss: Their mean, NaN without samples. Not private: only for those who may see the data.
        clipping_norm: To which gradients were clipped.
        clipped_share: Share of them that was longer; NaN without samples. Not private.
        noise_multiplier: What the step spends.
    """

    samples: int
    loss: float
    clipping_norm: float
    clipped_share: float
    noise_multiplier: float


class PrivateTraining:
    """Training steps whose gradients are differentially private.

    Args:
        model: Engine `Cell` or torch `Module`; its samples may not mix.
        optimizer: Holds the model's trainable parameters.
        noise: Noise multiplier of each step.
        sample_rate: Probability with which each sample is drawn; batches must come from `batches` (or another Poisson
            sampler of this rate) for the account to be true.
        population: Number of samples in the training set.
        clipping: Norm to which gradients are clipped.
        loss: Of one sample; cross entropy by default.
        chunk: Gradients held in memory at once.
        seed: None draws the noise from the operating system, as a guarantee wants it; a number is for tests, since
            whoever knows it can subtract the noise.

    Example:
        >>> training = PrivateTraining(net, SGD(net.trainable_params(), 0.1), Gaussian(1.1), sample_rate=0.01,
        ...                            population=len(x))
        >>> for rows in training.batches(1000):
        ...     training.step(x[rows], y[rows])
        >>> training.epsilon(delta=1e-5)

    Reference:
        Abadi et al. 2016, arXiv:1607.00133, algorithm 1.
    """

    def __init__(
        self,
        model: object,
        optimizer: SupportsStep,
        noise: Noise,
        *,
        sample_rate: float,
        population: int,
        clipping: Clipping | None = None,
        loss: Loss | None = None,
        chunk: int = 256,
        seed: int | None = None,
    ) -> None:
        if population < 1 or chunk < 1:
            raise InvalidInput(f"population and chunk expect 1 or more, got {population} and {chunk}")
        self.ledger = PrivacyLedger()
        self.clipping: Clipping = clipping or FixedClipping()
        self.steps = 0
        Phase(noise.multiplier(0), sample_rate)  # checks the arguments
        self._per_sample = per_sample(model, loss)
        self._optimizer, self._noise, self._sample_rate, self._population = optimizer, noise, sample_rate, population
        self._chunk = chunk
        self._generator = np.random.default_rng(seed)

    def batches(self, steps: int) -> Iterator[NDArray[np.int64]]:
        """Draw rows of the training set for each step, each row independently with the sample rate."""
        for _ in range(steps):
            yield np.flatnonzero(self._generator.random(self._population) < self._sample_rate)

    def step(self, x: ArrayLike, y: ArrayLike) -> PrivateStep:
        """Train one step on a batch `(n, ...)`, which may be empty, with its labels `(n, ...)`.

        Raises:
            InvalidInput: Samples and labels differ in number, or a gradient is not finite: the noise would hide it.
        """
        inputs, labels = np.asarray(x), np.asarray(y)
        if len(inputs) != len(labels):
            raise InvalidInput(f"x and y expect as many labels as samples, got {len(inputs)} and {len(labels)}")
        norm, multiplier = self.clipping.norm, self._noise.multiplier(self.steps)
        deviation = self.clipping.gradient_noise(multiplier) * norm
        total, losses, unclipped = self._clipped_sum(inputs, labels, norm)
        batch = self._sample_rate * self._population
        private = [(part + self._generator.normal(0.0, deviation, part.shape)) / batch for part in total]
        self._per_sample.set_gradients(private)
        self._optimizer.step()
        self.clipping = self.clipping.after(unclipped, len(inputs), batch, self._generator)
        self.ledger.spend(Phase(multiplier, self._sample_rate))
        self.steps += 1
        mean = losses / len(inputs) if len(inputs) else math.nan
        share = 1 - unclipped / len(inputs) if len(inputs) else math.nan
        return PrivateStep(len(inputs), mean, norm, share, multiplier)

    def epsilon(self, delta: float, accountant: Accountant = "rdp") -> float:
        """Return the epsilon that all steps so far guarantee at `delta`."""
        return self.ledger.epsilon(delta, accountant)

    def _clipped_sum(
        self, x: NDArray[np.generic], y: NDArray[np.generic], norm: float
    ) -> tuple[list[NDArray[np.float64]], float, int]:
        total = [np.zeros(shape) for shape in self._per_sample.shapes()]
        losses, unclipped = 0.0, 0
        for start in range(0, len(x), self._chunk):
            part = slice(start, start + self._chunk)
            values, gradients = self._per_sample.gradients(x[part], y[part])
            lengths = gradient_lengths(gradients)
            if not np.isfinite(lengths).all():
                raise InvalidInput(
                    f"step {self.steps} expects finite gradients, got {int((~np.isfinite(lengths)).sum())} samples "
                    f"with NaN or infinity; check the loss and the data, or lower the learning rate"
                )
            factors = np.minimum(1.0, norm / np.maximum(lengths, np.finfo(np.float64).tiny))
            for sum_, gradient in zip(total, gradients, strict=True):
                sum_ += np.tensordot(factors, gradient, axes=1)
            losses += float(np.sum(values, dtype=np.float64))
            unclipped += int(np.sum(lengths <= norm))
        return total, losses, unclipped


def gradient_lengths(gradients: list[NDArray[np.floating]]) -> NDArray[np.float64]:
    """Return `(n,)` L2 norms of each sample's gradient over all parameters, from gradients `(n, *parameter)`."""
    squares = [np.einsum("ij,ij->i", g, g, dtype=np.float64) for g in (g.reshape(len(g), -1) for g in gradients)]
    return np.asarray(np.sqrt(np.sum(squares, axis=0)), np.float64)
