"""Whether to believe a robust accuracy: indicators of hidden gradients, and plain PGD to compare with.

Reference:
    Athalye, Carlini and Wagner 2018, arXiv:1802.00420, section 3.1; Carlini et al. 2019, arXiv:1902.06705, section 5.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, flat, namespace, to_numpy
from ..attacks import PGD
from ..contract.attack import ATTACKS, SweepOptions
from ..contract.checked_samples import Samples
from ..distances import Norm, distance_named
from ..model import WrappedModel
from ..problem import Problem
from ..problem.objective import cross_entropy, margin

# All thresholds are our choice: in the tests masked models exceed them and a clean model does not.
_SAMPLES: Final = 128  # samples
_ZERO_SHARE: Final = 0.05
_GAP: Final = 50.0  # between the two largest logits, in the median: float32 loses 1 - p from a gap of 17 on
_RANDOM: Final = 1e-4  # of the spread of the logits
_LEFT: Final = 0.05  # of samples that resist an attack free to change everything
_FLAT: Final = 0.1  # of samples whose loss does not rise along an attack
_BLACK_BOX: Final = 0.01  # of samples that only an attack without gradients defeats


@dataclass(frozen=True, slots=True)
class Symptom:
    """One indicator that a robust accuracy is too good to be true.

    Args:
        name: `zero-gradient`, `logit-scale`, `randomness`, `training-mode`, `unbounded-attack`, `flat-loss` or
            `black-box-stronger`.
        value: What was measured.
        explanation: What it means and what to do.
    """

    name: str
    value: float
    explanation: str


def symptoms(
    model: WrappedModel, samples: Samples, norm: Norm, budget: float, sweep: SweepOptions
) -> Iterator[Symptom]:
    """Yield the indicators of masking that a few of the samples show.

    Args:
        budget: The largest of the evaluation.
    """
    rows = np.flatnonzero(~samples.solved)[:_SAMPLES]
    if not len(rows):
        return
    x, criterion = samples.x[rows], samples.criterion.take(rows)
    first, second = (_numbers(model.logits(x)) for _ in range(2))
    differing = float(np.abs(first - second).max() / max(float(first.std()), 1e-30))
    if differing > _RANDOM:
        yield Symptom(
            "randomness", differing, "the same input gets different logits each time; average over the randomness"
        )
    top = np.sort(first, axis=1)
    gap = float(np.median(top[:, -1] - top[:, -2]))
    if gap > _GAP:
        yield Symptom("logit-scale", gap, "logits are so far apart that softmax saturates and its gradients vanish")
    _, gradient = model.pullback(x, lambda logits: margin(logits, criterion)[1])
    size = _numbers(namespace(x).max(flat(namespace(x).abs(gradient)), axis=1))
    zero = float(np.mean(~(size > 0)))
    if zero > _ZERO_SHARE:
        yield Symptom(
            "zero-gradient", zero, "inputs have no gradient; look for rounding or a step function in the model"
        )
    yield from _climbing(model, samples, norm, budget, rows, sweep)


def _climbing(
    model: WrappedModel, samples: Samples, norm: Norm, budget: float, rows: NDArray[np.int64], sweep: SweepOptions
) -> Iterator[Symptom]:
    """Check what 40 steps along the gradient reach, within the budget and without one."""
    attack, distance = PGD(norm=norm), distance_named(norm)
    x, criterion = samples.x[rows], samples.criterion.take(rows)
    everything = np.full(len(rows), float(_diameter(model, norm, x)))
    problem = Problem(model, x, criterion, distance, epsilon=everything, samples=rows, key=(sweep.seed,))
    with np.errstate(all="ignore"):
        candidates = problem.clip(attack.search(problem))
        left = float(np.mean(~problem.is_adversarial(candidates, problem.rows)))
        if left > _LEFT:
            yield Symptom("unbounded-attack", left, "an attack without a budget fails; the gradients mislead it")
        if budget <= 0:
            return
        bounded = problem.within(np.full(len(rows), budget))
        ends = bounded.clip(attack.search(bounded))
        before, after = (_numbers(cross_entropy(model.logits(at), criterion)[0]) for at in (x, ends))
    still = float(np.mean(~(after > before)))
    if still > _FLAT:
        yield Symptom("flat-loss", still, "the loss does not grow along the attack; the gradients mislead it")


def training_mode(model: WrappedModel) -> Iterator[Symptom]:
    """Yield an indicator for modules in training mode; call it before the model is switched to evaluation mode."""
    if count := model.training_modules():
        yield Symptom(
            "training-mode", float(count), "modules were left in training mode; call eval() before evaluating"
        )


def black_box(by_gradients: NDArray[np.bool_], without: NDArray[np.bool_]) -> Iterator[Symptom]:
    """Yield an indicator if attacks without gradients beat those with gradients.

    Args:
        by_gradients: `(n,)` which samples attacks with gradients defeat at the largest budget.
        without: The same of those without.
    """
    share = float(np.mean(without & ~by_gradients))
    if share > _BLACK_BOX:
        yield Symptom("black-box-stronger", share, "attacks without gradients find what those with gradients miss")


def _diameter(model: WrappedModel, norm: Norm, x: Array) -> float:
    size, (low, high) = int(np.prod(x.shape[1:])), model.bounds
    return float((high - low) * {"linf": 1.0, "l2": size**0.5, "l1": size, "l0": size / (high - low)}[norm])


def _numbers(values: Array) -> NDArray[np.float64]:
    return np.asarray(to_numpy(values), np.float64)


def plain_accuracy(
    model: WrappedModel, samples: Samples, norm: Norm, budgets: tuple[float, ...], sweep: SweepOptions
) -> dict[float, float]:
    """Return the accuracy by budget under plain PGD; empty in a norm that PGD does not know.

    Reference:
        Madry et al. 2018, arXiv:1706.06083: a random start and steps of 2.5 / 40 of the budget.
    """
    if norm not in ATTACKS[PGD.name].norms:
        return {}
    attack = PGD(norm=norm, steps=40, step_size=2.5 / 40, random_start=True)
    attempts = attack.attempts(model, samples, budgets, sweep)
    return {
        budget: float((~(attempt.success | samples.solved)).mean())
        for budget, attempt in zip(budgets, attempts, strict=True)
    }
