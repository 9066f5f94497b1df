"""The nearest adversarial examples: kept during a search, then moved nearer by halving and by projection."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, as_float64, cast, copy, flat, namespace, per_sample, take
from ..distances.boundary_steps import step_to_hyperplane
from ..problem import Problem
from ..problem.objective import margin


class Closest:
    """The nearest adversarial candidate of each sample; the clean input where there is none yet.

    Args:
        problem: Measures in its own distance.
    """

    def __init__(self, problem: Problem) -> None:
        self.candidates = copy(problem.x)
        self.distances = np.full(len(problem.x), np.inf)
        self._problem = problem

    @property
    def found(self) -> NDArray[np.bool_]:
        """`(n,)` bool, True where an adversarial example is known."""
        return np.asarray(np.isfinite(self.distances), np.bool_)

    def offer(self, candidates: Array, rows: Rows, met: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Keep the candidates that are adversarial and nearer than those known.

        Args:
            candidates: One for each of `rows`, inside the box.
            met: `(len(rows),)` whether it is adversarial.

        Returns:
            `(len(rows),)` bool, True where it was taken.
        """
        taken = np.zeros(len(rows), np.bool_)
        at = np.flatnonzero(met)
        if len(at):
            offered = self._problem.legal(take(candidates, at), rows[at])
            distances = self._problem.distance.measure(take(self._problem.x, rows[at]), offered)
            nearer = distances < self.distances[rows[at]]
            at = at[nearer]
            taken[at] = True
            self.candidates[rows[at]] = take(offered, np.flatnonzero(nearer))
            self.distances[rows[at]] = distances[nearer]
        return taken

    def tighten(self, steps: int) -> Array:
        """Bisect between candidates and inputs `steps` times by the model's predictions; return the candidates."""
        rows = np.flatnonzero(self.found & (self.distances > 0))
        near, far = np.zeros(len(rows)), np.ones(len(rows))
        x = take(self._problem.x, rows)
        offset = take(self.candidates, rows) - x
        for _ in range(steps if len(rows) else 0):
            middle = (near + far) / 2
            candidates = x + per_sample(self._problem.native(middle), x) * offset
            met = self._problem.is_adversarial(candidates, rows)
            self.offer(candidates, rows, met)
            near, far = np.where(met, near, middle), np.where(met, middle, far)
        return self.candidates


_BEYOND = (
    1e-4  # by what share of its length a step goes beyond the plane: our choice, so that rounding does not undo it
)
_GAIN = 1 - 1e-6  # of the distance, that a step has to be worth for another one to follow: our choice
_BACK = (1.0, 0.5)  # how much of the way to that point is tried: our choice; half where the boundary bends away


def refine(problem: Problem, closest: Closest, halvings: int, polishing: int) -> Array:
    """Return the known examples, moved nearer by bisection towards the input and then by `polish`."""
    closest.tighten(halvings)
    polish(problem, closest, polishing)
    return closest.candidates


def polish(problem: Problem, closest: Closest, steps: int) -> None:
    """Move known examples along their own linearised boundary towards the input, where the model agrees.

    At a nearest example the change is the shortest one to the tangent plane of the boundary. A search that ends near
    one is brought there by the projection of the input itself; a model that is linear near by needs one step. Norms in
    which planes have no nearest point of use here, such as L0, are left alone.

    Args:
        steps: Gradients a sample at most; a sample without a gain is done.

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
        offset = as_float64(x) - as_float64(known)
        gap = problem.criterion(rows).lead - ascent.value - xp.sum(flat(as_float64(ascent.gradient) * offset), axis=1)
        nearest = x + (1.0 + _BEYOND) * step_to_hyperplane(norm, x, ascent.gradient, gap, problem.bounds)
        gained, before = np.zeros(len(rows), np.bool_), closest.distances[rows]
        for share in _BACK:
            open_ = np.flatnonzero(~gained)
            if not len(open_):
                break
            candidate_points = known[open_] + share * (nearest[open_] - known[open_])
            candidates = xp.clip(cast(candidate_points, x), *problem.bounds)
            met = problem.is_adversarial(candidates, rows[open_])
            gained[open_] = closest.offer(candidates, rows[open_], met)
        rows = rows[closest.distances[rows] < _GAIN * before]


#: Budgets are narrowed to a part in 2**14 of the farthest point of the box: our choice, below a pixel's step.
_HALVINGS: Final = 14
#: A sample without an example after so many budgets is given up: our choice, a 32nd of the box.
_TRIES: Final = 5


def smallest_budgets(search: Callable[[Problem], Array], problem: Problem) -> Array:
    """Return the nearest adversarial example that `search` finds within any of the budgets tried.

    The first budget is the whole box. Where it yields no example, half of it is tried, and so on, as few large steps
    may jump over what is near. Where none of the first budgets yields one, the first candidate is returned.

    Args:
        problem: Its own budgets are not used.
    """
    xp = namespace(problem.x)
    low, high = problem.bounds
    corner = xp.where(problem.x - low > high - problem.x, xp.full_like(problem.x, low), xp.full_like(problem.x, high))
    upper = problem.distance.measure(problem.x, corner)
    lower, budgets = np.zeros(len(upper)), upper.copy()
    closest, first = Closest(problem), None
    for number in range(_HALVINGS + 1):
        within = problem.within(budgets)
        candidates = within.clip(search(within))
        met = problem.is_adversarial(candidates, problem.rows)
        closest.offer(candidates, problem.rows, met & (closest.found | (number <= _TRIES)))
        first = candidates if first is None else first
        if number == _TRIES and not closest.found.any():
            break
        fell = closest.distances <= budgets
        upper = np.where(fell, np.minimum(upper, closest.distances), upper)
        lower = np.where(fell | ~closest.found, lower, budgets)
        budgets = np.where(closest.found, (lower + upper) / 2, budgets / 2)
    found = closest.candidates
    missed = np.flatnonzero(~closest.found)
    if first is not None and len(missed):
        found[missed] = first[missed]
    return found
