"""The attack that every paper's search plugs into: it validates, clips, judges and sweeps budgets; authors only search.

To add one: a frozen dataclass in `attacks/`, derived from `Attack`, with a `search`, the `@attack` decorator, and a
line in `attacks/__init__.py`. Whatever the search returns is moved into the budget, predicted again and measured again
here, so no search can report more than it reached.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...storage import Json
from ..arrays import Array, Rows, copy, to_numpy
from ..arrays.rows import all_finite, take
from ..distances import Norm, distance_named
from ..errors import InvalidInput, InvalidSearch
from ..model import Model
from ..problem import Gallery, Objective, Problem
from ..search.halving import smallest_budgets
from .result import AttackResult, Attempt, stacked
from .samples import Samples, check_epsilons, check_samples
from .spread import spread

#: Told after each batch how many of how many batches are done.
Progress = Callable[[int, int], None]
#: Which samples are to be attacked at a budget, asked when its turn comes.
Standing = Callable[[float], NDArray[np.bool_]]


class Sweep(NamedTuple):
    """How a search is carried out.

    Args:
        seed: The same seed gives the same result, whatever the batch size.
        batch_size: Samples that are searched for together.
        progress: Told after each batch.
        jobs: Processes over which batches are spread.
    """

    seed: int = 0
    batch_size: int = 256
    progress: Progress | None = None
    jobs: int = 1


@dataclass(frozen=True)
class Attack(ABC):
    """A perturbation search; options are fields.

    Args:
        norm: What distances and budgets are measured in.
    """

    name: ClassVar[str] = ""
    #: True for searches of the nearest example, which know no budget and are carried out once for all of them.
    finds_minimum: ClassVar[bool] = False

    norm: Norm = "linf"

    def __post_init__(self) -> None:
        distance_named(self.norm)

    @abstractmethod
    def search(self, problem: Problem) -> Array:
        """One candidate for every sample of the batch, shaped as `problem.x`; failures are candidates, too."""

    def opening(self) -> Objective | None:
        """What the search climbs first at the inputs themselves, all at once, if it always begins so.

        Its gradient then comes with the clean logits, which are needed anyway: one pass less.
        """
        return None

    def options(self) -> dict[str, Json]:
        """The attack's fields, for the record."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __call__(
        self,
        model: Model,
        x: Array,
        y: ArrayLike,
        *,
        epsilons: float | Iterable[float] | None,
        targets: ArrayLike | None = None,
        margin: float = 0.0,
        seed: int = 0,
        batch_size: int = 256,
        progress: Progress | None = None,
    ) -> AttackResult:
        """Adversarial examples at every budget, clipped, judged and measured.

        Args:
            model: Made by `wrap`.
            x: `(n, ...)` inputs within the model's bounds.
            y: `(n,)` integer labels.
            epsilons: Budgets in the attack's norm, 0 or more. None asks for the nearest examples: an attack that
                searches within budgets then halves each sample's own budget for as long as it succeeds.
            targets: `(n,)` classes to reach; None asks for any other class than the label.
            margin: By how much the winning logit must lead, for confident adversarial examples.
            seed: The same seed gives the same result, whatever the batch size asks of random starts.

        Raises:
            InvalidInput, InvalidModel: Before anything is attacked.
        """
        check_seed(seed)
        budgets = (math.inf,) if epsilons is None else check_epsilons(epsilons)
        with model.evaluating():
            samples = check_samples(
                model, x, y, targets=targets, margin=margin, batch_size=batch_size, opening=self.opening()
            )
            sweep = Sweep(seed, batch_size, progress)
            attempts = list(self.attempts(model, samples, budgets, sweep))
        return stacked(budgets, attempts, samples.solved)

    def attempts(
        self,
        model: Model,
        samples: Samples,
        budgets: tuple[float, ...],
        sweep: Sweep,
        standing: Standing | None = None,
    ) -> Iterator[Attempt]:
        """What each budget yields for samples that were checked already; `__call__` and `evaluate` sweep with it.

        Args:
            standing: Which samples are to be attacked; None for all that are not solved.
        """
        todo = standing if standing is not None else lambda _: ~samples.solved
        if not self.finds_minimum:
            for number, budget in enumerate(budgets):
                told = _shifted(sweep.progress, number, len(budgets))
                yield self._attempt(model, samples, budget, np.flatnonzero(todo(budget)), sweep, told)
            return
        open_rows = np.flatnonzero(_any(samples, [todo(budget) for budget in budgets if budget > 0]))
        whole = self._attempt(model, samples, math.inf, open_rows, sweep, sweep.progress)
        for budget in budgets:
            yield whole if budget == math.inf else _cut(self, model, samples, whole, budget, sweep)

    def _attempt(
        self, model: Model, samples: Samples, epsilon: float, open_rows: Rows, sweep: Sweep, told: Progress | None
    ) -> Attempt:
        count = len(samples.x)
        raw, clipped = copy(samples.x), copy(samples.x)
        distances, success = np.zeros(count), np.zeros(count, np.bool_)
        queries, gradient_calls = np.zeros(count, np.int64), np.zeros(count, np.int64)
        starts = range(0, len(open_rows), sweep.batch_size) if epsilon > 0 else range(0)
        batches = [open_rows[start : start + sweep.batch_size] for start in starts]
        work = partial(self._batch, model, samples, epsilon, sweep.seed)
        for number, (rows, found) in enumerate(zip(batches, spread(work, batches, sweep.jobs), strict=True)):
            raw[rows], clipped[rows], distances[rows], success[rows], queries[rows], gradient_calls[rows] = found
            if told is not None:
                told(number + 1, len(batches))
        if told is not None and not batches:
            told(1, 1)
        return Attempt(raw, clipped, distances, success, queries, gradient_calls)

    def _batch(self, model: Model, samples: Samples, epsilon: float, seed: int, rows: Rows) -> tuple[Any, ...]:
        """For the rows: raw and clipped candidates, distances, success, queries and gradient calls."""
        problem = _problem(self, model, samples, rows, epsilon, seed)
        raw = self._searched(problem)
        return raw, *_judged(model, samples, rows, raw, problem), problem.queries, problem.gradient_calls

    def _searched(self, problem: Problem) -> Array:
        with np.errstate(all="ignore"):  # a model may well overflow off the data; the judge looks at what comes back
            if self.finds_minimum or np.isfinite(problem.epsilon).all():
                found = self.search(problem)
            else:
                found = smallest_budgets(self.search, problem)
        if getattr(found, "shape", None) != problem.x.shape or found.dtype != problem.x.dtype:
            shape, dtype = getattr(found, "shape", type(found).__name__), getattr(found, "dtype", "no dtype")
            raise InvalidSearch(
                f"the search of {type(self).__name__} must return candidates {tuple(problem.x.shape)} of "
                f"{problem.x.dtype}, got {shape} of {dtype}"
            )
        if not all_finite(found):
            raise InvalidSearch(
                f"the search of {type(self).__name__} must return finite candidates, got NaN or infinity"
            )
        return found


def check_seed(seed: int) -> None:
    """Raises `InvalidInput` unless the seed is an integer of 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"seed expects an integer of 0 or more, got {seed!r}")


def _any(samples: Samples, masks: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return np.any(masks, axis=0) if masks else np.zeros(len(samples.x), np.bool_)


def _problem(attack: Attack, model: Model, samples: Samples, rows: Rows, epsilon: float, seed: int) -> Problem:
    criterion, budgets = samples.criterion.take(rows), np.full(len(rows), epsilon)
    gallery = Gallery(samples.x, samples.clean_predictions)
    is_all = len(rows) == len(samples.x)
    opening = samples.opening if is_all or samples.opening is None else samples.opening.take(rows)
    x = samples.x if is_all else take(samples.x, rows)
    return Problem(model, x, criterion, distance_named(attack.norm), budgets, rows, (seed,), gallery, opening)


def _cut(attack: Attack, model: Model, samples: Samples, whole: Attempt, epsilon: float, sweep: Sweep) -> Attempt:
    """The nearest examples within a budget: those farther away are moved into it and judged again."""
    clipped = copy(whole.adversarials)
    distances, success = whole.distances.copy(), whole.success & (whole.distances <= epsilon)
    far = np.flatnonzero(~success & (whole.queries > 0))
    for start in range(0, len(far), sweep.batch_size):
        rows = far[start : start + sweep.batch_size]
        if epsilon > 0:
            problem = _problem(attack, model, samples, rows, epsilon, sweep.seed)
            clipped[rows], distances[rows], success[rows] = _judged(model, samples, rows, whole.raw[rows], problem)
        else:
            clipped[rows], distances[rows] = samples.x[rows], 0.0
    spent = epsilon > 0
    return Attempt(whole.raw, clipped, distances, success, whole.queries * spent, whole.gradient_calls * spent)


def _judged(
    model: Model, samples: Samples, rows: Rows, raw: Array, problem: Problem
) -> tuple[Array, NDArray[np.float64], NDArray[np.bool_]]:
    """Candidates moved into the budget, their distances and whether they meet the criterion, none taken on trust."""
    clipped = problem.clip(raw)
    with np.errstate(all="ignore"):
        met = samples.criterion.take(rows).met(model.logits(clipped))
    return clipped, problem.distance.measure(problem.x, clipped), np.asarray(to_numpy(met), np.bool_)


def _shifted(progress: Progress | None, number: int, budgets: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, batches: progress(number * batches + done, budgets * batches)
