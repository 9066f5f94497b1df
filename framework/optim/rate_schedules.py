"""Learning rates as pure functions of the step: the same step always gives the same rate, so resuming needs no state.

Every schedule is a small frozen value that is called with a step (the first step is 0) and can be given to an
optimizer wherever a learning rate is expected.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, isfinite, pi, sqrt
from typing import Literal


def check_rates(schedule: object, *rates: float) -> None:
    """Check that the rates are finite and not negative.

    Raises:
        ValueError: One is not.
    """
    for rate in rates:
        if not (isfinite(rate) and rate >= 0.0):
            raise ValueError(
                f"{type(schedule).__name__} expects finite rates and factors of zero or more, got {rate}; "
                f"check the arguments of {schedule!r}"
            )


def check_counts(schedule: object, least: int, **counts: int) -> None:
    """Check that the counts are `least` or more.

    Raises:
        ValueError: One is not.
    """
    for name, count in counts.items():
        if count < least:
            raise ValueError(f"{type(schedule).__name__} expects {name} of at least {least}, got {count}")


#: Anything that maps a step to a rate.
Schedule = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class ConstantRate:
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
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
        """Return the rate of that step."""
        return self.rates[bisect_right(self.boundaries, step)]


def rate_at(rate: float | Schedule, step: int) -> float:
    """Return the rate of a step, whether a number or a schedule was given.

    Raises:
        ValueError: The rate is negative, NaN or infinite.
    """
    value = float(rate(step)) if callable(rate) else float(rate)
    if not (isfinite(value) and value >= 0.0):
        raise ValueError(f"learning rate at step {step} is {value}; expected a finite number, zero or more")
    return value


def _warmup(step: int, warmup_steps: int) -> float:
    return 1.0 if step >= warmup_steps else (step + 1) / warmup_steps


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Linear growth to the rate at which `after` begins, then `after`, whose step 0 is our step `steps`.

    Args:
        steps: Of the growth; the first has `1 / steps` of the rate.
        after: A schedule.
    """

    steps: int
    after: Schedule

    def __post_init__(self) -> None:
        check_counts(self, 1, steps=self.steps)

    def __call__(self, step: int) -> float:
        """Return the rate of that step."""
        if step >= self.steps:
            return self.after(step - self.steps)
        return self.after(0) * (step + 1) / self.steps


@dataclass(frozen=True, slots=True)
class OneCycle:
    """From `peak / start_factor` up to `peak` and down to `peak / start_factor / end_factor`, on half cosines.

    Args:
        peak: The highest rate.
        total_steps: Steps of the whole cycle; afterwards the rate stays.
        rising: Share of the steps in which the rate grows, in (0, 1).
        start_factor: How much lower it starts.
        end_factor: How much lower than its start it ends.
        shape: `cosine`, or `linear` for straight lines.

    Reference:
        Smith and Topin 2018, arXiv:1708.07120; the numbering of steps is that of PyTorch's `OneCycleLR`.
    """

    peak: float
    total_steps: int
    rising: float = 0.3
    start_factor: float = 25.0
    end_factor: float = 1e4
    shape: Literal["cosine", "linear"] = "cosine"

    def __post_init__(self) -> None:
        check_rates(self, self.peak)
        check_counts(self, 2, total_steps=self.total_steps)
        if not 0.0 < self.rising < 1.0:
            raise ValueError(f"OneCycle expects rising between 0 and 1, got {self.rising}")
        if not (self.start_factor >= 1.0 and self.end_factor >= 1.0):
            raise ValueError(f"OneCycle expects factors of 1 or more, got {self.start_factor} and {self.end_factor}")
        if self.shape not in ("cosine", "linear"):
            raise ValueError(f"OneCycle expects shape to be cosine or linear, got {self.shape!r}")

    def __call__(self, step: int) -> float:
        """Return the rate of that step."""
        start = self.peak / self.start_factor
        turn = self.rising * self.total_steps - 1.0
        last = self.total_steps - 1.0
        if step <= turn:
            return self._between(start, self.peak, step / turn)
        return self._between(self.peak, start / self.end_factor, min(1.0, (step - turn) / (last - turn)))

    def _between(self, start: float, end: float, done: float) -> float:
        if self.shape == "linear":
            return start + (end - start) * done
        return end + (start - end) * 0.5 * (1.0 + cos(pi * done))


@dataclass(frozen=True, slots=True)
class CosineRestarts:
    """Half a cosine from `rate` to `final`, again and again, each `factor` times as long as the one before.

    Args:
        rate: At every start.
        first_steps: Length of the first period.
        factor: By how much the periods grow, an integer of 1 or more.
        final: The floor.

    Reference:
        Loshchilov and Hutter 2017, arXiv:1608.03983, eq. 5.
    """

    rate: float
    first_steps: int
    factor: int = 1
    final: float = 0.0

    def __post_init__(self) -> None:
        check_rates(self, self.rate, self.final)
        check_counts(self, 1, first_steps=self.first_steps, factor=self.factor)

    def __call__(self, step: int) -> float:
        """Return the rate of that step."""
        length = self.first_steps
        if self.factor == 1:
            step %= length
        while step >= length:
            step, length = step - length, length * self.factor
        return self.final + (self.rate - self.final) * 0.5 * (1.0 + cos(pi * step / length))


@dataclass(frozen=True, slots=True)
class InverseSquareRoot:
    """Linear warm-up to `rate`, then `rate * sqrt(warmup_steps / (step + 1))`.

    Reference:
        Vaswani et al. 2017, arXiv:1706.03762, eq. 3, its peak named instead of the width.
    """

    rate: float
    warmup_steps: int

    def __post_init__(self) -> None:
        check_rates(self, self.rate)
        check_counts(self, 1, warmup_steps=self.warmup_steps)

    def __call__(self, step: int) -> float:
        """Return the rate of that step."""
        return self.rate * min((step + 1) / self.warmup_steps, sqrt(self.warmup_steps / (step + 1)))


@dataclass(frozen=True, slots=True)
class Listed:
    """`rates[step]`, and the last of them afterwards: what an optimizer makes of a list of rates."""

    rates: tuple[float, ...]

    def __init__(self, rates: Sequence[float]) -> None:
        object.__setattr__(self, "rates", tuple(float(rate) for rate in rates))
        if not self.rates:
            raise ValueError("a list of learning rates expects one rate or more, got none")
        check_rates(self, *self.rates)

    def __call__(self, step: int) -> float:
        """Return the rate of that step."""
        return self.rates[min(step, len(self.rates) - 1)]
