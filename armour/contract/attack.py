"""The attack that every paper's search plugs into: it validates, clips, judges and sweeps budgets; authors only search.

To add one: a frozen dataclass in `attacks/`, derived from `Attack`, with a `search`, the `@attack` decorator, and a
line in `attacks/__init__.py`. Here every candidate of the search is moved into the budget, predicted
again and measured again, so no search can report more than it reached.
"""

import logging
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from typing import ClassVar, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...storage import Json, nearest
from ..array_api import Array, Rows, all_finite, copy, take, to_numpy
from ..distances import Norm, distance_named
from ..errors import InvalidInput, InvalidModel, InvalidSearch, QueriesExhausted, UnknownAttack
from ..model import Asks, WrappedModel
from ..problem import Gallery, Objective, Problem
from ..search.nearest_examples import smallest_budgets
from .attack_result import AttackResult, BudgetResult, stack_results
from .checked_samples import Samples, check_epsilons, check_samples, in_shares

_Found = TypeVar("_Found")
_log = logging.getLogger(__name__)


def spread(call: Callable[[Rows], _Found], batches: Sequence[Rows], jobs: int) -> Iterator[_Found]:
    """Call the function for each batch and yield the results in order; they do not depend on `jobs`.

    Args:
        call: Can be sent to another process when there is more than one job.
        jobs: Processes at once, -1 for one a core; 1 stays in this one.

    Raises:
        ModuleNotFoundError: More than one job without joblib.
    """
    if jobs == 1 or len(batches) < 2:
        return map(call, batches)
    try:
        joblib = import_module("joblib")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"jobs={jobs} expects joblib, which is not installed; pip install mindscope[cluster], or take jobs=1"
        ) from error
    found: Iterator[_Found] = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(call)(rows) for rows in batches
    )
    return found


def check_jobs(jobs: int) -> None:
    """Raise `InvalidInput` unless the number is 1 or more, or -1."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or (jobs < 1 and jobs != -1):
        raise InvalidInput(f"jobs expects 1 or more, or -1 for one a core, got {jobs!r}")


#: Called after each batch with the numbers of finished and of all batches.
Progress = Callable[[int, int], None]
#: Returns which samples to attack at a budget, when its turn comes.
Pending = Callable[[float], NDArray[np.bool_]]

#: Raw and clipped candidates, distances, success, queries and gradient calls.
_BatchResult = tuple[Array, Array, NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]


class SweepOptions(NamedTuple):
    """Options of a search over budgets.

    Args:
        seed: The same seed gives the same result, whatever the batch size.
        batch_size: Samples that are searched for together.
        progress: Called after each batch.
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
    #: True for searches of the nearest example: they take no budget and run once for all budgets.
    finds_minimum: ClassVar[bool] = False

    norm: Norm = "linf"

    def __post_init__(self) -> None:
        distance_named(self.norm)

    @abstractmethod
    def search(self, problem: Problem) -> Array:
        """Return one candidate for every sample of the batch, shaped as `problem.x`, also where the search failed."""

    def initial_objective(self) -> Objective | None:
        """Return the objective that the search climbs first at the inputs themselves, None if it begins elsewhere.

        Its gradient then comes with the clean logits, which are needed anyway: one pass less.
        """
        former = getattr(self, "opening", None)  # the name of this method in attacks written for the last release
        if former is None:
            return None
        warnings.warn(
            f"{type(self).__name__}.opening is now initial_objective; the next release ignores the old name",
            DeprecationWarning,
            stacklevel=2,
        )
        objective: Objective | None = former()
        return objective

    def options(self) -> dict[str, Json]:
        """Return the attack's fields, for the record."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __call__(
        self,
        model: WrappedModel,
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
        """Search adversarial examples at every budget, then clip, judge and measure them.

        Args:
            model: Made by `wrap`.
            x: `(n, ...)` inputs within the model's bounds.
            y: `(n,)` integer labels.
            epsilons: Budgets in the attack's norm, 0 or more; shares of the range where features have bounds.
                None asks for the nearest examples: an attack that searches within budgets then halves each sample's own
                budget for as long as it succeeds.
            targets: `(n,)` classes to reach; None asks for any other class than the label.
            margin: By how much the winning logit must lead, for confident adversarial examples.
            seed: The same seed gives the same result, whatever the batch size asks of random starts.

        Raises:
            InvalidInput, InvalidModel: Before anything is attacked.
        """
        check_seed(seed)
        budgets = (math.inf,) if epsilons is None else check_epsilons(epsilons)
        check_answers(self, model)
        model, x = in_shares(model, x)
        with model.evaluating():
            samples = check_samples(
                model,
                x,
                y,
                targets=targets,
                margin=margin,
                batch_size=batch_size,
                initial_objective=self.initial_objective(),
            )
            check_answers(self, model)  # again: labels show only as they come
            sweep = SweepOptions(seed, batch_size, progress)
            attempts = list(self.attempts(model, samples, budgets, sweep))
        return stack_results(budgets, [_as_inputs(model, attempt) for attempt in attempts], samples.solved)

    def attempts(
        self,
        model: WrappedModel,
        samples: Samples,
        budgets: tuple[float, ...],
        sweep: SweepOptions,
        pending: Pending | None = None,
    ) -> Iterator[BudgetResult]:
        """Yield the result at each budget for samples that are checked already; `__call__` and `evaluate` use it.

        Args:
            pending: Which samples to attack at a budget; None for all that are not solved.
        """
        is_pending = pending if pending is not None else lambda _: ~samples.solved
        if not self.finds_minimum:
            for number, budget in enumerate(budgets):
                report = _shifted_progress(sweep.progress, number, len(budgets))
                yield self._attempt(model, samples, budget, np.flatnonzero(is_pending(budget)), sweep, report)
            return
        open_rows = np.flatnonzero(_any_of(samples, [is_pending(budget) for budget in budgets if budget > 0]))
        nearest = self._attempt(model, samples, math.inf, open_rows, sweep, sweep.progress)
        for budget in budgets:
            yield nearest if budget == math.inf else _within_budget(self, model, samples, nearest, budget, sweep)

    def _attempt(
        self,
        model: WrappedModel,
        samples: Samples,
        epsilon: float,
        open_rows: Rows,
        sweep: SweepOptions,
        report: Progress | None,
    ) -> BudgetResult:
        count = len(samples.x)
        raw, clipped = copy(samples.x), copy(samples.x)
        distances, success = np.zeros(count), np.zeros(count, np.bool_)
        queries, gradient_calls = np.zeros(count, np.int64), np.zeros(count, np.int64)
        starts = range(0, len(open_rows), sweep.batch_size) if epsilon > 0 else range(0)
        batches = [open_rows[start : start + sweep.batch_size] for start in starts]
        work = partial(self._batch, model, samples, epsilon, sweep.seed)
        for number, (rows, found) in enumerate(zip(batches, spread(work, batches, sweep.jobs), strict=True)):
            raw[rows], clipped[rows], distances[rows], success[rows], queries[rows], gradient_calls[rows] = found
            if report is not None:
                report(number + 1, len(batches))
        if report is not None and not batches:
            report(1, 1)
        return BudgetResult(raw, clipped, distances, success, queries, gradient_calls)

    def _batch(self, model: WrappedModel, samples: Samples, epsilon: float, seed: int, rows: Rows) -> _BatchResult:
        """Return raw and clipped candidates, distances, success, queries and gradient calls for the rows."""
        problem = _problem(self, model, samples, rows, epsilon, seed)
        with model.reserving(len(rows)):  # the candidates are predicted once more
            raw = self._run_search(problem)
        return raw, *_judge(model, samples, rows, raw, problem), problem.queries, problem.gradient_calls

    def _run_search(self, problem: Problem) -> Array:
        with np.errstate(all="ignore"):  # a model may overflow far from the data; the result is checked below
            try:
                if self.finds_minimum or np.isfinite(problem.epsilon).all():
                    found = self.search(problem)
                else:
                    found = smallest_budgets(self.search, problem)
            except QueriesExhausted as error:
                _log.warning("%s ends early: %s", self.name or type(self).__name__, error)
                found = problem.nearest_seen()
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


def _as_inputs(model: WrappedModel, attempt: BudgetResult) -> BudgetResult:
    """Return the result with inputs of the model, where the search worked on positions between bounds."""
    return replace(attempt, raw=model.inputs_of(attempt.raw), adversarials=model.inputs_of(attempt.adversarials))


def check_seed(seed: int) -> None:
    """Raise `InvalidInput` unless the seed is an integer of 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"seed expects an integer of 0 or more, got {seed!r}")


def _any_of(samples: Samples, masks: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return np.any(masks, axis=0) if masks else np.zeros(len(samples.x), np.bool_)


def _problem(attack: Attack, model: WrappedModel, samples: Samples, rows: Rows, epsilon: float, seed: int) -> Problem:
    criterion, budgets = samples.criterion.take(rows), np.full(len(rows), epsilon)
    gallery = Gallery(samples.x, samples.clean_predictions)
    is_all = len(rows) == len(samples.x)
    initial_ascent = samples.initial_ascent
    if initial_ascent is not None and not is_all:
        initial_ascent = initial_ascent.take(rows)
    x = samples.x if is_all else take(samples.x, rows)
    return Problem(
        model,
        x,
        criterion,
        distance_named(attack.norm),
        epsilon=budgets,
        samples=rows,
        key=(seed,),
        gallery=gallery,
        initial_ascent=initial_ascent,
    )


def _within_budget(
    attack: Attack, model: WrappedModel, samples: Samples, nearest: BudgetResult, epsilon: float, sweep: SweepOptions
) -> BudgetResult:
    """Cut the nearest examples to a budget: those farther away are moved into it and judged again."""
    clipped = copy(nearest.adversarials)
    distances, success = nearest.distances.copy(), nearest.success & (nearest.distances <= epsilon)
    far = np.flatnonzero(~success & (nearest.queries > 0))
    for start in range(0, len(far), sweep.batch_size):
        rows = far[start : start + sweep.batch_size]
        if epsilon > 0:
            problem = _problem(attack, model, samples, rows, epsilon, sweep.seed)
            clipped[rows], distances[rows], success[rows] = _judge(model, samples, rows, nearest.raw[rows], problem)
        else:
            clipped[rows], distances[rows] = samples.x[rows], 0.0
    spent = epsilon > 0
    return BudgetResult(
        nearest.raw, clipped, distances, success, nearest.queries * spent, nearest.gradient_calls * spent
    )


def _judge(
    model: WrappedModel, samples: Samples, rows: Rows, raw: Array, problem: Problem
) -> tuple[Array, NDArray[np.float64], NDArray[np.bool_]]:
    """Move candidates into the budget; return them, their distances, and whether they meet the criterion."""
    clipped = problem.clip(raw)
    with np.errstate(all="ignore"):
        try:
            met = samples.criterion.take(rows).met(model.logits(clipped))
        except QueriesExhausted:  # what cannot be predicted again does not count
            met = np.zeros(len(rows), np.bool_)
    return clipped, problem.distance.measure(problem.x, clipped), np.asarray(to_numpy(met), np.bool_)


def _shifted_progress(progress: Progress | None, number: int, budgets: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, batches: progress(number * batches + done, budgets * batches)


@dataclass(frozen=True, slots=True)
class Entry:
    """One attack of the catalogue.

    Args:
        make: Its class; takes `norm=` and the attack's own options.
        norms: The norms that it knows.
        reference: The paper.
        asks: What it asks the model for: gradients, logits, or decisions alone.
    """

    name: str
    make: type[Attack]
    norms: tuple[Norm, ...]
    reference: str
    asks: Asks = "gradients"


ATTACKS: Final[dict[str, Entry]] = {}

_Class = TypeVar("_Class", bound=type[Attack])


def attack(
    name: str, *, norms: tuple[Norm, ...], reference: str, asks: Asks = "gradients"
) -> Callable[[_Class], _Class]:
    """Return a decorator that enters the class into `ATTACKS`; a name taken already raises `ValueError`."""

    def enter(make: _Class) -> _Class:
        if name in ATTACKS:
            raise ValueError(f"attack {name!r} is registered by {ATTACKS[name].make.__qualname__} already")
        ATTACKS[name] = Entry(name, make, norms, reference, asks)
        make.name = name
        return make

    return enter


_ANSWERS: Final[dict[Asks, str]] = {
    "gradients": "answers with gradients",
    "logits": "answers with scores and no gradients",
    "decisions": "answers with labels alone",
}
_DEPTH: Final[dict[Asks, int]] = {"decisions": 0, "logits": 1, "gradients": 2}


def asks_of(attack: Attack) -> Asks:
    """Return what the attack asks a model for; one that is not in the catalogue may ask for anything."""
    return ATTACKS[attack.name].asks if attack.name in ATTACKS else "gradients"


def check_answers(attack: Attack, model: WrappedModel) -> None:
    """Raise `InvalidModel` where the model does not answer what the attack asks it for."""
    if attack.name not in ATTACKS or _DEPTH[asks_of(attack)] <= _DEPTH[model.answers]:
        return
    fitting = sorted(
        entry.name
        for entry in ATTACKS.values()
        if _DEPTH[entry.asks] <= _DEPTH[model.answers] and attack.norm in entry.norms
    )
    raise InvalidModel(
        f"{attack.name} asks for {asks_of(attack)}, and {model.name or 'the model'} {_ANSWERS[model.answers]}; attacks "
        f"in {attack.norm} that fit: {', '.join(fitting)}"
    )


def make_attack(name: str, norm: Norm = "linf") -> Attack:
    """Return the attack of that name with its default options.

    Raises:
        UnknownAttack: There is none of that name, or it does not know the norm.
    """
    if name not in ATTACKS:
        raise UnknownAttack(f"no attack {name!r}; attacks are {', '.join(sorted(ATTACKS))}{nearest(name, ATTACKS)}")
    entry = ATTACKS[name]
    if norm not in entry.norms:
        raise UnknownAttack(f"attack {name!r} knows the norms {', '.join(entry.norms)}, got {norm!r}")
    return entry.make(norm=norm)


def at_least(attack: Attack, smallest: int, *names: str) -> None:
    """Raise `InvalidInput` unless each named option is an integer of `smallest` or more."""
    for name in names:
        value = getattr(attack, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
            raise InvalidInput(f"{type(attack).__name__} expects {name} of {smallest} or more, got {name}={value!r}")


def positive(attack: Attack, *names: str) -> None:
    """Raise `InvalidInput` unless each named option is a finite number above 0."""
    for name in names:
        value = getattr(attack, name)
        if isinstance(value, bool) or not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise InvalidInput(f"{type(attack).__name__} expects {name} above 0, got {name}={value!r}")


def fraction(attack: Attack, *names: str) -> None:
    """Raise `InvalidInput` unless each named option is a number from 0 to 1."""
    for name in names:
        value = getattr(attack, name)
        if isinstance(value, bool) or not (isinstance(value, int | float) and 0 <= value <= 1):
            raise InvalidInput(f"{type(attack).__name__} expects {name} from 0 to 1, got {name}={value!r}")
