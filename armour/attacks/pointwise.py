"""Pointwise: as few changed elements as a greedy walk back to the input can reach; it asks for decisions alone."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Rows, namespace, to_numpy
from ..arrays.rows import flat, is_class
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..distances import Norm
from ..problem import Problem
from ..search.closest import Closest
from ..search.starts import find_starts
from .salt_and_pepper import peppered


@attack(
    "pointwise",
    norms=("l0",),
    reference="Schott et al. 2019, arXiv:1805.09190",
    asks="decisions",
)
@dataclass(frozen=True)
class Pointwise(Attack):
    """Starts from salt-and-pepper noise and puts back one element after the other, as long as that stays adversarial.

    A pass asks once for every element that still differs, in random order, until one has put nothing back. The start
    is walked back in several orders, and the example with the fewest changes is kept.

    Args:
        orders: Tried for each sample.
        draws: Of the noise to start from.
        tries: Draws of other noise, where neither that nor any other input of the data set is adversarial.
    """

    finds_minimum = True

    norm: Norm = "l0"
    orders: int = 10
    draws: int = 50
    tries: int = 50

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "orders", "draws", "tries")

    def search(self, problem: Problem) -> Array:
        """The adversarial example with the fewest changes of each sample; the input where no start was found."""
        closest = peppered(problem, self.draws, 8)
        rows = find_starts(problem, closest, self.tries)
        starts, is_one = closest.candidates[rows], np.ones(len(rows), np.bool_)
        for order in range(self.orders if len(rows) else 0):
            walk = Closest(problem)
            walk.offer(starts, rows, is_one)
            _walk_back(problem, walk, rows, order)
            closest.offer(walk.candidates[rows], rows, is_one)
        return closest.candidates


def _walk_back(problem: Problem, walk: Closest, rows: Rows, order: int) -> None:
    """Passes over each sample's elements until one has put nothing back."""
    number = 0
    while len(rows):
        before = walk.distances[rows]
        _put_back(problem, walk, rows, order, number)
        rows = rows[walk.distances[rows] < before]
        number += 1


def _put_back(problem: Problem, closest: Closest, rows: Rows, *key: int) -> None:
    """Each element that differs is put back for good where the example stays adversarial without it."""
    differs = to_numpy(flat(closest.candidates[rows]) != flat(problem.x[rows]))
    drawn = problem.uniform(rows, (differs.shape[1],), 1, *key)
    order, counts = np.where(differs, drawn, 2.0).argsort(axis=1), differs.sum(axis=1)
    for place in range(int(counts.max())):
        going = np.flatnonzero(counts > place)
        at = rows[going]
        here, x = flat(closest.candidates[at]), flat(problem.x[at])
        element = is_class(x, problem.native_classes(order[going, place]))
        candidates = namespace(x).where(element, x, here).reshape((len(at), *problem.x.shape[1:]))
        closest.offer(candidates, at, problem.is_adversarial(candidates, at))
