"""JSMA: pairs of elements, driven to the edge of the box one pair after the other, by their saliency for a target."""

from dataclasses import dataclass

import array_api_compat
import numpy as np

from ..arrays import Array, Rows, cast, concatenate, copy, namespace, to_numpy
from ..arrays.rows import flat, is_class
from ..contract.attack import Attack
from ..contract.options import fraction, positive
from ..contract.registry import attack
from ..distances import Norm
from ..problem import Problem
from ..search.closest import Closest
from ..search.rivals import rivals

_PAIRS = 1 << 22  # scored at once: our choice, 32 MB in double precision


@attack(
    "jsma",
    norms=("l0",),
    reference="Papernot et al. 2016, arXiv:1511.07528",
)
@dataclass(frozen=True)
class JSMA(Attack):
    """Jacobian saliency: every step changes the pair that raises the target's logit and lowers the sum of the others.

    Pairs are raised or lowered together, whichever is more salient (the paper's two choices of theta at once). Where no
    pair does both, the one that raises the target over the others most is taken; the paper gives up. Without a target,
    the likeliest other class is one.

    Args:
        theta: By how much the two elements change, as a share of the box.
        share: Of the elements, that may be changed at most.
    """

    finds_minimum = True

    norm: Norm = "l0"
    theta: float = 1.0
    share: float = 1.0

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        positive(self, "theta")
        fraction(self, "share")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the last one."""
        closest, last, rows = Closest(problem), copy(problem.x), problem.rows
        targets, iterates = rivals(problem, rows, 1)[0], problem.x
        most = self.share * int(np.prod(problem.x.shape[1:]))
        while len(rows):
            step = self._step(problem, iterates, rows, targets[rows])
            iterates = namespace(iterates).clip(iterates + step, *problem.bounds)
            last[rows] = iterates
            met = problem.is_adversarial(iterates, rows)
            closest.offer(iterates, rows, met)
            moved = np.asarray(to_numpy(namespace(step).any(flat(step != 0), axis=1)), np.bool_)
            room = problem.distance.measure(problem.x[rows], iterates) + 2 <= most
            going = np.flatnonzero(~met & moved & room)
            rows, iterates = rows[going], iterates[going]
        missed = np.flatnonzero(~closest.found)
        closest.candidates[missed] = last[missed]
        return closest.candidates

    def _step(self, problem: Problem, iterates: Array, rows: Rows, target: Array) -> Array:
        """The change of the most salient pair of each sample; nothing where no element can move."""

        def directions(logits: Array) -> list[Array]:
            own = is_class(logits, target)
            return [cast(own, logits), cast(~own, logits)]

        _, slopes = problem.slopes(iterates, rows, directions)
        low, high = problem.bounds
        start, at = flat(problem.x[rows]), flat(iterates)
        may_rise, may_fall = (at < high) & (at >= start), (at > low) & (at <= start)  # none goes back
        block = max(1, _PAIRS // at.shape[1] ** 2)
        parts = []
        for first in range(0, len(rows), block):
            some = slice(first, first + block)
            gain, cost = (flat(slope)[some] for slope in slopes)
            parts.append(_most_salient(gain, cost, may_rise[some], may_fall[some]))
        return (self.theta * (high - low) * concatenate(parts)).reshape(iterates.shape)


def _most_salient(gain: Array, cost: Array, may_rise: Array, may_fall: Array) -> Array:
    """`(n, size)` signs at the two elements of the best pair.

    Args:
        gain, cost: `(n, size)` gradients of the target's logit, and of the sum of the others.
    """
    xp = namespace(gain)
    rising, falling = _scores(gain, cost, may_rise), _scores(-gain, -cost, may_fall)
    count, size = gain.shape
    both = xp.concat([rising.reshape(count, -1), falling.reshape(count, -1)], axis=1)
    best = xp.argmax(both, axis=1)
    can = xp.take_along_axis(both, best[:, None], axis=1) > -xp.inf
    sign = xp.where(best < size * size, 1.0, -1.0)[:, None]
    pair = best % (size * size)
    chosen = is_class(gain, pair // size) | is_class(gain, pair % size)
    return cast(xp.where(chosen & can, sign, 0.0), gain)


def _scores(gain: Array, cost: Array, allowed: Array) -> Array:
    """`(n, size, size)` how salient each pair is; salient pairs are above 0, the others ordered below it."""
    xp = namespace(gain)
    together, against = gain[:, :, None] + gain[:, None, :], cost[:, :, None] + cost[:, None, :]
    lead = together - against
    below = lead - xp.max(xp.abs(lead.reshape(len(lead), -1)), axis=1)[:, None, None] - 1.0
    score = xp.where((together > 0) & (against < 0), -together * against, below)
    itself = xp.eye(gain.shape[1], dtype=xp.bool, device=array_api_compat.device(gain))
    return xp.where(allowed[:, :, None] & allowed[:, None, :] & ~itself, score, -xp.inf)
