"""Counts, attack by attack, which samples still stand at which budget, and turns the counts into outcomes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...storage import Json, Outcome
from ..contract.attack import Attack
from ..contract.registry import ATTACKS
from ..contract.samples import Samples
from .reached import Reached
from .report import WORST_CASE


class Tally:
    """Which samples are lost at each budget, over all attacks so far.

    Args:
        budgets: Ascending.
        details: What repeats every measurement: seed, bounds.
    """

    def __init__(self, samples: Samples, norm: str, budgets: tuple[float, ...], details: dict[str, Json]) -> None:
        self.outcomes: list[Outcome] = []
        self._samples = samples
        self._norm = norm
        self._details = details
        self._lost = {budget: samples.solved.copy() for budget in budgets}
        self._distances = {budget: np.full(len(samples.solved), np.inf) for budget in budgets}
        self.lost_by: dict[str, np.ndarray] = {}  # at the largest budget: with gradients, and without
        self._attacks: dict[float, list[Json]] = {budget: [] for budget in budgets}
        self._spent = {budget: np.zeros(2) for budget in budgets}  # queries and gradient calls a sample

    def standing(self, budget: float) -> NDArray[np.bool_]:
        """`(n,)` bool, True for samples that nothing has defeated within the budget so far."""
        return ~self._lost[budget]

    def add(self, attack: Attack, label: str, budget: float, found: Reached, *, cascade: bool = False) -> None:
        """Counts what the attack reached at that budget; what falls within a budget falls within every larger one.

        Args:
            cascade: The attack saw only what those before it had left, and its accuracy is what they leave together.
        """
        known = ATTACKS.get(attack.name)  # an attack of the user's own counts as one with gradients
        kind = "gradients" if known is None or known.asks == "gradients" else "without"
        self.lost_by[kind] = self.lost_by.get(kind, np.zeros(len(found.success), np.bool_)) | found.success
        reached = np.where(found.success, found.distances, np.inf)
        for larger in self._lost:
            if larger >= budget:
                self._lost[larger] |= found.success
                self._distances[larger] = np.minimum(self._distances[larger], reached)
        attacked = ~self._samples.solved
        queries, gradient_calls = _mean(found.queries[attacked]), _mean(found.gradient_calls[attacked])
        self._spent[budget] += (queries, gradient_calls)
        details: dict[str, Json] = {
            **self._details,
            "kind": "attack",
            "options": attack.options(),
            "queries": queries,
            "gradient_calls": gradient_calls,
            "successes": int(found.success.sum()),
            "wrong_from_the_start": int(self._samples.solved.sum()),
            **found.shown,
        }
        lost = self._lost[budget].copy() if cascade else found.success | self._samples.solved
        self.outcomes.append(self._outcome(label, budget, lost, found.distances[found.success], details))
        self._attacks[budget].append(label)

    @property
    def minimum_norms(self) -> NDArray[np.float64]:
        """`(n,)` distance of the nearest example of any attack and budget: 0 where wrong from the start, else inf."""
        nearest = np.min(list(self._distances.values()), axis=0)
        return np.asarray(np.where(self._samples.solved, 0.0, nearest), np.float64)

    def worst_case(self, details: Callable[[float], dict[str, Json]] = lambda _: {}) -> list[Outcome]:
        """One outcome for each budget that an attack has finished, ascending.

        Args:
            details: What else is known of a budget.
        """
        return [
            self._outcome(
                WORST_CASE,
                budget,
                lost,
                self._distances[budget][np.isfinite(self._distances[budget])],
                self._details | self._all_attacks(budget) | details(budget),
            )
            for budget, lost in self._lost.items()
            if self._attacks[budget]
        ]

    def _all_attacks(self, budget: float) -> dict[str, Json]:
        queries, gradient_calls = (float(spent) for spent in self._spent[budget])
        return {
            "kind": "worst-case",
            "attacks": list(self._attacks[budget]),
            "queries": queries,
            "gradient_calls": gradient_calls,
            "median_minimum_norm": float(np.median(self.minimum_norms)),
        }

    def _outcome(
        self, attack: str, epsilon: float, lost: np.ndarray, distances: np.ndarray, details: dict[str, Json]
    ) -> Outcome:
        return Outcome(
            attack=attack,
            norm=self._norm,
            epsilon=epsilon,
            accuracy=float(np.mean(~lost)),
            samples=len(lost),
            median_distance=float(np.median(distances)) if len(distances) else float("nan"),
            details=details,
        )


def _mean(counts: np.ndarray) -> float:
    return float(np.mean(counts)) if len(counts) else 0.0
