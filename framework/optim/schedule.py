"""Learning rates as pure functions of the step: the same step always gives the same rate, so resuming needs no state.

Every schedule is a small frozen value that is called with a step (the first step is 0) and can be given to an
optimizer wherever a learning rate is expected.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from math import cos, isfinite, pi

from .schedule_checks import check_counts, check_rates

#: Anything that maps a step to a rate.
Schedule = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Constant:
    """The same rate at every step, after a linear warm-up from `rate / warmup_steps`.

    Args:
        rate: Not negative, finite.
        warmup_steps: Steps of linear growth; step `warmup_steps - 1` is the first at the full rate.
    """

    rate: float
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        check_rates(self, self.rate)
        check_counts(self, 0, warmup_steps=self.warmup_steps)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        return self.rate * _warmup(step, self.warmup_steps)


@dataclass(frozen=True, slots=True)
class CosineDecay:
    """Linear warm-up to `rate`, then half a cosine down to `final` at `total_steps`, then `final`.

    Args:
        rate: The peak.
        total_steps: Step at which `final` is reached; more than `warmup_steps`.
        warmup_steps: Steps of linear growth before the decay.
        final: The floor.

    Reference:
        Loshchilov and Hutter 2017, arXiv:1608.03983, eq. 5, without restarts.
    """

    rate: float
    total_steps: int
    warmup_steps: int = 0
    final: float = 0.0

    def __post_init__(self) -> None:
        check_rates(self, self.rate, self.final)
        check_counts(self, 0, warmup_steps=self.warmup_steps)
        check_counts(self, self.warmup_steps + 1, total_steps=self.total_steps)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        if step < self.warmup_steps:
            return self.rate * _warmup(step, self.warmup_steps)
        done = min(1.0, (step - self.warmup_steps) / (self.total_steps - self.warmup_steps))
        return self.final + (self.rate - self.final) * 0.5 * (1.0 + cos(pi * done))


@dataclass(frozen=True, slots=True)
class StepDecay:
    """`rate * factor ** (step // every)`: a staircase."""

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        check_rates(self, self.rate, self.factor)
        check_counts(self, 1, every=self.every)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        return float(self.rate * self.factor ** (step // self.every))


@dataclass(frozen=True, slots=True)
class ExponentialDecay:
    """`rate * factor ** (step / every)`: the smooth staircase."""

    rate: float
    every: int
    factor: float

    def __post_init__(self) -> None:
        check_rates(self, self.rate, self.factor)
        check_counts(self, 1, every=self.every)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        return float(self.rate * self.factor ** (step / self.every))


@dataclass(frozen=True, slots=True)
class PolynomialDecay:
    """`final + (rate - final) * (1 - step / total_steps) ** power`, then `final`; power 1 is a straight line."""

    rate: float
    total_steps: int
    power: float = 1.0
    final: float = 0.0

    def __post_init__(self) -> None:
        check_rates(self, self.rate, self.final, self.power)
        check_counts(self, 1, total_steps=self.total_steps)

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        left = 1.0 - min(1.0, step / self.total_steps)
        return float(self.final + (self.rate - self.final) * left**self.power)


@dataclass(frozen=True, slots=True)
class Piecewise:
    """`rates[k]` where `k` counts the boundaries at or below the step.

    Args:
        boundaries: Rising steps at which the rate changes.
        rates: One more than the boundaries.
    """

    boundaries: tuple[int, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        check_rates(self, *self.rates)
        if len(self.rates) != len(self.boundaries) + 1:
            raise ValueError(
                f"Piecewise expects one rate more than boundaries, got {len(self.rates)} rates "
                f"and {len(self.boundaries)} boundaries; add the rate that follows the last boundary"
            )
        if any(b <= a for a, b in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise ValueError(f"Piecewise expects rising boundaries, got {self.boundaries}; sort them, without repeats")

    def __call__(self, step: int) -> float:
        """The rate of that step."""
        return self.rates[bisect_right(self.boundaries, step)]


def rate_at(rate: float | Schedule, step: int) -> float:
    """The rate of a step, whether a number or a schedule was given.

    Raises:
        ValueError: The rate is negative, NaN or infinite.
    """
    value = float(rate(step)) if callable(rate) else float(rate)
    if not (isfinite(value) and value >= 0.0):
        raise ValueError(f"learning rate at step {step} is {value}; expected a finite number, zero or more")
    return value


def _warmup(step: int, warmup_steps: int) -> float:
    return 1.0 if step >= warmup_steps else (step + 1) / warmup_steps
