"""Auto-PGD's climb in L1: sparse steps that adapt to how many elements have changed, in budgets that shrink to epsilon.

Reference:
    Croce and Hein 2021, arXiv:2103.01208, section 3 and algorithm 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, from_numpy, namespace, to_numpy
from ..arrays.rows import flat, per_sample
from ..problem import Problem
from ..problem.objective import Objective
from .climbing import Climber, numbers
from .sparse import shared_step

#: Budgets in epsilon, and the share of the steps that each gets: the paper's multi-epsilon scheme.
_STAGES: Final = ((3.0, 0.3), (2.0, 0.3), (1.0, 0.4))
_CHECKED = 0.04  # after this share of a stage's steps sparsity and step are set anew
_FIRST_SHARE = 0.2  # of the elements in the first steps
_DENSER = 1.5  # of the changed elements, one in so many takes part in a step; and what steps are divided by
_SHORTEST = 0.1  # step, of the first one
_STABLE = 0.95  # where at least this share of the changed elements is left, the step shrinks


@dataclass(frozen=True, slots=True, eq=False)
class _State(Climber):
    """What belongs to each sample that still resists."""

    share: NDArray[np.float64]  # of the elements in a step
    length: NDArray[np.float64]  # of a step, in budgets
    changed: NDArray[np.float64]  # elements, at the last check


def climb_sparsely(
    problem: Problem,
    found: Array,
    rows: Rows,
    starts: Array,
    objective: Callable[[Rows], Objective],
    steps: int,
) -> Rows:
    """Climbs the objective from `starts`, at last within the budget, for each of `rows`; as `climb` otherwise.

    Args:
        found: `(n, ...)`, written: the first adversarial iterate of a row, else the one of the highest value.

    Returns:
        The rows that still resist.
    """
    at = starts
    for number, (radius, share) in enumerate(_STAGES):
        wide = problem if radius == 1.0 else problem.within(problem.epsilon * radius)
        at, count = wide.project(at, rows), round(share * steps)
        rows, at = _stage(wide, found, rows, at, objective, count, is_first=number == 0, is_last=radius == 1.0)
        if not len(rows):
            return rows
    found[rows] = at
    return rows


def _stage(
    problem: Problem,
    found: Array,
    rows: Rows,
    at: Array,
    objective: Callable[[Rows], Objective],
    steps: int,
    *,
    is_first: bool,
    is_last: bool,
) -> tuple[Rows, Array]:
    """The rows that resist and their best iterates; in stages but the last none is done, as the budget is too wide."""
    ascent = problem.ascend(at, rows, objective(rows))
    count, size = len(rows), flat(at).shape[1]
    changed = np.full(count, float(size)) if is_first else _support(at - problem.x[rows])
    state = _State(
        rows=rows,
        at=at,
        gradient=ascent.gradient,
        best=at,
        best_gradient=ascent.gradient,
        best_value=numbers(ascent.value),
        share=np.full(count, _FIRST_SHARE) if is_first else changed / size / _DENSER,
        length=np.ones(count),
        changed=changed,
    )
    if is_last:
        state = state.fallen(found, ascent.met)
    span = max(int(_CHECKED * steps), 1)
    for step in range(steps):
        if not len(state.rows):
            break
        state = _advance(problem, found, state, objective, is_last)
        if (step + 1) % span == 0:
            state = _checked(problem, state)
    return state.rows, state.best


def _advance(
    problem: Problem, found: Array, state: _State, objective: Callable[[Rows], Objective], is_last: bool
) -> _State:
    rows = state.rows
    way = shared_step(state.gradient, state.at, problem.bounds, state.share)
    length = per_sample(problem.native(state.length), way) * problem.budget(rows)
    ahead = problem.project(state.at + length * way, rows)
    ascent = problem.ascend(ahead, rows, objective(rows))
    moved = state.moved(ahead, ascent)
    return moved.fallen(found, ascent.met) if is_last else moved


def _checked(problem: Problem, state: _State) -> _State:
    """Sparsity follows the best iterate; where it settles the steps shrink, elsewhere they begin anew from the best."""
    xp, size = namespace(state.at), flat(state.at).shape[1]
    changed = _support(state.best - problem.x[state.rows])
    stable = changed >= _STABLE * state.changed
    anew = per_sample(from_numpy(~stable, state.at), state.at)
    return replace(
        state,
        at=xp.where(anew, state.best, state.at),
        gradient=xp.where(anew, state.best_gradient, state.gradient),
        share=changed / size / _DENSER,
        length=np.where(stable, np.maximum(state.length / _DENSER, _SHORTEST), 1.0),
        changed=changed,
    )


def _support(change: Array) -> NDArray[np.float64]:
    """`(n,)` how many elements are changed."""
    xp = namespace(change)
    return np.asarray(to_numpy(xp.sum(xp.astype(flat(change) != 0, xp.float64), axis=1)), np.float64)
