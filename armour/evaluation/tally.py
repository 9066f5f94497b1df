"""Counts, attack by attack, of the samples that are not lost at each budget, and the outcomes made of them."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import Json, Outcome
from ..array_api import to_numpy
from ..contract.attack import ATTACKS, Attack
from ..contract.attack_result import BudgetResult
from ..contract.checked_samples import Samples
from ..distances import Norm
from ..metrics.attack_quality import examples_quality
from ..model import WrappedModel
from ..model.classifier import model_logits
from ..problem import Broken
from .evaluation_report import WORST_CASE

_SHOWN: Final = 6  # examples an outcome: our choice, a row of the gallery
_ELEMENTS: Final = 49_152  # of all examples of an outcome together, about 130 kB of text: our choice


@dataclass(frozen=True, slots=True, eq=False)
class BudgetSummary:
    """An attack's result at one budget, without its inputs.

    Args:
        success: `(n,)` bool.
        distances: `(n,)` float64.
        queries, gradient_calls: `(n,)` int64.
        shown: Fields that join the outcome's details.
    """

    success: NDArray[np.bool_]
    distances: NDArray[np.float64]
    queries: NDArray[np.int64]
    gradient_calls: NDArray[np.int64]
    shown: dict[str, Json] = field(default_factory=dict)


def summarize(model: WrappedModel, samples: Samples, attempt: BudgetResult, norm: Norm) -> BudgetSummary:
    """Summarize a result: its quality in the norm, and a few of its examples where inputs are images.

    A model with a query budget is not asked for these, and of a task its scores are told instead.
    """
    shown: dict[str, Json] = {}
    if isinstance(samples.criterion, Broken):
        if model.queries is None:
            outputs = model_logits(model, attempt.adversarials)
            shown["scores"] = dict(samples.criterion.task.scores(outputs, to_numpy(samples.criterion.y)))
    elif attempt.success.any() and model.queries is None:
        x, found = to_numpy(samples.x), to_numpy(attempt.adversarials)
        quality = examples_quality(model, x, samples.labels, found, attempt.success, samples.solved)
        shown["metrics"] = dict(quality.abbreviated(norm))
        if gallery := _gallery(model, samples, attempt):
            shown["gallery"] = gallery
    return BudgetSummary(attempt.success, attempt.distances, attempt.queries, attempt.gradient_calls, shown)


def _gallery(model: WrappedModel, samples: Samples, attempt: BudgetResult) -> list[Json]:
    """Return the first successful examples: the input and the scaled change, both in 8 bits, and both classes."""
    shape = tuple(samples.x.shape[1:])
    if len(shape) < 2:
        return []
    rows = np.flatnonzero(attempt.success)[: min(_SHOWN, _ELEMENTS // int(np.prod(shape)))]
    if not len(rows):
        return []
    x, found = samples.x[rows], attempt.adversarials[rows]
    before, after = (_probabilities(to_numpy(model.logits(images))) for images in (x, found))
    low, high = model.bounds
    clean = np.asarray(to_numpy(x), np.float64)
    change = np.asarray(to_numpy(found), np.float64) - clean
    entries: list[Json] = []
    for at, row in enumerate(rows):
        scale = float(np.abs(change[at]).max())
        entries.append(
            {
                "sample": int(row),
                "label": int(samples.labels[row]),
                "clean_class": int(before[at].argmax()),
                "adversarial_class": int(after[at].argmax()),
                "clean_confidence": float(before[at].max()),
                "adversarial_confidence": float(after[at].max()),
                "distance": float(attempt.distances[row]),
                "shape": list(shape),
                "clean": _text(np.round((clean[at] - low) / (high - low) * 255).astype(np.uint8)),
                "change": _text(np.round(change[at] / (scale or 1.0) * 127).astype(np.int8)),
                "scale": scale,
            }
        )
    return entries


def _probabilities(logits: NDArray[np.generic]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    odds = np.exp(shifted)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), np.float64)


def _text(values: NDArray[np.generic]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


class Tally:
    """The samples that are lost at each budget, over all attacks so far.

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

    def undefeated(self, budget: float) -> NDArray[np.bool_]:
        """Return `(n,)` bool, True for samples that no attack has defeated within the budget so far."""
        return ~self._lost[budget]

    def add(self, attack: Attack, label: str, budget: float, found: BudgetSummary, *, cascade: bool = False) -> None:
        """Count the attack's successes at that budget; a sample lost within a budget is lost within every larger one.

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
        """Return one outcome for each budget that an attack has finished, ascending.

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
