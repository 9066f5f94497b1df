"""Attacks that ask for logits, never for a gradient: NES, SPSA, particle swarm and GenAttack."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, copy, from_numpy, namespace, per_sample
from ..contract.attack import Attack, at_least, attack, fraction, positive
from ..problem import Problem
from ..problem.criterion import Criterion
from ..problem.objective import cross_entropy
from ..search.black_box import guessed_gradient, scores


@attack(
    "nes",
    norms=("linf", "l2"),
    reference="Ilyas et al. 2018, arXiv:1804.08598",
    asks="logits",
)
@dataclass(frozen=True)
class NES(Attack):
    """Equal steps along the gradient of a Gaussian average of the margin, estimated from pairs of queries.

    A sample is done as soon as it succeeds. A step costs `2 * pairs + 1` queries.

    Args:
        steps: Steps at most.
        pairs: Antithetic pairs of queries for one gradient; the paper's 50 queries are 25 pairs.
        sigma: Deviation of the Gaussian, as a share of the box.
        step_size: Length of a step as a share of epsilon.
    """

    steps: int = 100
    pairs: int = 25
    sigma: float = 0.001
    step_size: float = 0.2

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "pairs")
        positive(self, "sigma", "step_size")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the last one."""
        found, rows, iterates = copy(problem.x), problem.rows, problem.x
        reach = self.sigma * (problem.bounds[1] - problem.bounds[0])
        shape = tuple(problem.x.shape[1:])
        for step in range(self.steps):
            gradient = guessed_gradient(
                problem,
                iterates,
                rows,
                lambda pair, rows=rows, step=step: problem.normal(rows, shape, step, pair),  # type: ignore[misc]
                self.pairs,
                reach,
            )
            ahead = iterates + self.step_size * problem.budget(rows) * problem.distance.steepest(gradient)
            iterates = problem.project(ahead, rows)
            found[rows] = iterates
            going = np.flatnonzero(~problem.is_adversarial(iterates, rows))
            rows, iterates = rows[going], iterates[going]
            if not len(rows):
                break
        return found


_BETA1, _BETA2, _TINY = 0.9, 0.999, 1e-8  # Adam's own defaults, which the paper keeps


@attack(
    "spsa",
    norms=("linf",),
    reference="Uesato et al. 2018, arXiv:1802.05666",
    asks="logits",
)
@dataclass(frozen=True)
class SPSA(Attack):
    """Adam on the margin, with gradients estimated from simultaneous changes of all elements by random signs.

    For models with misleading gradients: it uses none of their derivatives. A sample is done as soon as it succeeds.
    A step costs `2 * pairs + 1` queries.

    Args:
        steps: Steps at most.
        pairs: Pairs of queries for one gradient; the paper takes up to 4096.
        reach: Size of the change, as a share of the box.
        learning_rate: Of Adam, as a share of the box.
    """

    steps: int = 100
    pairs: int = 64
    reach: float = 0.01
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "pairs")
        positive(self, "reach", "learning_rate")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the last one."""
        found, rows, iterates = copy(problem.x), problem.rows, problem.x
        xp, width = namespace(iterates), problem.bounds[1] - problem.bounds[0]
        mean = square = xp.zeros_like(iterates)
        for step in range(self.steps):
            gradient = self._gradient(problem, iterates, rows, step, self.reach * width)
            mean = _BETA1 * mean + (1 - _BETA1) * gradient
            square = _BETA2 * square + (1 - _BETA2) * gradient**2
            unbiased, scale = mean / (1 - _BETA1 ** (step + 1)), xp.sqrt(square / (1 - _BETA2 ** (step + 1)))
            ahead = iterates + self.learning_rate * width * unbiased / (scale + _TINY)
            iterates = problem.project(ahead, rows)
            found[rows] = iterates
            going = np.flatnonzero(~problem.is_adversarial(iterates, rows))
            rows, iterates, mean, square = rows[going], iterates[going], mean[going], square[going]
            if not len(rows):
                break
        return found

    def _gradient(self, problem: Problem, iterates: Array, rows: Rows, step: int, reach: float) -> Array:
        shape = tuple(iterates.shape[1:])

        def signs(pair: int) -> Array:
            return problem.native(np.where(problem.uniform(rows, shape, step, pair) < 0.5, -1.0, 1.0))

        return guessed_gradient(problem, iterates, rows, signs, self.pairs, reach)


#: Inertia and pull of a swarm that contracts: Clerc and Kennedy 2002, "The particle swarm", section V.
_INERTIA: Final = 0.7298
_PULL: Final = 1.49618


@attack(
    "pso",
    norms=("linf", "l2"),
    reference="Mosli et al. 2019, arXiv:1909.07490",
    asks="logits",
)
@dataclass(frozen=True)
class PSO(Attack):
    """Particle swarm optimization of the margin within the budget; a sample is done as soon as a particle succeeds.

    The swarm is the textbook's, without the paper's division of the image into blocks. It costs `particles` queries
    at the start and after each step.

    Args:
        particles: Candidates of each sample.
        steps: Moves of the swarm at most.
    """

    particles: int = 20
    steps: int = 100

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 2, "particles")
        at_least(self, 1, "steps")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial particle of each sample, else the best position that its swarm has seen."""
        return _Swarm(problem, self.particles).run(self.steps)


class _Swarm:
    """All particles of the samples that are not done; each list has one item for each particle."""

    def __init__(self, problem: Problem, particles: int) -> None:
        self._problem = problem
        self._rows = problem.rows
        self._found = copy(problem.x)
        self._positions = [problem.random_start(number, self._rows) for number in range(particles)]
        # from one random point of the budget to another: the first moves cross the budget
        self._moves = [
            problem.random_start(particles + at, self._rows) - self._positions[at] for at in range(particles)
        ]
        self._best = list(self._positions)
        self._values = np.full((particles, len(self._rows)), -np.inf)

    def run(self, steps: int) -> Array:
        for step in range(steps + 1):
            if step:
                self._move(step)
            self._look()
            if not len(self._rows):
                break
        return self._found

    def _look(self) -> None:
        """Query the value of each particle, update the best positions, and drop samples that are done."""
        done = np.zeros(len(self._rows), np.bool_)
        for at, position in enumerate(self._positions):
            value, met = scores(self._problem, position, self._rows)
            first = np.flatnonzero(met & ~done)
            self._found[self._rows[first]] = position[first]
            done |= met
            better = value > self._values[at]
            self._values[at] = np.where(better, value, self._values[at])
            self._best[at] = _select(better, position, self._best[at])
        leader = self._leader()
        open_ = np.flatnonzero(~done)
        self._found[self._rows[open_]] = leader[open_]
        self._rows, self._values = self._rows[open_], self._values[:, open_]
        for particles in (self._positions, self._moves, self._best):
            particles[:] = [each[open_] for each in particles]

    def _move(self, step: int) -> None:
        leader, shape = self._leader(), tuple(self._problem.x.shape[1:])
        for at, (position, move, best) in enumerate(zip(self._positions, self._moves, self._best, strict=True)):
            drawn = self._problem.native(self._problem.uniform(self._rows, (2, *shape), step, at))
            pulled = _INERTIA * move + _PULL * (drawn[:, 0] * (best - position) + drawn[:, 1] * (leader - position))
            self._positions[at] = self._problem.project(position + pulled, self._rows)
            self._moves[at] = self._positions[at] - position  # the move, cut by the budget

    def _leader(self) -> Array:
        """Return the best position that the swarm of each sample has seen."""
        first = self._values.argmax(axis=0)
        leader = self._best[0]
        for at in range(1, len(self._best)):
            leader = _select(first == at, self._best[at], leader)
        return leader


def _select(where: np.ndarray, first: Array, second: Array) -> Array:
    """Return whole samples of `first` where the `(n,)` mask is True, else of `second`."""
    return namespace(first).where(per_sample(from_numpy(where, first), first), first, second)


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
    """The fittest candidate survives; the others are bred from pairs chosen by fitness, and mutate.

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
        """Return the first adversarial candidate of each sample, else the fittest of the last generation."""
        found, rows = copy(problem.x), problem.rows
        members = [problem.random_start(number, rows) for number in range(self.population)]
        record, waited, plateaus = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros(len(rows))
        for generation in range(self.generations):
            fitness, done = _score_members(problem, members, rows, found)
            going = np.flatnonzero(~done)
            rows, fitness, members = rows[going], fitness[:, going], [member[going] for member in members]
            if not len(rows):
                break
            better = fitness.max(axis=0) > record[going]
            record = np.where(better, fitness.max(axis=0), record[going])
            waited = np.where(better, 0, waited[going] + 1)
            plateaus = plateaus[going] + (waited >= _PLATEAU)
            waited = np.where(waited >= _PLATEAU, 0, waited)
            members = self._breed(problem, members, fitness, rows, generation, _DECAY**plateaus)
        return found

    def _breed(
        self,
        problem: Problem,
        members: list[Array],
        fitness: NDArray[np.float64],
        rows: Rows,
        generation: int,
        fineness: NDArray[np.float64],
    ) -> list[Array]:
        """Return the fittest member, and children of pairs drawn by the softmax of their fitness."""
        shape = tuple(problem.x.shape[1:])
        shares = np.exp(np.nan_to_num(fitness - fitness.max(axis=0), nan=0.0, neginf=-1e3))
        shares /= shares.sum(axis=0)
        rate = np.maximum(self.mutation_rate * fineness, min(_LEAST_RATE, self.mutation_rate))
        reach = np.maximum(self.mutation_range * fineness, min(_LEAST_RANGE, self.mutation_range))
        reach = reach * problem.epsilon[rows]
        children = [_pick_members(members, fitness.argmax(axis=0))]
        for number in range(1, self.population):
            draws_of_parents = problem.uniform(rows, (2,), generation, number)
            mother, father = (_draw_members(shares, draws_of_parents[:, which]) for which in (0, 1))
            at = np.arange(len(rows))
            weight = shares[mother, at] / (shares[mother, at] + shares[father, at])
            draws = problem.uniform(rows, (3, *shape), generation, number, 1)
            from_mother = from_numpy(draws[:, 0] < per_sample(weight, draws[:, 0]), problem.x)
            child = namespace(problem.x).where(
                from_mother, _pick_members(members, mother), _pick_members(members, father)
            )
            mutates = draws[:, 1] < per_sample(rate, draws[:, 1])
            mutation = mutates * (2 * draws[:, 2] - 1) * per_sample(reach, draws[:, 2])
            children.append(problem.project(child + problem.native(mutation), rows))
        return children


def _score_members(
    problem: Problem, members: list[Array], rows: Rows, found: Array
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return `(population, n)` fitness and `(n,)` bool for done samples; write the best so far into `found`."""
    fitness, done = np.zeros((len(members), len(rows))), np.zeros(len(rows), np.bool_)
    for number, member in enumerate(members):
        fitness[number], met = scores(problem, member, rows, _log_odds)
        fresh = np.flatnonzero(met & ~done)
        found[rows[fresh]] = member[fresh]
        done |= met
    open_ = np.flatnonzero(~done)
    found[rows[open_]] = _pick_members(members, fitness.argmax(axis=0))[open_]
    return fitness, done


def _log_odds(logits: Array, criterion: Criterion) -> Array:
    return cross_entropy(logits, criterion)[0]


def _draw_members(shares: NDArray[np.float64], draws_of_parents: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw `(n,)` members with the probabilities `(population, n)`."""
    return np.minimum(np.sum(shares.cumsum(axis=0) <= draws_of_parents, axis=0, dtype=np.int64), len(shares) - 1)


def _pick_members(members: list[Array], which: NDArray[np.int64]) -> Array:
    """Return for each sample the member of that number."""
    picked = members[0]
    for number, member in enumerate(members):
        picked = namespace(member).where(per_sample(from_numpy(which == number, member), member), member, picked)
    return picked
