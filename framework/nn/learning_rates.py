"""Learning rates under MindSpore's names: lists with one rate for each step, and schedules as functions of the step.

The lists change from epoch to epoch: the step counts as the epoch it lies in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, exp, pi

from ..optim.rate_schedules import check_counts, check_rates


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """Return half a cosine from `max_lr` down to `min_lr` at `decay_epoch`, then `min_lr`."""
    check_rates(cosine_decay_lr, min_lr, max_lr)
    return _by_epoch(
        lambda epoch: min_lr + 0.5 * (max_lr - min_lr) * (1.0 + cos(pi * min(epoch, decay_epoch) / decay_epoch)),
        total_step,
        step_per_epoch,
        decay_epoch,
    )


def exponential_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """Return `learning_rate * decay_rate ** (epoch / decay_epoch)`, the exponent rounded down when `is_stair`."""
    check_rates(exponential_decay_lr, learning_rate, decay_rate)
    return _by_epoch(
        lambda epoch: learning_rate * decay_rate ** _periods(epoch, decay_epoch, is_stair),
        total_step,
        step_per_epoch,
        decay_epoch,
    )


def inverse_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """Return `learning_rate / (1 + decay_rate * epoch / decay_epoch)`, the quotient rounded down when `is_stair`."""
    check_rates(inverse_decay_lr, learning_rate, decay_rate)
    return _by_epoch(
        lambda epoch: learning_rate / (1.0 + decay_rate * _periods(epoch, decay_epoch, is_stair)),
        total_step,
        step_per_epoch,
        decay_epoch,
    )


def natural_exp_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """Return `learning_rate * exp(-decay_rate * epoch)`, the epoch rounded down to `decay_epoch` when `is_stair`."""
    check_rates(natural_exp_decay_lr, learning_rate, decay_rate)
    return _by_epoch(
        lambda epoch: learning_rate * exp(-decay_rate * (epoch // decay_epoch * decay_epoch if is_stair else epoch)),
        total_step,
        step_per_epoch,
        decay_epoch,
    )


def piecewise_constant_lr(milestone: Sequence[int], learning_rates: Sequence[float]) -> list[float]:
    """Return `learning_rates[k]` up to, not including, step `milestone[k]`; the list ends with the last milestone."""
    check_rates(piecewise_constant_lr, *learning_rates)
    if not milestone or len(milestone) != len(learning_rates):
        raise ValueError(
            f"piecewise_constant_lr expects as many milestones as rates, one or more, "
            f"got {len(milestone)} and {len(learning_rates)}"
        )
    if any(b <= a for a, b in zip((0, *milestone), milestone, strict=False)):
        raise ValueError(f"piecewise_constant_lr expects rising milestones above 0, got {tuple(milestone)}; sort them")
    rates: list[float] = []
    for end, rate in zip(milestone, learning_rates, strict=True):
        rates.extend([float(rate)] * (end - len(rates)))
    return rates


def polynomial_decay_lr(
    learning_rate: float,
    end_learning_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    power: float,
    update_decay_epoch: bool = False,
) -> list[float]:
    """Return `(learning_rate - end_learning_rate) * (1 - done) ** power + end_learning_rate`, done at `decay_epoch`.

    With `update_decay_epoch` the decay starts again over twice, three times, ... the epochs when it is done.
    """
    check_rates(polynomial_decay_lr, learning_rate, end_learning_rate, power)

    def rate(epoch: int) -> float:
        epochs = decay_epoch * max(1, -(-epoch // decay_epoch)) if update_decay_epoch else decay_epoch
        left = 1.0 - min(epoch, epochs) / epochs
        return float((learning_rate - end_learning_rate) * left**power + end_learning_rate)

    return _by_epoch(rate, total_step, step_per_epoch, decay_epoch)


def warmup_lr(learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int) -> list[float]:
    """Return `learning_rate * epoch / warmup_epoch`, then `learning_rate`; without warm-up epochs it does not
    change."""
    check_rates(warmup_lr, learning_rate)
    check_counts(warmup_lr, 0, warmup_epoch=warmup_epoch)
    epochs = max(1, warmup_epoch)
    return _by_epoch(
        lambda epoch: learning_rate * (min(epoch, epochs) / epochs if warmup_epoch else 1.0),
        total_step,
        step_per_epoch,
        epochs,
    )


def _by_epoch(rate: Callable[[int], float], total_step: int, step_per_epoch: int, epochs: int) -> list[float]:
    check_counts(rate, 1, total_step=total_step, step_per_epoch=step_per_epoch, epochs=epochs)
    return [float(rate(step // step_per_epoch)) for step in range(total_step)]


def _periods(time: int, period: int, is_stair: bool) -> float:
    return time // period if is_stair else time / period


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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
        return self.learning_rate * min(step, self.warmup_steps) / self.warmup_steps
