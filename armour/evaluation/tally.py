"""Counts, attack by attack, of the samples that are not lost at each budget, and the outcomes made of them."""

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import Json, Outcome
from ...storage.evaluation_verdict import WORST_CASE
from ..array_api import Floats, to_numpy
from ..contract.attack import ATTACKS, Attack
from ..contract.attack_result import BudgetResult
from ..contract.checked_samples import Samples
from ..distances import Norm
from ..metrics.attack_quality import examples_quality
from ..model import WrappedModel
from ..model.classifier import model_logits
from ..problem import Broken
from .expectation import ALWAYS, ErrorRates, Jury, certain, worse

_MOSTLY: Final = 0.5  # draws that get an example wrong
_SHOWN: Final = 6  # examples an outcome: our choice, a row of the gallery
_ELEMENTS: Final = 49_152  # of all examples of an outcome together, about 130 kB of text: our choice


@dataclass(frozen=True, slots=True, eq=False)
class BudgetSummary:
    """An attack's result at one budget, without its inputs.

    Args:
        success: `(n,)` bool.
        distances: `(n,)` float64.
        queries, gradient_calls: `(n,)` int64.
        chosen: `(n,)` float64, share of draws that err; 0 or 1 where nothing is random.
        judged: `(n, draws)` float64, whether fresh draws err.
        shown: Fields that join the outcome's details.
    """

    success: NDArray[np.bool_]
    distances: NDArray[np.float64]
    queries: NDArray[np.int64]
    gradient_calls: NDArray[np.int64]
    chosen: Floats
    judged: Floats
    shown: dict[str, Json] = field(default_factory=dict)


def summarize(
    model: WrappedModel, samples: Samples, attempt: BudgetResult, norm: Norm, jury: Jury | None = None
) -> BudgetSummary:
    """Summarize a result: its quality in the norm, and a few of its examples where inputs are images.

    A model with a query budget is not asked for these, and of a task its scores are told instead.

    Args:
        jury: Judges the examples of a random model: one succeeds that half of the draws get wrong.
    """
    rates = certain(attempt.success)
    if jury is not None:
        rates = jury.rates(attempt.adversarials, samples.labels)
        attempt = replace(attempt, success=(rates.chosen >= _MOSTLY) & ~samples.solved)
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
    return BudgetSummary(
        attempt.success, attempt.distances, attempt.queries, attempt.gradient_calls, *rates, shown=shown
    )


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
        jury: Of a random model; accuracies are then means over its fresh draws, with an interval.
    """

    def __init__(
        self,
        samples: Samples,
        norm: str,
        budgets: tuple[float, ...],
        details: dict[str, Json],
        jury: Jury | None = None,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._samples = samples
        self._norm = norm
        self._details = details
        self._is_random = jury is not None
        self._clean = certain(samples.solved) if jury is None else jury.clean
        self._errors = dict.fromkeys(budgets, self._clean)
        self._distances = {budget: np.full(len(samples.solved), np.inf) for budget in budgets}
        self.lost_by: dict[str, np.ndarray] = {}  # at the largest budget: with gradients, and without
        self._attacks: dict[float, list[Json]] = {budget: [] for budget in budgets}
        self._not_run: dict[float, list[str]] = {budget: [] for budget in budgets}
        self._spent = {budget: np.zeros(2) for budget in budgets}  # queries and gradient calls a sample

    def undefeated(self, budget: float) -> NDArray[np.bool_]:
        """Return `(n,)` bool, True for samples that no attack has defeated within the budget so far."""
        return self._errors[budget].chosen < ALWAYS

    def add(self, attack: Attack, label: str, budget: float, found: BudgetSummary, *, cascade: bool = False) -> None:
        """Count the attack's successes at that budget; a sample lost within a budget is lost within every larger one.

        Args:
            cascade: The attack saw only what those before it had left, and its accuracy is what they leave together.
        """
        known = ATTACKS.get(attack.name)  # an attack of the user's own counts as one with gradients
        kind = "gradients" if known is None or known.asks == "gradients" else "without"
        self.lost_by[kind] = self.lost_by.get(kind, np.zeros(len(found.success), np.bool_)) | found.success
        reached = np.where(found.success, found.distances, np.inf)
        rates = ErrorRates(found.chosen, found.judged)
        for larger in self._errors:
            if larger >= budget:
                self._errors[larger] = worse(self._errors[larger], rates)
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
        errors = self._errors[budget] if cascade else worse(self._clean, rates)
        self.outcomes.append(self._outcome(label, budget, errors, found.distances[found.success], details))
        self._attacks[budget].append(label)

    def add_not_run(self, attack: Attack, label: str, budget: float, reason: str) -> None:
        """Count an attack that did not begin at that budget: it has no accuracy, and no part in the worst case."""
        details = {**self._details, "kind": "not-run", "options": attack.options(), "reason": reason}
        self.outcomes.append(
            Outcome(label, self._norm, budget, accuracy=math.nan, samples=len(self._samples.x), details=details)
        )
        self._not_run[budget].append(label)

    @property
    def not_run(self) -> tuple[str, ...]:
        """Labels of attacks that did not begin at some budget."""
        return tuple(dict.fromkeys(label for labels in self._not_run.values() for label in labels))

    @property
    def minimum_norms(self) -> NDArray[np.float64]:
        """`(n,)` distance of the nearest example of any attack and budget: 0 where wrong from the start, else inf."""
        nearest = np.min(list(self._distances.values()), axis=0)
        return np.asarray(np.where(self._samples.solved, 0.0, nearest), np.float64)

    def worst_case(self, details: Callable[[float], dict[str, Json]] = lambda _: {}) -> list[Outcome]:
        """Return one outcome for each budget at which an attack has run, ascending.

        Args:
            details: What else is known of a budget.
        """
        return [
            self._outcome(
                WORST_CASE,
                budget,
                errors,
                self._distances[budget][np.isfinite(self._distances[budget])],
                self._details | self._all_attacks(budget) | details(budget),
            )
            for budget, errors in self._errors.items()
            if self._attacks[budget]
        ]

    def _all_attacks(self, budget: float) -> dict[str, Json]:
        queries, gradient_calls = (float(spent) for spent in self._spent[budget])
        return {
            "kind": "worst-case",
            "attacks": list(self._attacks[budget]),
            **({"not_run": list[Json](self._not_run[budget])} if self._not_run[budget] else {}),
            "queries": queries,
            "gradient_calls": gradient_calls,
            "median_minimum_norm": float(np.median(self.minimum_norms)),
        }

    def _outcome(
        self, attack: str, epsilon: float, errors: ErrorRates, distances: np.ndarray, details: dict[str, Json]
    ) -> Outcome:
        if self._is_random:
            details = details | {"draws": errors.judged.shape[1], "interval": list(errors.interval())}
        return Outcome(
            attack=attack,
            norm=self._norm,
            epsilon=epsilon,
            accuracy=float(np.mean(1.0 - errors.judged)),
            samples=len(errors.judged),
            median_distance=float(np.median(distances)) if len(distances) else float("nan"),
            details=details,
        )


def _mean(counts: np.ndarray) -> float:
    return float(np.mean(counts)) if len(counts) else 0.0
