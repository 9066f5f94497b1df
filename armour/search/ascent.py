"""Auto-PGD's climb: momentum, best iterates, and steps that halve at checkpoints where progress stalls.

Reference:
    Croce and Hein 2020, arXiv:2003.01690, algorithm 1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, from_numpy, namespace
from ..arrays.rows import per_sample
from ..problem import Problem
from ..problem.objective import Objective
from .climbing import Climber, numbers

_MOMENTUM = 0.75  # the paper's alpha
_OSCILLATION = 0.75  # the paper's rho: the share of steps that must raise the loss


@dataclass(frozen=True, slots=True, eq=False)
class _State(Climber):
    """What belongs to each sample that still resists."""

    before: Array
    value: NDArray[np.float64]
    share: NDArray[np.float64]  # the step, as a share of epsilon
    rises: NDArray[np.int64]  # since the last checkpoint
    best_at_check: NDArray[np.float64]
    halved: NDArray[np.bool_]  # at the last checkpoint


def climb(
    problem: Problem,
    found: Array,
    rows: Rows,
    starts: Array,
    objective: Callable[[Rows], Objective],
    steps: int,
) -> Rows:
    """Climbs the objective from `starts`, within the budget, for each of `rows`.

    Args:
        found: `(n, ...)`, written: the first adversarial iterate of a row, else the one of the highest value.
        objective: Made for the rows at work.

    Returns:
        The rows that still resist.
    """
    ascent = problem.ascend(starts, rows, objective(rows))
    found[rows] = starts
    value = numbers(ascent.value)
    state = _State(
        rows=rows,
        at=starts,
        before=starts,
        gradient=ascent.gradient,
        value=value,
        best=starts,
        best_gradient=ascent.gradient,
        best_value=value,
        share=np.full(len(rows), 2.0),
        rises=np.zeros(len(rows), np.int64),
        best_at_check=value,
        halved=np.ones(len(rows), np.bool_),
    )
    state = state.take(np.flatnonzero(~ascent.met))
    checkpoints = dict(_checkpoints(steps))
    for step in range(steps):
        if not len(state.rows):
            break
        state = _advance(problem, found, state, objective, 1.0 if step == 0 else _MOMENTUM)
        if span := checkpoints.get(step + 1):
            state = _checked(state, span)
    found[state.rows] = state.best
    return state.rows


def _checkpoints(steps: int) -> Iterator[tuple[int, int]]:
    """Steps after which progress is judged, and how many steps lie between it and the last one."""
    span, at = max(int(0.22 * steps), 1), 0
    while (at := at + span) <= steps:
        yield at, span
        span = max(span - max(int(0.03 * steps), 1), max(int(0.06 * steps), 1))


def _advance(
    problem: Problem, found: Array, state: _State, objective: Callable[[Rows], Objective], momentum: float
) -> _State:
    rows = state.rows
    length = per_sample(problem.native(state.share), state.at) * problem.budget(rows)
    ahead = problem.project(state.at + length * problem.distance.steepest(state.gradient), rows)
    if momentum < 1.0:
        mixed = state.at + momentum * (ahead - state.at) + (1.0 - momentum) * (state.at - state.before)
        ahead = problem.project(mixed, rows)
    ascent = problem.ascend(ahead, rows, objective(rows))
    value = numbers(ascent.value)
    rises = state.rises + (value > state.value)
    return state.moved(ahead, ascent, before=state.at, rises=rises, value=value).fallen(found, ascent.met)


def _checked(state: _State, span: int) -> _State:
    """Steps halved, and the best iterate taken up again, where the loss oscillates or has not risen since."""
    stalled = state.rises <= _OSCILLATION * span
    idle = ~state.halved & (state.best_at_check >= state.best_value)
    halve = stalled | idle
    at, gradient = state.at, state.gradient
    if halve.any():
        xp = namespace(at)
        back = per_sample(from_numpy(halve, at), at)
        at, gradient = xp.where(back, state.best, at), xp.where(back, state.best_gradient, gradient)
    return replace(
        state,
        at=at,
        gradient=gradient,
        share=np.where(halve, state.share / 2, state.share),
        rises=np.zeros_like(state.rises),
        best_at_check=state.best_value,
        halved=halve,
    )
