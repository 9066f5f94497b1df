"""HopSkipJump: the boundary's normal guessed from decisions, a step along it, and back to the boundary."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, copy, namespace
from ..arrays.rows import per_sample
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..distances import Norm, distance_named
from ..problem import Problem
from ..search.closest import Closest
from ..search.starts import find_starts

_MOST_QUERIES = 10_000  # for one normal: the authors' bound
_EUCLIDEAN = distance_named("l2")  # directions have this length 1 in both norms, as in the authors' own program
_HALVINGS = 25  # of a step that leads nowhere, and at most of the way back to the boundary


@attack(
    "hop-skip-jump",
    norms=("l2", "linf"),
    reference="Chen, Jordan and Wainwright 2020, arXiv:1904.02144",
    asks="decisions",
)
@dataclass(frozen=True)
class HopSkipJump(Attack):
    """From a point on the boundary: the normal as a mean of random directions weighted by decisions, a step, a return.

    Args:
        steps: Rounds.
        queries: For the normal of the first round; in round t it is sqrt(t) times as many.
        gamma: Width of the boundary that the way back leaves; the paper's theta times d^1.5 (L2) or d^2 (Linf).
        tries: Draws of noise for a point to start from, where no other input of the data set is one.
    """

    finds_minimum = True

    norm: Norm = "l2"
    steps: int = 32
    queries: int = 100
    gamma: float = 1.0
    tries: int = 50

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "queries", "tries")
        positive(self, "gamma")

    def search(self, problem: Problem) -> Array:
        """The nearest point on the boundary of each sample; the input where no start was found."""
        closest = Closest(problem)
        rows = find_starts(problem, closest, self.tries)
        if not len(rows):
            return closest.candidates
        size = math.prod(problem.x.shape[1:])
        theta = self.gamma / (size * math.sqrt(size) if self.norm == "l2" else size * size)
        here = self._returned(problem, closest.candidates[rows], rows, theta)
        closest.offer(here, rows, np.ones(len(rows), np.bool_))
        reach = np.full(len(rows), 0.1 * (problem.bounds[1] - problem.bounds[0]))
        for step in range(1, self.steps + 1):
            count = min(int(self.queries * math.sqrt(step)), _MOST_QUERIES)
            normal = self._normal(problem, here, rows, reach, count, step)
            distances = problem.distance.measure(problem.x[rows], here)
            jumped = _jumped(problem, here, rows, problem.distance.steepest(normal), distances / math.sqrt(step))
            here = self._returned(problem, jumped, rows, theta)
            closest.offer(here, rows, np.ones(len(rows), np.bool_))
            distances = problem.distance.measure(problem.x[rows], here)
            reach = (math.sqrt(size) if self.norm == "l2" else size) * theta * distances
        return closest.candidates

    def _normal(
        self, problem: Problem, here: Array, rows: Rows, reach: NDArray[np.float64], count: int, step: int
    ) -> Array:
        """The mean of directions of length 1, weighted by the decision there less the mean decision (equation 16)."""
        xp, shape = namespace(here), tuple(here.shape[1:])
        length = per_sample(problem.native(np.maximum(reach, 1e-12)), here)
        weighted = plain = xp.zeros_like(here)
        total = np.zeros(len(rows))
        for number in range(count):
            if self.norm == "l2":
                drawn = problem.normal(rows, shape, step, number)
            else:
                drawn = problem.native(2.0 * problem.uniform(rows, shape, step, number) - 1.0)
            around = xp.clip(here + length * _EUCLIDEAN.steepest(drawn), *problem.bounds)
            direction = (around - here) / length  # what the box has left of it
            decision = np.where(problem.is_adversarial(around, rows), 1.0, -1.0)
            weighted = weighted + per_sample(problem.native(decision), here) * direction
            plain = plain + direction
            total += decision
        mean = per_sample(problem.native(np.where(np.abs(total) < count, total / count, 0.0)), here)
        return weighted - mean * plain

    def _returned(self, problem: Problem, far: Array, rows: Rows, theta: float) -> Array:
        """Adversarial points between the inputs and the adversarial `far`, the way halved until `theta` of it is left.

        In Linf the way is a cube around the input that shrinks: what is outside is cut.
        """
        x, found = problem.x[rows], copy(far)
        xp = namespace(x)
        longest = problem.distance.measure(x, far) if self.norm == "linf" else np.ones(len(rows))
        near, beyond = np.zeros(len(rows)), longest.copy()
        for _ in range(min(_HALVINGS, math.ceil(-math.log2(theta)))):
            middle = (near + beyond) / 2
            share = per_sample(problem.native(middle), x)
            between = x + share * (far - x) if self.norm == "l2" else xp.clip(far, x - share, x + share)
            met = problem.is_adversarial(between, rows)
            found[np.flatnonzero(met)] = between[np.flatnonzero(met)]
            near, beyond = np.where(met, near, middle), np.where(met, middle, beyond)
        return found


def _jumped(problem: Problem, here: Array, rows: Rows, direction: Array, length: NDArray[np.float64]) -> Array:
    """An adversarial point ahead along the direction: the length is halved until it is one; `here` if none is."""
    xp, found = namespace(here), copy(here)
    going, length = np.arange(len(rows)), length.copy()
    for _ in range(_HALVINGS):
        ahead = here[going] + per_sample(problem.native(length[going]), here) * direction[going]
        ahead = xp.clip(ahead, *problem.bounds)
        met = problem.is_adversarial(ahead, rows[going])
        found[going[met]] = ahead[np.flatnonzero(met)]
        going = going[~met]
        length = length / 2
        if not len(going):
            break
    return found
