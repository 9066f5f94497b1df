"""Rényi divergence of the sampled Gaussian mechanism, and the epsilon that follows from it."""

import math
from functools import lru_cache
from typing import Final

import numpy as np

from ..arrays import Floats

#: Dense where the best order usually lies, sparse beyond.
ORDERS: Final[Floats] = np.array([*np.arange(1.1, 11, 0.1), *range(11, 64), 80, 96, 128, 192, 256, 512, 1024], float)

_TAIL = 12.0  # standard deviations of the Gaussian left out at both ends: 1e-32 of its mass
_CHUNK = 1 << 21  # elements of the table of orders by points that are held at once


def sampled_gaussian_renyi(sample_rate: float, noise_multiplier: float, orders: Floats) -> Floats:
    """The Rényi divergence of one step at each order, the larger of the two directions.

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
    """The smallest epsilon that any order gives at `delta`.

    Args:
        divergences: `(orders,)` summed over all steps.
        orders: `(orders,)`, each above 1.
        delta: Between 0 and 1.

    Reference:
        Canonne, Kamath, Steinke 2020, arXiv:2004.00010, proposition 12.
    """
    bounds = divergences + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return max(float(bounds.min()), 0.0)
