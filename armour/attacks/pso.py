"""PSO: a swarm of candidates drawn to the best place that each, and all together, have seen."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import Array, copy, from_numpy, namespace
from ..arrays.rows import per_sample
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..problem import Problem
from ..search.scores import scores

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

    The swarm is the textbook's, without the paper's division of the picture into blocks. It costs `particles` queries
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
        """The first adversarial particle of each sample, else the best place that its swarm has seen."""
        return _Swarm(problem, self.particles).searched(self.steps)


class _Swarm:
    """All particles of all samples that are not done yet; each list below has an item for each particle."""

    def __init__(self, problem: Problem, particles: int) -> None:
        self._problem = problem
        self._rows = problem.rows
        self._found = copy(problem.x)
        self._places = [problem.random_start(number, self._rows) for number in range(particles)]
        # from one random point of the budget towards another, so that the first moves cross it
        self._moves = [problem.random_start(particles + at, self._rows) - self._places[at] for at in range(particles)]
        self._best = list(self._places)
        self._values = np.full((particles, len(self._rows)), -np.inf)

    def searched(self, steps: int) -> Array:
        for step in range(steps + 1):
            if step:
                self._move(step)
            self._look()
            if not len(self._rows):
                break
        return self._found

    def _look(self) -> None:
        """Asks for the value of each particle, remembers the best places, and lets go of samples that are done."""
        done = np.zeros(len(self._rows), np.bool_)
        for at, place in enumerate(self._places):
            value, met = scores(self._problem, place, self._rows)
            first = np.flatnonzero(met & ~done)
            self._found[self._rows[first]] = place[first]
            done |= met
            better = value > self._values[at]
            self._values[at] = np.where(better, value, self._values[at])
            self._best[at] = _chosen(better, place, self._best[at])
        leader = self._leader()
        open_ = np.flatnonzero(~done)
        self._found[self._rows[open_]] = leader[open_]
        self._rows, self._values = self._rows[open_], self._values[:, open_]
        for particles in (self._places, self._moves, self._best):
            particles[:] = [each[open_] for each in particles]

    def _move(self, step: int) -> None:
        leader, shape = self._leader(), tuple(self._problem.x.shape[1:])
        for at, (place, move, best) in enumerate(zip(self._places, self._moves, self._best, strict=True)):
            drawn = self._problem.native(self._problem.uniform(self._rows, (2, *shape), step, at))
            pulled = _INERTIA * move + _PULL * (drawn[:, 0] * (best - place) + drawn[:, 1] * (leader - place))
            self._places[at] = self._problem.project(place + pulled, self._rows)
            self._moves[at] = self._places[at] - place  # what the budget's edge has left of the move

    def _leader(self) -> Array:
        """The best place that the swarm of each sample has seen."""
        first = self._values.argmax(axis=0)
        leader = self._best[0]
        for at in range(1, len(self._best)):
            leader = _chosen(first == at, self._best[at], leader)
        return leader


def _chosen(where: np.ndarray, one: Array, other: Array) -> Array:
    """Whole samples of `one` where `(n,)` bool says so, else of `other`."""
    return namespace(one).where(per_sample(from_numpy(where, one), one), one, other)
