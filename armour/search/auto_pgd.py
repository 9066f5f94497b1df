"""Auto-PGD's climbs: momentum, best iterates and steps that adapt where progress stalls; in L1 with sparse steps.

Reference:
    Croce and Hein 2020, arXiv:2003.01690, algorithm 1; Croce and Hein 2021, arXiv:2103.01208, section 3, for L1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, flat, from_numpy, namespace, per_sample, take, to_numpy
from ..problem import Problem
from ..problem.objective import Objective
from ..problem.search_problem import Ascent, SampleStates
from .gradient_steps import shared_step


@dataclass(frozen=True, slots=True, eq=False)
class Climber(SampleStates):
    """The state of the samples that still resist, common to both climbs."""

    rows: Rows
    at: Array
    gradient: Array
    best: Array
    best_gradient: Array
    best_value: NDArray[np.float64]

    def advance(self, ahead: Array, ascent: Ascent, **more: Array) -> Self:
        """Return the state at the next iterates with their `ascent`; `more` replaces fields of a subclass."""
        value = numbers(ascent.value)
        better = value > self.best_value
        choose, chosen = namespace(ahead).where, per_sample(from_numpy(better, ahead), ahead)
        return replace(
            self,
            at=ahead,
            gradient=ascent.gradient,
            best=choose(chosen, ahead, self.best),
            best_gradient=choose(chosen, ascent.gradient, self.best_gradient),
            best_value=np.where(better, value, self.best_value),
            **more,
        )

    def drop_solved(self, found: Array, met: NDArray[np.bool_]) -> Self:
        """Drop the samples that were met; write their iterates into `found`."""
        if not met.any():
            return self
        gone = np.flatnonzero(met)
        found[self.rows[gone]] = take(self.at, gone)
        return self.take(np.flatnonzero(~met))


def numbers(value: Array) -> NDArray[np.float64]:
    """Return `(n,)` values of an objective, on the host."""
    return np.asarray(to_numpy(value), np.float64)


_MOMENTUM = 0.75  # the paper's alpha
_OSCILLATION = 0.75  # the paper's rho: the share of steps that must raise the loss


@dataclass(frozen=True, slots=True, eq=False)
class _ClimbState(Climber):
    """The state of the samples that still resist."""

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
    """Climb the objective from `starts`, within the budget, for each of `rows`.

    Args:
        found: `(n, ...)`, written: the first adversarial iterate of a row, else the one of the highest value.
        objective: Made for the rows at work.

    Returns:
        The rows that still resist.
    """
    ascent = problem.ascend(starts, rows, objective(rows))
    found[rows] = starts
    value = numbers(ascent.value)
    state = _ClimbState(
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
            state = _adapt_steps(state, span)
    found[state.rows] = state.best
    return state.rows


def _checkpoints(steps: int) -> Iterator[tuple[int, int]]:
    """Yield the steps after which progress is judged, each with the steps since the last one."""
    span, at = max(int(0.22 * steps), 1), 0
    while (at := at + span) <= steps:
        yield at, span
        span = max(span - max(int(0.03 * steps), 1), max(int(0.06 * steps), 1))


def _advance(
    problem: Problem, found: Array, state: _ClimbState, objective: Callable[[Rows], Objective], momentum: float
) -> _ClimbState:
    rows = state.rows
    length = per_sample(problem.native(state.share), state.at) * problem.budget(rows)
    ahead = problem.project(state.at + length * problem.distance.steepest(state.gradient), rows)
    if momentum < 1.0:
        mixed = state.at + momentum * (ahead - state.at) + (1.0 - momentum) * (state.at - state.before)
        ahead = problem.project(mixed, rows)
    ascent = problem.ascend(ahead, rows, objective(rows))
    value = numbers(ascent.value)
    rises = state.rises + (value > state.value)
    return state.advance(ahead, ascent, before=state.at, rises=rises, value=value).drop_solved(found, ascent.met)


def _adapt_steps(state: _ClimbState, span: int) -> _ClimbState:
    """Halve steps and restart from the best iterate where the loss oscillates or has not risen since."""
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


#: Budgets in epsilon, and the share of the steps that each gets: the paper's multi-epsilon scheme.
_STAGES: Final = ((3.0, 0.3), (2.0, 0.3), (1.0, 0.4))
_CHECKED = 0.04  # of a stage's steps: then sparsity and step size are set again
_FIRST_SHARE = 0.2  # of the elements in the first steps
_DENSER = 1.5  # of the changed elements, one in so many takes part in a step; and what steps are divided by
_SHORTEST = 0.1  # step, of the first one
_STABLE = 0.95  # where at least this share of the changed elements is left, the step shrinks


@dataclass(frozen=True, slots=True, eq=False)
class _SparseClimbState(Climber):
    """The state of the samples that still resist, in L1."""

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
    """Climb the objective from `starts`, ending within the budget, for each of `rows`; otherwise as `climb`.

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
    """Return the rows that resist and their best iterates; only the last stage drops rows."""
    ascent = problem.ascend(at, rows, objective(rows))
    count, size = len(rows), flat(at).shape[1]
    changed = np.full(count, float(size)) if is_first else _support(at - problem.x[rows])
    state = _SparseClimbState(
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
        state = state.drop_solved(found, ascent.met)
    span = max(int(_CHECKED * steps), 1)
    for step in range(steps):
        if not len(state.rows):
            break
        state = _advance_sparsely(problem, found, state, objective, is_last)
        if (step + 1) % span == 0:
            state = _adapt_sparsity(problem, state)
    return state.rows, state.best


def _advance_sparsely(
    problem: Problem, found: Array, state: _SparseClimbState, objective: Callable[[Rows], Objective], is_last: bool
) -> _SparseClimbState:
    rows = state.rows
    direction = shared_step(state.gradient, state.at, problem.bounds, state.share)
    length = per_sample(problem.native(state.length), direction) * problem.budget(rows)
    ahead = problem.project(state.at + length * direction, rows)
    ascent = problem.ascend(ahead, rows, objective(rows))
    advance = state.advance(ahead, ascent)
    return advance.drop_solved(found, ascent.met) if is_last else advance


def _adapt_sparsity(problem: Problem, state: _SparseClimbState) -> _SparseClimbState:
    """Set sparsity by the best iterate; shrink steps where it settles, else restart from the best."""
    xp, size = namespace(state.at), flat(state.at).shape[1]
    changed = _support(state.best - problem.x[state.rows])
    stable = changed >= _STABLE * state.changed
    restarts = per_sample(from_numpy(~stable, state.at), state.at)
    return replace(
        state,
        at=xp.where(restarts, state.best, state.at),
        gradient=xp.where(restarts, state.best_gradient, state.gradient),
        share=changed / size / _DENSER,
        length=np.where(stable, np.maximum(state.length / _DENSER, _SHORTEST), 1.0),
        changed=changed,
    )


def _support(change: Array) -> NDArray[np.float64]:
    """Count the changed elements, `(n,)`."""
    xp = namespace(change)
    return np.asarray(to_numpy(xp.sum(xp.astype(flat(change) != 0, xp.float64), axis=1)), np.float64)
