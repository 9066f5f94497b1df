"""Results of an attack, at one budget and at all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, namespace


@dataclass(frozen=True, slots=True, eq=False)
class BudgetResult:
    """An attack's result at one budget: the rows of `AttackResult` for it."""

    raw: Array
    adversarials: Array
    distances: NDArray[np.float64]
    success: NDArray[np.bool_]
    queries: NDArray[np.int64]
    gradient_calls: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AttackResult:
    """An attack's result at each of K budgets for each of N samples.

    Args:
        epsilons: The K budgets; one infinite budget for the search of the nearest examples.
        raw: `(K, N, ...)` what the search returned, native arrays as the model's.
        adversarials: `(K, N, ...)` the same moved into the budget and the box; the clean input where `already`.
        distances: `(K, N)` float64, measured on `adversarials`.
        success: `(K, N)` bool, predicted again on `adversarials`; False where `already`.
        already: `(N,)` bool, the clean input meets the criterion: not attacked, to be reported apart.
        queries: `(K, N)` forward passes of the search for each sample; an attack that finds the nearest examples
            searches once for all budgets, and the same count stands at each.
        gradient_calls: `(K, N)` backward passes of the search for each sample.
    """

    epsilons: tuple[float, ...]
    raw: Array
    adversarials: Array
    distances: NDArray[np.float64]
    success: NDArray[np.bool_]
    already: NDArray[np.bool_]
    queries: NDArray[np.int64]
    gradient_calls: NDArray[np.int64]

    @property
    def robust_accuracy(self) -> NDArray[np.float64]:
        """`(K,)` share of samples that met the criterion neither at first nor after the attack."""
        return np.asarray(np.mean(~self.success & ~self.already, axis=1), np.float64)

    @property
    def minimum_norms(self) -> NDArray[np.float64]:
        """`(N,)` distance of the nearest example found at any budget: 0 where `already`, infinite where none was."""
        nearest = np.min(np.where(self.success, self.distances, np.inf), axis=0)
        return np.asarray(np.where(self.already, 0.0, nearest), np.float64)


def stack_results(
    epsilons: tuple[float, ...], attempts: Sequence[BudgetResult], already: NDArray[np.bool_]
) -> AttackResult:
    """Stack the results at these budgets into one."""
    stack = namespace(attempts[0].raw).stack
    return AttackResult(
        epsilons=epsilons,
        raw=stack([attempt.raw for attempt in attempts]),
        adversarials=stack([attempt.adversarials for attempt in attempts]),
        distances=np.stack([attempt.distances for attempt in attempts]),
        success=np.stack([attempt.success for attempt in attempts]),
        already=already,
        queries=np.stack([attempt.queries for attempt in attempts]),
        gradient_calls=np.stack([attempt.gradient_calls for attempt in attempts]),
    )
