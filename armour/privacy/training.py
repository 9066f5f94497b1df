"""DP-SGD: every sample's gradient is clipped, the sum gets Gaussian noise, and a ledger keeps the account."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from .accountant import Accountant, Ledger, Phase
from .mechanism import Clipping, FixedClipping, Noise
from .per_sample import Loss, per_sample


class Optimizer(Protocol):
    """Any optimizer, of the engine or of torch, that applies the gradients which its parameters hold."""

    def step(self) -> Any:
        """Applies them; Any: torch returns a loss."""


@dataclass(frozen=True, slots=True)
class PrivateStep:
    """What one step did.

    Args:
        samples: How many took part; 0 is possible.
        loss: Their mean, NaN without samples. Not private: for the eyes of whoever may see the data.
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
    """Steps of an optimizer whose gradients are differentially private.

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
        optimizer: Optimizer,
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
        self.ledger = Ledger()
        self.clipping: Clipping = clipping or FixedClipping()
        self.steps = 0
        Phase(noise.multiplier(0), sample_rate)  # says what is out of range
        self._per_sample = per_sample(model, loss)
        self._optimizer, self._noise, self._sample_rate, self._population = optimizer, noise, sample_rate, population
        self._chunk = chunk
        self._generator = np.random.default_rng(seed)

    def batches(self, steps: int) -> Iterator[NDArray[np.int64]]:
        """Rows of the training set for each step, every one drawn on its own with the sample rate."""
        for _ in range(steps):
            yield np.flatnonzero(self._generator.random(self._population) < self._sample_rate)

    def step(self, x: ArrayLike, y: ArrayLike) -> PrivateStep:
        """One step on a batch `(n, ...)`, which may be empty, with its labels `(n, ...)`.

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
        """What all steps so far guarantee at `delta`."""
        return self.ledger.epsilon(delta, accountant)

    def _clipped_sum(
        self, x: NDArray[Any], y: NDArray[Any], norm: float
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
                    f"with NaN or infinity; look at the loss and the data, or lower the learning rate"
                )
            factors = np.minimum(1.0, norm / np.maximum(lengths, np.finfo(np.float64).tiny))
            for sum_, gradient in zip(total, gradients, strict=True):
                sum_ += np.tensordot(factors, gradient, axes=1)
            losses += float(np.sum(values, dtype=np.float64))
            unclipped += int(np.sum(lengths <= norm))
        return total, losses, unclipped


def gradient_lengths(gradients: list[NDArray[Any]]) -> NDArray[np.float64]:
    """`(n,)` L2 norm over all parameters of each sample's gradient, from gradients `(n, *parameter)`."""
    squares = [np.einsum("ij,ij->i", g, g, dtype=np.float64) for g in (g.reshape(len(g), -1) for g in gradients)]
    return np.asarray(np.sqrt(np.sum(squares, axis=0)), np.float64)
