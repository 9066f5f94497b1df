"""Whether to believe a robust accuracy: indicators of hidden gradients, and plain PGD to compare with.

Reference:
    Athalye, Carlini and Wagner 2018, arXiv:1802.00420, section 3.1; Carlini et al. 2019, arXiv:1902.06705, section 5.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...storage.evaluation_verdict import Symptom
from ..array_api import Array, Floats, as_float64, flat, is_class, like_array, namespace, take, to_numpy
from ..attacks import PGD
from ..contract.attack import ATTACKS, Pending, SweepOptions
from ..contract.checked_samples import Samples, check_samples
from ..distances import Norm, distance_named
from ..model import WrappedModel
from ..problem import Criterion, Problem
from ..problem.objective import cross_entropy
from .answer_signs import answer_signs
from .expectation import seeded

# All thresholds are our choice; benchmarks/armour.py has the models that exceed them and those that do not.
SIGN_SAMPLES: Final = 128
_ZERO_SHARE: Final = 0.05
_LEFT: Final = 0.05  # of samples that resist an attack free to change everything
_FLAT: Final = 0.1  # of samples whose loss does not rise along an attack
_BLACK_BOX: Final = 0.01  # of samples that only an attack without gradients defeats
_COMPARED: Final = 64  # samples whose gradients are compared with differences
_DIRECTIONS: Final = 8  # in which they are compared
_REACH: Final = 0.1  # of the box, at most, by which elements move for it
_AGREEMENT: Final = 0.7  # between what gradients say of these steps and what happens: 0.94 or more of honest networks

_WITHOUT_GRADIENTS: Final = 'run attacks=["square", "hop-skip-jump"], which need no gradient'


def symptoms(
    model: WrappedModel,
    samples: Samples,
    norm: Norm,
    budget: float,
    sweep: SweepOptions,
    *,
    is_averaged: bool,
    differing: float | None = None,
) -> Iterator[Symptom]:
    """Yield the indicators of masking that a few of the samples show.

    Args:
        budget: The largest of the evaluation.
        is_averaged: The model is the expectation of a random one.
        differing: How far answers to the same inputs differ, where that is known.
    """
    rows = np.flatnonzero(~samples.solved)[:SIGN_SAMPLES]
    if not len(rows):
        return
    x, criterion = take(samples.x, rows), samples.criterion.take(rows)
    found = list(answer_signs(model, x, is_averaged=is_averaged, differing=differing))
    yield from found
    yield from _zero_gradient(model, x, criterion)
    is_random = is_averaged or any(symptom.name == "randomness" for symptom in found)
    if not is_random and model.features is None:  # with rules for features, random steps are not legal
        few = rows[:_COMPARED]
        yield from _mismatch(model, take(samples.x, few), samples.criterion.take(few), norm, budget, sweep.seed)
    yield from _climbing(model, samples, norm, budget, rows, sweep)


def model_signs(model: WrappedModel, x: Array, y: ArrayLike, norm: Norm, *, seed: int = 0) -> tuple[Symptom, ...]:
    """Return the signs that gradients are hidden, for numbers that rest on gradients without an attack, as CLEVER.

    Args:
        x: `(n, ...)` inputs within the model's bounds.
        y: `(n,)` their classes.

    Raises:
        InvalidInput, InvalidModel: They do not fit each other.
    """
    sweep = SweepOptions(seed)
    with model.evaluating(), seeded(seed):
        samples = check_samples(model, x, y, targets=None, margin=0.0, batch_size=sweep.batch_size)
        return tuple(symptoms(model, samples, norm, 0.0, sweep, is_averaged=False))


def _zero_gradient(model: WrappedModel, x: Array, criterion: Criterion) -> Iterator[Symptom]:
    """Check the gradients of the outputs that decide, two logits: where one is lost, searches see half of the way."""

    def of_deciding(outputs: Array) -> list[Array]:
        logits = criterion.class_logits(outputs)
        own, rival = _sides(logits, criterion)
        deciding = [rival] if model.task is not None else [own, rival]  # what a task keeps has the constant logit 0
        return [criterion.pull(outputs, _one_hot(logits, side)) for side in deciding]

    _, gradients = model.pullbacks(x, of_deciding)
    lengths = [_numbers(namespace(x).max(flat(namespace(x).abs(gradient)), axis=1)) for gradient in gradients]
    zero = float(np.mean(~(np.min(lengths, axis=0) > 0)))
    if zero > _ZERO_SHARE:
        yield Symptom(
            "zero-gradient",
            zero,
            "inputs have no gradient to one of the outputs that decide; look for rounding, a step function or a "
            f"saturated sigmoid in the model and leave it out, or {_WITHOUT_GRADIENTS}",
        )


def _sides(logits: Array, criterion: Criterion) -> tuple[Array, Array]:
    """Return `(n,)` classes: the anchor's, and the best of the others."""
    xp = namespace(logits)
    others = xp.where(is_class(logits, criterion.anchor), -xp.inf, logits)
    return criterion.anchor, xp.argmax(others, axis=1)


def _one_hot(logits: Array, classes: Array) -> Array:
    return namespace(logits).astype(is_class(logits, classes), logits.dtype)


def _mismatch(
    model: WrappedModel, x: Array, criterion: Criterion, norm: Norm, budget: float, seed: int
) -> Iterator[Symptom]:
    """Compare what gradients predict of random steps, about as long as the budget, with what the steps do."""
    xp, (low, high) = namespace(x), model.bounds
    reach = min(2 * budget if norm == "linf" and budget > 0 else np.inf, _REACH * (high - low))
    generator = np.random.default_rng((seed, 71))
    directions: list[Array] = []

    def lead(outputs: Array) -> Array:
        logits = criterion.class_logits(outputs)
        own, rival = _sides(logits, criterion)
        directions.append(criterion.pull(outputs, _one_hot(logits, rival) - _one_hot(logits, own)))
        return directions[0]

    _, gradient = model.pullback(x, lead)
    predicted, happened = np.zeros((2, len(x), _DIRECTIONS))
    for number in range(_DIRECTIONS):
        step = like_array(generator.uniform(-reach, reach, tuple(x.shape)), x)
        ahead, behind = xp.clip(x + step, low, high), xp.clip(x - step, low, high)
        with np.errstate(all="ignore"):
            change = as_float64(model.logits(ahead)) - as_float64(model.logits(behind))
            predicted[:, number] = _numbers(xp.sum(flat(as_float64(gradient) * as_float64(ahead - behind)), axis=1))
            happened[:, number] = _numbers(xp.sum(flat(change * as_float64(directions[0])), axis=1))
    agreement = float(np.quantile(_agreements(predicted, happened), 0.25))
    if agreement < _AGREEMENT:
        yield Symptom(
            "gradient-mismatch",
            agreement,
            "gradients do not predict what small steps do to the outputs (1 would be full agreement); look for custom, "
            f"detached or jumping gradients and attack the model without them, or {_WITHOUT_GRADIENTS}",
        )


def _agreements(first: Floats, second: Floats) -> Floats:
    """Return `(n,)` cosines between rows, less where one is longer; 0 where one has no length or is not finite."""
    with np.errstate(all="ignore"):
        squares = np.sum(first**2, axis=1) + np.sum(second**2, axis=1)
        agreements = 2 * np.sum(first * second, axis=1) / squares
    return np.asarray(np.nan_to_num(agreements, nan=0.0, posinf=0.0, neginf=0.0), np.float64)


def _climbing(
    model: WrappedModel, samples: Samples, norm: Norm, budget: float, rows: NDArray[np.int64], sweep: SweepOptions
) -> Iterator[Symptom]:
    """Check what 20 steps along the gradient reach, within the budget and without one."""
    attack, distance = PGD(norm=norm, steps=20, sharpened=False), distance_named(norm)
    x, criterion = take(samples.x, rows), samples.criterion.take(rows)
    everything = np.full(len(rows), float(_diameter(model, norm, x)))
    problem = Problem(model, x, criterion, distance, epsilon=everything, samples=rows, key=(sweep.seed,))
    with np.errstate(all="ignore"):
        candidates = problem.clip(attack.search(problem))
        left = float(np.mean(~problem.is_adversarial(candidates, problem.rows)))
        if left > _LEFT and model.task is None:  # no input may bring a number beyond its tolerance
            yield Symptom(
                "unbounded-attack",
                left,
                "an attack without a budget fails, so the gradients mislead it; run suite standard, and "
                + _WITHOUT_GRADIENTS.removeprefix("run "),
            )
        if budget <= 0:
            return
        bounded = problem.within(np.full(len(rows), budget))
        ends = bounded.clip(attack.search(bounded))
        before, after = (_loss(model, at, criterion) for at in (x, ends))
    still = float(np.mean(~(after > before)))
    if still > _FLAT:
        yield Symptom(
            "flat-loss",
            still,
            f"the loss does not grow along the attack, so the gradients mislead it; {_WITHOUT_GRADIENTS}",
        )


def _loss(model: WrappedModel, x: Array, criterion: Criterion) -> Floats:
    return _numbers(cross_entropy(criterion.class_logits(model.logits(x)), criterion.of_classes)[0])


def black_box(by_gradients: NDArray[np.bool_], without: NDArray[np.bool_]) -> Iterator[Symptom]:
    """Yield an indicator if attacks without gradients beat those with gradients.

    Args:
        by_gradients: `(n,)` which samples attacks with gradients defeat at the largest budget.
        without: The same of those without.
    """
    share = float(np.mean(without & ~by_gradients))
    if share > _BLACK_BOX:
        yield Symptom(
            "black-box-stronger",
            share,
            "attacks without gradients find what those with gradients miss; run Square(queries=20000), and look for "
            "what hides the gradients",
        )


def _diameter(model: WrappedModel, norm: Norm, x: Array) -> float:
    size, (low, high) = int(np.prod(x.shape[1:])), model.bounds
    return float((high - low) * {"linf": 1.0, "l2": size**0.5, "l1": size, "l0": size / (high - low)}[norm])


def _numbers(values: Array) -> Floats:
    return np.asarray(to_numpy(values), np.float64)


def plain_accuracy(
    model: WrappedModel,
    samples: Samples,
    norm: Norm,
    budgets: tuple[float, ...],
    sweep: SweepOptions,
    standing: Pending,
) -> dict[float, float]:
    """Return the accuracy by budget under plain PGD; empty in a norm that PGD does not know.

    Args:
        standing: Returns which samples withstand every attack of the evaluation at a budget; they count as withstanding
            PGD, too, without a search.

    Reference:
        Madry et al. 2018, arXiv:1706.06083: a random start and steps of 2.5 / 40 of the budget.
    """
    if norm not in ATTACKS[PGD.name].norms:
        return {}
    attack = PGD(norm=norm, steps=40, step_size=2.5 / 40, random_start=True, sharpened=False)
    attempts = attack.attempts(model, samples, budgets, sweep, lambda budget: ~(standing(budget) | samples.solved))
    return {
        budget: float((~(attempt.success | samples.solved)).mean())
        for budget, attempt in zip(budgets, attempts, strict=True)
    }
