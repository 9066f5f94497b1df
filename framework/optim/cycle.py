"""Learning rates that rise before they fall: a warm-up before any schedule, one cycle, restarts, inverse roots."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sqrt
from typing import Literal

from .schedule import Schedule
from .schedule_checks import check_counts, check_rates


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
        """The rate of that step."""
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
        """The rate of that step."""
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
        """The rate of that step."""
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
        """The rate of that step."""
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
        """The rate of that step."""
        return self.rates[min(step, len(self.rates) - 1)]
