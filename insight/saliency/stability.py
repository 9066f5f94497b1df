"""Whether an explanation stays the same for inputs that nobody can tell apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Stability", "stability"]


@dataclass(frozen=True, slots=True)
class Stability:
    """How far an explanation moves, relative to its own norm; 0 is perfect."""

    largest: float
    mean: float


def stability(
    explain: Callable[[NDArray[Any]], NDArray[Any]], x: NDArray[Any], *, radius: float, samples: int = 10, seed: int = 0
) -> Stability:
    """How far the explanation moves when every element of the input moves by at most `radius`.

    Args:
        explain: An input to its map; random explanations need a seed of their own, or their noise counts too.
        radius: In units of the input.

    Returns:
        NaN where the map of `x` is zero.

    Reference:
        Yeh et al. 2019, arXiv:1901.09392, definition 3.1 (maximum sensitivity), by sampling.
    """
    at = np.asarray(x, np.float64)
    here = np.asarray(explain(at), np.float64)
    rng = np.random.default_rng(seed)
    moved = [
        float(np.linalg.norm(np.asarray(explain(at + rng.uniform(-radius, radius, at.shape))) - here))
        for _ in range(samples)
    ]
    norm = float(np.linalg.norm(here)) or float("nan")
    return Stability(max(moved) / norm, float(np.mean(moved)) / norm)
