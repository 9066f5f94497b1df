"""The last part in a thousand of a nearest example: the nearest point of its own linearised boundary."""

import numpy as np

from ..arrays import Array, as_float64, cast, namespace
from ..arrays.rows import flat, take
from ..distances.hyperplane import step_to_hyperplane
from ..problem import Problem
from ..problem.objective import margin
from .closest import Closest

_BEYOND = (
    1e-4  # by what share of its length a step goes beyond the plane: our choice, so that rounding does not undo it
)
_GAIN = 1 - 1e-6  # of the distance, that a step has to be worth for another one to follow: our choice
_BACK = (1.0, 0.5)  # how much of the way to that point is tried: our choice; half where the boundary bends away


def refined(problem: Problem, closest: Closest, halvings: int, polishing: int) -> Array:
    """The known examples, nearer by halvings of the way to the input and then by `polish`."""
    closest.tighten(halvings)
    polish(problem, closest, polishing)
    return closest.candidates


def polish(problem: Problem, closest: Closest, steps: int) -> None:
    """Moves known examples along their own linearised boundary towards the input, where the model agrees.

    At a nearest example the change is the shortest one to the tangent plane of the boundary. A search that ends near
    one is brought there by the projection of the input itself; a model that is linear near by needs one step. Norms in
    which planes have no nearest point of use here, such as L0, are left alone.

    Args:
        steps: Gradients a sample at most; a sample that gains nothing is done.

    Reference:
        Croce and Hein 2020, arXiv:1907.02044, section 2.4, whose final search this generalises.
    """
    norm = problem.distance.name
    rows = np.flatnonzero(closest.found & (closest.distances > 0))
    for _ in range(0 if norm == "l0" else steps):
        if not len(rows):
            return
        x, known = take(problem.x, rows), take(closest.candidates, rows)
        ascent = problem.ascend(known, rows, margin)
        xp = namespace(x)
        way = as_float64(x) - as_float64(known)
        gap = problem.criterion(rows).lead - ascent.value - xp.sum(flat(as_float64(ascent.gradient) * way), axis=1)
        nearest = x + (1.0 + _BEYOND) * step_to_hyperplane(norm, x, ascent.gradient, gap, problem.bounds)
        gained, before = np.zeros(len(rows), np.bool_), closest.distances[rows]
        for share in _BACK:
            open_ = np.flatnonzero(~gained)
            if not len(open_):
                break
            there = known[open_] + share * (nearest[open_] - known[open_])
            candidates = xp.clip(cast(there, x), *problem.bounds)
            met = problem.is_adversarial(candidates, rows[open_])
            gained[open_] = closest.offer(candidates, rows[open_], met)
        rows = rows[closest.distances[rows] < _GAIN * before]
