"""Attacks that change few elements: by saliency (JSMA), by chance (salt and pepper), by a walk back (Pointwise)."""

from dataclasses import dataclass

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from ..array_api import (
    Array,
    Rows,
    cast,
    concatenate,
    copy,
    flat,
    from_numpy,
    is_class,
    namespace,
    per_sample,
    to_numpy,
)
from ..contract.attack import Attack, at_least, attack, fraction, positive
from ..distances import Norm
from ..problem import Problem
from ..search.black_box import find_starts
from ..search.gradient_steps import likeliest_classes
from ..search.nearest_examples import Closest

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
        """Return the first adversarial iterate of each sample, else the last one."""
        closest, last, rows = Closest(problem), copy(problem.x), problem.rows
        targets, iterates = likeliest_classes(problem, rows, 1)[0], problem.x
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
        """Return the change of the most salient pair of each sample; zero where no element can move."""

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
    """Return `(n, size)` signs at the two elements of the best pair.

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
    """Return `(n, size, size)` saliency of each pair; salient pairs are above 0, the others are ordered below it."""
    xp = namespace(gain)
    together, against = gain[:, :, None] + gain[:, None, :], cost[:, :, None] + cost[:, None, :]
    lead = together - against
    below = lead - xp.max(xp.abs(lead.reshape(len(lead), -1)), axis=1)[:, None, None] - 1.0
    score = xp.where((together > 0) & (against < 0), -together * against, below)
    itself = xp.eye(gain.shape[1], dtype=xp.bool, device=array_api_compat.device(gain))
    return xp.where(allowed[:, :, None] & allowed[:, None, :] & ~itself, score, -xp.inf)


@attack(
    "salt-and-pepper",
    norms=("l0", "l1", "l2"),
    reference="Rauber et al. 2017, arXiv:1707.04131",
    asks="decisions",
)
@dataclass(frozen=True)
class SaltAndPepper(Attack):
    """Each draw orders the elements and their extremes; it tries the smallest share of noise that has sufficed.

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
        """Return the nearest adversarial example of each sample; the input where no draw was one."""
        return search_by_noise(problem, self.draws, self.halvings).candidates


def search_by_noise(problem: Problem, draws: int, halvings: int) -> Closest:
    """Search by salt-and-pepper noise; see `SaltAndPepper`."""
    closest, shape = Closest(problem), tuple(problem.x.shape[1:])
    smallest = np.ones(len(problem.x))
    for draw in range(draws):
        drawn = problem.uniform(problem.rows, (2, *shape), draw)
        rows = _offer_noise(problem, closest, problem.rows, drawn, smallest)
        fails = np.zeros(len(problem.x))
        for _ in range(halvings if len(rows) else 0):
            middle = (fails + smallest) / 2
            met = _offer_noise(problem, closest, rows, drawn, middle)
            smallest[met] = middle[met]
            missed = np.setdiff1d(rows, met, assume_unique=True)
            fails[missed] = middle[missed]
    return closest


def _offer_noise(
    problem: Problem, closest: Closest, rows: Rows, drawn: NDArray[np.float64], shares: NDArray[np.float64]
) -> Rows:
    """Offer those of `rows` with a share of noisy elements; return those for which that is adversarial."""
    x, (low, high) = problem.x[rows], problem.bounds
    ends = problem.native(np.where(drawn[rows, 1] < 0.5, low, high))
    noisy = from_numpy(drawn[rows, 0] < per_sample(shares[rows], drawn[rows, 0]), x)
    candidates = namespace(x).where(noisy, ends, x)
    met = problem.is_adversarial(candidates, rows)
    closest.offer(candidates, rows, met)
    return rows[met]


@attack(
    "pointwise",
    norms=("l0",),
    reference="Schott et al. 2019, arXiv:1805.09190",
    asks="decisions",
)
@dataclass(frozen=True)
class Pointwise(Attack):
    """Starts from salt-and-pepper noise and restores one element after the other while that stays adversarial.

    A pass asks once for every element that still differs, in random order, until a pass restores none. The start
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
        """Return the adversarial example with the fewest changes of each sample; the input where no start was found."""
        closest = search_by_noise(problem, self.draws, 8)
        rows = find_starts(problem, closest, self.tries)
        starts, is_one = closest.candidates[rows], np.ones(len(rows), np.bool_)
        for order in range(self.orders if len(rows) else 0):
            walk = Closest(problem)
            walk.offer(starts, rows, is_one)
            _walk_back(problem, walk, rows, order)
            closest.offer(walk.candidates[rows], rows, is_one)
        return closest.candidates


def _walk_back(problem: Problem, walk: Closest, rows: Rows, order: int) -> None:
    """Pass over each sample's elements until a pass restores none."""
    number = 0
    while len(rows):
        before = walk.distances[rows]
        _restore_elements(problem, walk, rows, order, number)
        rows = rows[walk.distances[rows] < before]
        number += 1


def _restore_elements(problem: Problem, closest: Closest, rows: Rows, *key: int) -> None:
    """Restore each changed element for good where the example stays adversarial without the change."""
    differs = to_numpy(flat(closest.candidates[rows]) != flat(problem.x[rows]))
    drawn = problem.uniform(rows, (differs.shape[1],), 1, *key)
    order, counts = np.where(differs, drawn, 2.0).argsort(axis=1), differs.sum(axis=1)
    for rank in range(int(counts.max())):
        going = np.flatnonzero(counts > rank)
        at = rows[going]
        here, x = flat(closest.candidates[at]), flat(problem.x[at])
        element = is_class(x, problem.native_classes(order[going, rank]))
        candidates = namespace(x).where(element, x, here).reshape((len(at), *problem.x.shape[1:]))
        closest.offer(candidates, at, problem.is_adversarial(candidates, at))
