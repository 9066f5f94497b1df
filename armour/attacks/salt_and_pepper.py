"""Salt-and-pepper noise: elements at random set to the ends of the box, as few as chance finds to suffice."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, from_numpy, namespace
from ..arrays.rows import per_sample
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..distances import Norm
from ..problem import Problem
from ..search.closest import Closest


@attack(
    "salt-and-pepper",
    norms=("l0", "l1", "l2"),
    reference="Rauber et al. 2017, arXiv:1707.04131",
    asks="decisions",
)
@dataclass(frozen=True)
class SaltAndPepper(Attack):
    """Each draw orders the elements and their ends; noise of the smallest share that has sufficed so far is tried.

    Where that is adversarial the share is halved between what is and what is not. The nearest example is kept.

    Args:
        draws: At most; one that fails costs one query.
        halvings: Of the share, after a draw that succeeds.
    """

    finds_minimum = True

    norm: Norm = "l0"
    draws: int = 500
    halvings: int = 8

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "draws", "halvings")

    def search(self, problem: Problem) -> Array:
        """The nearest adversarial example of each sample; the input where no draw was one."""
        return peppered(problem, self.draws, self.halvings).candidates


def peppered(problem: Problem, draws: int, halvings: int) -> Closest:
    """What salt-and-pepper noise finds; see `SaltAndPepper`."""
    closest, shape = Closest(problem), tuple(problem.x.shape[1:])
    smallest = np.ones(len(problem.x))
    for draw in range(draws):
        drawn = problem.uniform(problem.rows, (2, *shape), draw)
        rows = _kept(problem, closest, problem.rows, drawn, smallest)
        fails = np.zeros(len(problem.x))
        for _ in range(halvings if len(rows) else 0):
            middle = (fails + smallest) / 2
            met = _kept(problem, closest, rows, drawn, middle)
            smallest[met] = middle[met]
            missed = np.setdiff1d(rows, met, assume_unique=True)
            fails[missed] = middle[missed]
    return closest


def _kept(
    problem: Problem, closest: Closest, rows: Rows, drawn: NDArray[np.float64], shares: NDArray[np.float64]
) -> Rows:
    """Offers those of `rows` with a share of noisy elements, and returns those for which that is adversarial."""
    x, (low, high) = problem.x[rows], problem.bounds
    ends = problem.native(np.where(drawn[rows, 1] < 0.5, low, high))
    noisy = from_numpy(drawn[rows, 0] < per_sample(shares[rows], drawn[rows, 0]), x)
    candidates = namespace(x).where(noisy, ends, x)
    met = problem.is_adversarial(candidates, rows)
    closest.offer(candidates, rows, met)
    return rows[met]
