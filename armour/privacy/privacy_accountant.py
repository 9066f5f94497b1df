"""Accounting for training with noise: epsilon of (epsilon, delta)-differential privacy, by two accountants.

A training is a ledger of phases, each so many steps of the Gaussian mechanism on Poisson samples. Neighbouring data
sets differ by one sample added or removed. `rdp` needs only NumPy and is an upper bound; `pld` composes the
privacy loss itself, is tighter, and needs the package dp-accounting (extra `privacy`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..array_api import Floats
from ..errors import InvalidInput

#: Dense where the best order usually lies, sparse beyond.
ORDERS: Final[Floats] = np.array([*np.arange(1.1, 11, 0.1), *range(11, 64), 80, 96, 128, 192, 256, 512, 1024], float)

_TAIL = 12.0  # standard deviations of the Gaussian left out at both ends: 1e-32 of its mass
_CHUNK = 1 << 21  # elements of the table of orders by points that are held at once


def sampled_gaussian_renyi(sample_rate: float, noise_multiplier: float, orders: Floats) -> Floats:
    """Return the Rényi divergence of one step at each order, the larger of the two directions.

    The expectation of ((1-q) + q exp((2z-1) / 2s²))^order over z of N(0, s²), by the trapezoid rule. The integrand is
    analytic in a strip of width pi s², so that steps of s²/2 or less leave an error below 1e-15 for every order,
    whole or not.

    Args:
        sample_rate: q, above 0 and up to 1.
        noise_multiplier: s, above 0.
        orders: `(orders,)`, each above 1.

    Returns:
        `(orders,)`, 0 or more.

    Reference:
        Mironov, Talwar, Zhang 2019, arXiv:1908.10530, section 3.
    """
    return np.array(_renyi(sample_rate, noise_multiplier, tuple(orders.tolist())))


@lru_cache(512)
def _renyi(q: float, s: float, orders: tuple[float, ...]) -> tuple[float, ...]:
    if q == 1.0:
        return tuple(order / (2 * s * s) for order in orders)
    found = []
    for order in orders:
        step = min(s / 8, s * s / 2)
        points = math.ceil((order + 2 * _TAIL * s) / step) + 1
        total = -math.inf
        for start in range(0, points, _CHUNK):
            z = -_TAIL * s + step * np.arange(start, min(start + _CHUNK, points))
            ratio = np.logaddexp(math.log1p(-q), math.log(q) + (2 * z - 1) / (2 * s * s))
            terms = order * ratio - z * z / (2 * s * s)
            peak = float(terms.max())
            total = float(np.logaddexp(total, peak + math.log(float(np.exp(terms - peak).sum()))))
        log_moment = total + math.log(step / (s * math.sqrt(2 * math.pi)))
        found.append(max(log_moment, 0.0) / (order - 1))
    return tuple(found)


def epsilon_of_renyi(divergences: Floats, orders: Floats, delta: float) -> float:
    """Return the smallest epsilon that any order gives at `delta`.

    Args:
        divergences: `(orders,)` summed over all steps.
        orders: `(orders,)`, each above 1.
        delta: Between 0 and 1.

    Reference:
        Canonne, Kamath, Steinke 2020, arXiv:2004.00010, proposition 12.
    """
    bounds = divergences + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return max(float(bounds.min()), 0.0)


Accountant = Literal["rdp", "pld"]
ACCOUNTANTS: Final[tuple[Accountant, ...]] = ("rdp", "pld")

_FLOOR = 1e-3  # the smallest noise multiplier that calibration tries: our choice, far below any useful one


@dataclass(frozen=True, slots=True)
class Phase:
    """Equal steps of the sampled Gaussian mechanism.

    Args:
        noise_multiplier: Standard deviation of the noise by the clipping norm, greater than 0.
        sample_rate: Probability with which each sample takes part in a step, above 0 and up to 1.
        steps: How many, 0 or more.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0):
            raise InvalidInput(f"noise_multiplier expects a finite number above 0, got {self.noise_multiplier}")
        if not 0 < self.sample_rate <= 1:
            raise InvalidInput(f"sample_rate expects a probability above 0 and up to 1, got {self.sample_rate}")
        if isinstance(self.steps, bool) or self.steps != int(self.steps) or self.steps < 0:
            raise InvalidInput(f"steps expects an integer of 0 or more, got {self.steps}")


class PrivacyLedger:
    """The phases of a training so far; equal steps in a row form one phase."""

    def __init__(self, phases: Sequence[Phase] = ()) -> None:
        self._phases: list[Phase] = []
        for phase in phases:
            self.spend(phase)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases so far, in order."""
        return tuple(self._phases)

    def spend(self, phase: Phase) -> None:
        """Add the phase to the account."""
        last = self._phases[-1] if self._phases else None
        if last and (last.noise_multiplier, last.sample_rate) == (phase.noise_multiplier, phase.sample_rate):
            self._phases[-1] = Phase(phase.noise_multiplier, phase.sample_rate, last.steps + phase.steps)
        else:
            self._phases.append(phase)

    def epsilon(self, delta: float, accountant: Accountant = "rdp") -> float:
        """Return the epsilon that all phases together guarantee at `delta`; see the function `epsilon`."""
        return epsilon(self._phases, delta, accountant)


def epsilon(phases: Sequence[Phase], delta: float, accountant: Accountant = "rdp") -> float:
    """Return the epsilon of (epsilon, delta)-differential privacy after all phases; 0 after none.

    Args:
        phases: What was done, in any order.
        delta: Between 0 and 1, usually below one by the number of samples.
        accountant: `rdp` or `pld`.

    Raises:
        InvalidInput: delta is out of range, or there is no accountant of that name.
        ModuleNotFoundError: `pld` without the package dp-accounting.

    Example:
        >>> round(epsilon([Phase(noise_multiplier=1.1, sample_rate=0.01, steps=10_000)], delta=1e-5), 2)
        5.63
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"delta expects a number between 0 and 1, got {delta}")
    if accountant not in ACCOUNTANTS:
        raise InvalidInput(f"accountant expects one of {', '.join(ACCOUNTANTS)}, got {accountant!r}")
    spent = [phase for phase in phases if phase.steps]
    if not spent:
        return 0.0
    return _by_renyi(spent, delta) if accountant == "rdp" else _by_privacy_loss(spent, delta)


def noise_for(target: float, delta: float, sample_rate: float, steps: int, *, accountant: Accountant = "rdp") -> float:
    """Find the smallest noise multiplier, to a thousandth of itself, whose steps stay within epsilon `target`.

    Raises:
        InvalidInput: `target` is not above 0, or another argument is out of range.
    """
    if not (math.isfinite(target) and target > 0):
        raise InvalidInput(f"target epsilon expects a finite number above 0, got {target}")
    if steps < 1:
        raise InvalidInput(f"steps expects 1 or more to calibrate noise for, got {steps}")

    def fits(noise: float) -> bool:
        return epsilon([Phase(noise, sample_rate, steps)], delta, accountant) <= target

    enough = 1.0
    while not fits(enough):
        enough *= 2
    low = enough / 2
    while low > _FLOOR and fits(low):
        low, enough = low / 2, low
    while enough - low > 1e-3 * enough:
        middle = (low + enough) / 2
        low, enough = (low, middle) if fits(middle) else (middle, enough)
    return enough


def _by_renyi(phases: Sequence[Phase], delta: float) -> float:
    spent: NDArray[np.float64] = np.zeros(len(ORDERS))
    for phase in phases:
        spent += phase.steps * sampled_gaussian_renyi(phase.sample_rate, phase.noise_multiplier, ORDERS)
    return epsilon_of_renyi(spent, ORDERS, delta)


def _by_privacy_loss(phases: Sequence[Phase], delta: float) -> float:
    try:
        accounting = import_module("dp_accounting")
        accountant = import_module("dp_accounting.pld").PLDAccountant()
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the accountant 'pld' expects the package dp-accounting, which is not installed; "
            "pip install mindscope[privacy], or take accountant='rdp'"
        ) from error
    for phase in phases:
        event = accounting.GaussianDpEvent(phase.noise_multiplier)
        if phase.sample_rate < 1:
            event = accounting.PoissonSampledDpEvent(phase.sample_rate, event)
        accountant.compose(event, phase.steps)
    return float(accountant.get_epsilon(delta))
