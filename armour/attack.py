"""The attack that every paper's search plugs into: it validates, clips, judges and sweeps budgets; authors only search.

To add one: a frozen dataclass in `attacks/`, derived from `Attack`, with a `search`, the `@attack` decorator, and a
line in `attacks/__init__.py`. Whatever the search returns is moved into the budget, predicted again and measured again
here, so no search can report more than it reached.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..storage import Json
from .arrays import Array, Rows, namespace, to_numpy
from .distance import Norm, distance_named
from .errors import InvalidInput, InvalidSearch
from .model import Model
from .problem import Problem
from .samples import Samples, check_epsilons, check_samples

#: Told after each batch how many of how many batches are done.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class AttackResult:
    """What an attack reached at each of K budgets for each of N samples.

    Args:
        epsilons: The K budgets.
        raw: `(K, N, ...)` what the search returned, native arrays as the model's.
        adversarials: `(K, N, ...)` the same moved into the budget and the box; the clean input where `already`.
        distances: `(K, N)` float64, measured on `adversarials`.
        success: `(K, N)` bool, predicted again on `adversarials`; False where `already`.
        already: `(N,)` bool, the clean input meets the criterion: not attacked, to be reported apart.
        queries: `(K, N)` forward passes of the search for each sample.
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
        """`(K,)` share of samples that neither met the criterion at first nor after the attack."""
        return np.asarray(np.mean(~self.success & ~self.already, axis=1), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """What an attack reached at one budget: the rows of `AttackResult` for it."""

    raw: Array
    adversarials: Array
    distances: NDArray[np.float64]
    success: NDArray[np.bool_]
    queries: NDArray[np.int64]
    gradient_calls: NDArray[np.int64]


@dataclass(frozen=True)
class Attack(ABC):
    """A perturbation search within a budget; options are fields.

    Args:
        norm: What the budget is measured in.
    """

    name: ClassVar[str] = ""

    norm: Norm = "linf"

    def __post_init__(self) -> None:
        distance_named(self.norm)

    @abstractmethod
    def search(self, problem: Problem) -> Array:
        """One candidate for every sample of the batch, shaped as `problem.x`; failures are candidates, too."""

    def options(self) -> dict[str, Json]:
        """The attack's fields, for the record."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __call__(
        self,
        model: Model,
        x: Array,
        y: ArrayLike,
        *,
        epsilons: float | Iterable[float],
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
            epsilons: Budgets in the attack's norm, 0 or more.
            targets: `(n,)` classes to reach; None asks for any other class than the label.
            margin: By how much the winning logit must lead, for confident adversarial examples.
            seed: The same seed gives the same result, whatever the batch size asks of random starts.

        Raises:
            InvalidInput, InvalidModel: Before anything is attacked.
        """
        check_seed(seed)
        budgets = check_epsilons(epsilons)
        with model.evaluating():
            samples = check_samples(model, x, y, targets=targets, margin=margin, batch_size=batch_size)
            batches = -(-int(np.sum(~samples.solved)) // batch_size)
            attempts = []
            for number, epsilon in enumerate(budgets):
                advance = None if progress is None else _shifted(progress, number * batches, len(budgets) * batches)
                attempts.append(self.attempt(model, samples, epsilon, seed, batch_size, advance))
        stack = namespace(samples.x).stack
        return AttackResult(
            epsilons=budgets,
            raw=stack([attempt.raw for attempt in attempts]),
            adversarials=stack([attempt.adversarials for attempt in attempts]),
            distances=np.stack([attempt.distances for attempt in attempts]),
            success=np.stack([attempt.success for attempt in attempts]),
            already=samples.solved,
            queries=np.stack([attempt.queries for attempt in attempts]),
            gradient_calls=np.stack([attempt.gradient_calls for attempt in attempts]),
        )

    def attempt(
        self,
        model: Model,
        samples: Samples,
        epsilon: float,
        seed: int,
        batch_size: int = 256,
        progress: Progress | None = None,
    ) -> Attempt:
        """What one budget yields for samples that were checked already; `__call__` and `evaluate` sweep with it."""
        count, open_rows = len(samples.x), np.flatnonzero(~samples.solved)
        raw, clipped = (namespace(samples.x).concatenate([samples.x]) for _ in range(2))
        distances = np.zeros(count)
        success = np.zeros(count, np.bool_)
        queries, gradient_calls = np.zeros(count, np.int64), np.zeros(count, np.int64)
        starts = range(0, len(open_rows), batch_size)
        for number, start in enumerate(starts):
            rows = open_rows[start : start + batch_size]
            if epsilon > 0:
                problem = self._problem(model, samples, rows, epsilon, seed)
                raw[rows] = self._searched(problem)
                clipped[rows], distances[rows], success[rows] = _judged(model, samples, rows, raw, problem)
                queries[rows], gradient_calls[rows] = problem.queries, problem.gradient_calls
            if progress is not None:
                progress(number + 1, len(starts))
        return Attempt(raw, clipped, distances, success, queries, gradient_calls)

    def _problem(self, model: Model, samples: Samples, rows: Rows, epsilon: float, seed: int) -> Problem:
        criterion = samples.criterion.take(rows)
        return Problem(model, samples.x[rows], criterion, distance_named(self.norm), epsilon, rows, (seed,))

    def _searched(self, problem: Problem) -> Array:
        with np.errstate(all="ignore"):  # a model may well overflow off the data; the judge looks at what comes back
            found = self.search(problem)
        if getattr(found, "shape", None) != problem.x.shape or found.dtype != problem.x.dtype:
            shape, dtype = getattr(found, "shape", type(found).__name__), getattr(found, "dtype", "no dtype")
            raise InvalidSearch(
                f"the search of {type(self).__name__} must return candidates {tuple(problem.x.shape)} of "
                f"{problem.x.dtype}, got {shape} of {dtype}"
            )
        if not namespace(found).isfinite(found).all():
            raise InvalidSearch(
                f"the search of {type(self).__name__} must return finite candidates, got NaN or infinity"
            )
        return found


def check_seed(seed: int) -> None:
    """Raises `InvalidInput` unless the seed is an integer of 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"seed expects an integer of 0 or more, got {seed!r}")


def _judged(
    model: Model, samples: Samples, rows: Rows, raw: Array, problem: Problem
) -> tuple[Array, NDArray[np.float64], NDArray[np.bool_]]:
    """Candidates moved into the budget, their distances and whether they meet the criterion, none taken on trust."""
    clipped = problem.clip(raw[rows])
    with np.errstate(all="ignore"):
        met = samples.criterion.take(rows).met(model.logits(clipped))
    return clipped, problem.distance.measure(problem.x, clipped), np.asarray(to_numpy(met), np.bool_)


def _shifted(progress: Progress, done: int, total: int) -> Progress:
    return lambda count, _: progress(done + count, total)
