"""Learning-rate schedules under MindSpore's names: frozen functions of the step, for `learning_rate`."""

from dataclasses import dataclass
from math import cos, exp, pi

from ..optim.schedule_checks import check_counts, check_rates


@dataclass(frozen=True, slots=True)
class ExponentialDecayLR:
    """`learning_rate * decay_rate ** (step / decay_steps)`, the exponent rounded down when `is_stair`."""

    learning_rate: float
    decay_rate: float
    decay_steps: int
    is_stair: bool = False

    def __post_init__(self) -> None:
        check_rates(self, self.learning_rate, self.decay_rate)
        check_counts(self, 1, decay_steps=self.decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        return float(self.learning_rate * self.decay_rate ** _periods(step, self.decay_steps, self.is_stair))


@dataclass(frozen=True, slots=True)
class NaturalExpDecayLR:
    """`learning_rate * exp(-decay_rate * step)`, the step rounded down to `decay_steps` when `is_stair`."""

    learning_rate: float
    decay_rate: float
    decay_steps: int
    is_stair: bool = False

    def __post_init__(self) -> None:
        check_rates(self, self.learning_rate, self.decay_rate)
        check_counts(self, 1, decay_steps=self.decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        counted = step // self.decay_steps * self.decay_steps if self.is_stair else step
        return self.learning_rate * exp(-self.decay_rate * counted)


@dataclass(frozen=True, slots=True)
class InverseDecayLR:
    """`learning_rate / (1 + decay_rate * step / decay_steps)`, the quotient rounded down when `is_stair`."""

    learning_rate: float
    decay_rate: float
    decay_steps: int
    is_stair: bool = False

    def __post_init__(self) -> None:
        check_rates(self, self.learning_rate, self.decay_rate)
        check_counts(self, 1, decay_steps=self.decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        return self.learning_rate / (1.0 + self.decay_rate * _periods(step, self.decay_steps, self.is_stair))


@dataclass(frozen=True, slots=True)
class CosineDecayLR:
    """Half a cosine from `max_lr` down to `min_lr` at `decay_steps`, then `min_lr`."""

    min_lr: float
    max_lr: float
    decay_steps: int

    def __post_init__(self) -> None:
        check_rates(self, self.min_lr, self.max_lr)
        check_counts(self, 1, decay_steps=self.decay_steps)
        if not self.min_lr < self.max_lr:
            raise ValueError(f"CosineDecayLR expects min_lr below max_lr, got {self.min_lr} and {self.max_lr}")

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        done = min(step, self.decay_steps) / self.decay_steps
        return self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1.0 + cos(pi * done))


@dataclass(frozen=True, slots=True)
class PolynomialDecayLR:
    """`(learning_rate - end_learning_rate) * (1 - done) ** power + end_learning_rate`, done by `decay_steps`.

    With `update_decay_steps` the decay starts again over twice, three times, ... the steps when it is done.
    """

    learning_rate: float
    end_learning_rate: float
    decay_steps: int
    power: float
    update_decay_steps: bool = False

    def __post_init__(self) -> None:
        check_rates(self, self.learning_rate, self.end_learning_rate, self.power)
        check_counts(self, 1, decay_steps=self.decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        steps = self.decay_steps * max(1, -(-step // self.decay_steps)) if self.update_decay_steps else self.decay_steps
        left = 1.0 - min(step, steps) / steps
        return float((self.learning_rate - self.end_learning_rate) * left**self.power + self.end_learning_rate)


@dataclass(frozen=True, slots=True)
class WarmUpLR:
    """`learning_rate * step / warmup_steps`, then `learning_rate`; the first step stands still, as in MindSpore."""

    learning_rate: float
    warmup_steps: int

    def __post_init__(self) -> None:
        check_rates(self, self.learning_rate)
        check_counts(self, 1, warmup_steps=self.warmup_steps)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        return self.learning_rate * min(step, self.warmup_steps) / self.warmup_steps


def _periods(step: int, decay_steps: int, is_stair: bool) -> float:
    return step // decay_steps if is_stair else step / decay_steps
