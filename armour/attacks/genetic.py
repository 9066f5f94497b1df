"""GenAttack: a small population of candidates that breeds by fitness and mutates."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, copy, from_numpy, namespace
from ..arrays.rows import per_sample
from ..contract.attack import Attack
from ..contract.options import at_least, fraction
from ..contract.registry import attack
from ..problem import Problem
from ..problem.criterion import Criterion
from ..problem.objective import cross_entropy
from ..search.scores import scores

_PLATEAU = 100  # generations without progress after which mutations become finer: the paper's section 4.3
_DECAY, _LEAST_RATE, _LEAST_RANGE = 0.9, 0.1, 0.15  # the same section


@attack(
    "genetic",
    norms=("linf",),
    reference="Alzantot et al. 2019, arXiv:1805.11090",
    asks="logits",
)
@dataclass(frozen=True)
class Genetic(Attack):
    """The fittest candidate lives on; the others are bred from pairs chosen by fitness, and mutate.

    Fitness is the logarithm of the odds against the label, or for the target. When it has not risen for a hundred
    generations, mutations become rarer and smaller. A sample is done as soon as it succeeds.

    Args:
        generations: At most; each costs `population` queries.
        population: Candidates of each sample.
        mutation_rate: Share of the elements that mutate at first.
        mutation_range: Largest mutation at first, as a share of epsilon.
    """

    generations: int = 500
    population: int = 6
    mutation_rate: float = 0.5
    mutation_range: float = 0.4

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "generations")
        at_least(self, 2, "population")
        fraction(self, "mutation_rate", "mutation_range")

    def search(self, problem: Problem) -> Array:
        """The first adversarial candidate of each sample, else the fittest of the last generation."""
        found, rows = copy(problem.x), problem.rows
        members = [problem.random_start(number, rows) for number in range(self.population)]
        record, waited, plateaus = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(len(rows))
        for generation in range(self.generations):
            fitness, done = _judged(problem, members, rows, found)
            going = np.flatnonzero(~done)
            rows, fitness, members = rows[going], fitness[:, going], [member[going] for member in members]
            if not len(rows):
                break
            better = fitness.max(axis=0) > record[going]
            record = np.where(better, fitness.max(axis=0), record[going])
            waited = np.where(better, 0, waited[going] + 1)
            plateaus = plateaus[going] + (waited >= _PLATEAU)
            waited = np.where(waited >= _PLATEAU, 0, waited)
            members = self._bred(problem, members, fitness, rows, generation, _DECAY**plateaus)
        return found

    def _bred(
        self,
        problem: Problem,
        members: list[Array],
        fitness: NDArray[np.float64],
        rows: Rows,
        generation: int,
        fineness: NDArray[np.float64],
    ) -> list[Array]:
        """The fittest member, and children of pairs drawn by the softmax of their fitness."""
        shape = tuple(problem.x.shape[1:])
        shares = np.exp(np.nan_to_num(fitness - fitness.max(axis=0), nan=0.0, neginf=-1e3))
        shares /= shares.sum(axis=0)
        rate = np.maximum(self.mutation_rate * fineness, min(_LEAST_RATE, self.mutation_rate))
        reach = np.maximum(self.mutation_range * fineness, min(_LEAST_RANGE, self.mutation_range))
        reach = reach * problem.epsilon[rows]
        children = [_picked(members, fitness.argmax(axis=0))]
        for number in range(1, self.population):
            lots = problem.uniform(rows, (2,), generation, number)
            mother, father = (_drawn(shares, lots[:, which]) for which in (0, 1))
            at = np.arange(len(rows))
            weight = shares[mother, at] / (shares[mother, at] + shares[father, at])
            draws = problem.uniform(rows, (3, *shape), generation, number, 1)
            from_mother = from_numpy(draws[:, 0] < per_sample(weight, draws[:, 0]), problem.x)
            child = namespace(problem.x).where(from_mother, _picked(members, mother), _picked(members, father))
            mutates = draws[:, 1] < per_sample(rate, draws[:, 1])
            mutation = mutates * (2 * draws[:, 2] - 1) * per_sample(reach, draws[:, 2])
            children.append(problem.project(child + problem.native(mutation), rows))
        return children


def _judged(
    problem: Problem, members: list[Array], rows: Rows, found: Array
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """`(population, n)` fitness and `(n,)` whether a sample is done; writes what is the best so far into `found`."""
    fitness, done = np.zeros((len(members), len(rows))), np.zeros(len(rows), np.bool_)
    for number, member in enumerate(members):
        fitness[number], met = scores(problem, member, rows, _log_odds)
        fresh = np.flatnonzero(met & ~done)
        found[rows[fresh]] = member[fresh]
        done |= met
    open_ = np.flatnonzero(~done)
    found[rows[open_]] = _picked(members, fitness.argmax(axis=0))[open_]
    return fitness, done


def _log_odds(logits: Array, criterion: Criterion) -> Array:
    return cross_entropy(logits, criterion)[0]


def _drawn(shares: NDArray[np.float64], lots: NDArray[np.float64]) -> NDArray[np.int64]:
    """`(n,)` members drawn with the probabilities `(population, n)`."""
    return np.minimum(np.sum(shares.cumsum(axis=0) <= lots, axis=0, dtype=np.int64), len(shares) - 1)


def _picked(members: list[Array], which: NDArray[np.int64]) -> Array:
    """For each sample the member of that number."""
    picked = members[0]
    for number, member in enumerate(members):
        picked = namespace(member).where(per_sample(from_numpy(which == number, member), member), member, picked)
    return picked
