"""Plain noise: how often does chance alone find an adversarial example?"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..arrays import Array, Rows, copy
from ..arrays.rows import per_sample
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..errors import InvalidInput
from ..problem import Problem

Kind = Literal["uniform", "gaussian"]


@attack(
    "plain-noise",
    norms=("linf", "l2", "l1"),
    reference="Rauber et al. 2017, arXiv:1707.04131",
    asks="decisions",
)
@dataclass(frozen=True)
class PlainNoise(Attack):
    """Noise scaled to the whole budget, drawn again until it succeeds: what any attack must beat.

    Args:
        kind: `uniform` or `gaussian`.
        draws: For each sample at most.
    """

    kind: Kind = "uniform"
    draws: int = 100

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "draws")
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"PlainNoise expects kind uniform or gaussian, got {self.kind!r}")

    def search(self, problem: Problem) -> Array:
        """The first adversarial draw of each sample, else the last one."""
        found, rows = copy(problem.x), problem.rows
        for draw in range(self.draws):
            found[rows] = candidates = problem.project(self._noisy(problem, rows, draw), rows)
            rows = rows[~problem.is_adversarial(candidates, rows)]
            if not len(rows):
                break
        return found

    def _noisy(self, problem: Problem, rows: Rows, draw: int) -> Array:
        x, shape = problem.x[rows], tuple(problem.x.shape[1:])
        if self.kind == "gaussian":
            noise = problem.normal(rows, shape, draw)
        else:
            noise = problem.native(2.0 * problem.uniform(rows, shape, draw) - 1.0)
        lengths = problem.distance.measure(0.0 * x, noise)
        return x + noise * per_sample(problem.native(problem.epsilon[rows] / np.maximum(lengths, 1e-300)), x)
