"""Nearest examples by steps along the linearised decision boundary: DeepFool, FAB-T, Brendel and Bethge's attack."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..array_api import (
    Array,
    Rows,
    as_float64,
    cast,
    concatenate,
    copy,
    flat,
    from_numpy,
    is_class,
    namespace,
    per_sample,
    take,
)
from ..contract.attack import Attack, at_least, attack, positive
from ..distances.boundary_steps import dual_length, step_to_hyperplane, trust_step
from ..distances.norms import euclidean
from ..problem import Problem
from ..problem.objective import margin
from ..search.gradient_steps import likeliest_classes
from ..search.nearest_examples import Closest, refine
from .minimum_norm import FMN


@attack(
    "deepfool",
    norms=("linf", "l2"),
    reference="Moosavi-Dezfooli, Fawzi and Frossard 2016, arXiv:1511.04599",
)
@dataclass(frozen=True)
class DeepFool(Attack):
    """Steps onto the nearest of the linearised boundaries to the likeliest classes, until one is crossed.

    Differs from the paper in two places. Each step is the shortest inside the box, where the paper's clips afterwards:
    on inputs that touch the box that can undo the step for ever. The overshoot grows with every step that crosses
    no boundary, and bisection towards the input then removes the excess. It finds near examples, not the nearest.

    Args:
        steps: Gradient steps at most.
        classes: Number of boundaries considered, those of the largest logits.
        overshoot: By which share a step goes beyond the plane.
        halvings: Bisection steps towards the input at the end.
    """

    finds_minimum = True

    steps: int = 50
    classes: int = 10
    overshoot: float = 0.02
    halvings: int = 12

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "classes")
        at_least(self, 0, "halvings")
        positive(self, "overshoot")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, drawn back to the boundary; else the last iterate."""
        closest, last = Closest(problem), copy(problem.x)
        classes = likeliest_classes(problem, problem.rows, self.classes)
        rows, iterates = problem.rows, problem.x
        for step in range(self.steps):
            change = self._step(problem, iterates, rows, [goal[rows] for goal in classes])
            reach = 1.0 + self.overshoot * (1 + step)
            iterates = namespace(iterates).clip(iterates + reach * change, *problem.bounds)
            last[rows] = iterates
            met = problem.is_adversarial(iterates, rows)
            closest.offer(iterates, rows, met)
            if met.any():
                going = np.flatnonzero(~met)
                rows, iterates = rows[going], take(iterates, going)
            if not len(rows):
                break
        found = closest.tighten(self.halvings)
        missed = np.flatnonzero(~closest.found)
        found[missed] = last[missed]
        return found

    def _step(self, problem: Problem, iterates: Array, rows: Rows, classes: list[Array]) -> Array:
        """Return the shortest step onto the nearest plane."""
        criterion = problem.criterion(rows)
        xp = namespace(iterates)

        def directions(logits: Array) -> list[Array]:
            if criterion.is_targeted:  # one plane: between the target and the largest other class
                others = xp.where(is_class(logits, criterion.anchor), -xp.inf, logits)
                goals, own = [criterion.anchor], xp.argmax(others, axis=1)
            else:
                goals, own = classes, criterion.anchor
            return [_indicator(logits, goal) - _indicator(logits, own) for goal in goals]

        logits, slopes = problem.slopes(iterates, rows, directions)
        gaps = [criterion.lead - xp.sum(direction * logits, axis=1) for direction in directions(logits)]
        nearest, gap, slope = None, gaps[0], slopes[0]
        for other_gap, other in zip(gaps, slopes, strict=True):
            length = dual_length(self.norm, other)
            far = xp.abs(other_gap) / xp.where(length > 0, length, 1e-12)
            if nearest is None:
                nearest = far
                continue
            nearer = far < nearest
            nearest, gap = xp.where(nearer, far, nearest), xp.where(nearer, other_gap, gap)
            slope = xp.where(per_sample(nearer, other), other, slope)
        return step_to_hyperplane(self.norm, iterates, slope, gap, problem.bounds)


def _indicator(logits: Array, classes: Array) -> Array:
    return cast(is_class(logits, classes), logits)


_OVERSHOOT = 1.05  # the paper's eta
_BACKWARD = 0.9  # the paper's beta
_LARGEST_BIAS = 0.1  # the paper's alpha_max


@attack(
    "fab-t",
    norms=("linf", "l2", "l1"),
    reference="Croce and Hein 2020, arXiv:1907.02044",
)
@dataclass(frozen=True)
class FABT(Attack):
    """Fast adaptive boundary: steps to the boundary of a target class that stay near the input, and back.

    Finds the nearest examples, whatever the budget. Every step projects both the iterate and the input onto the
    linearised boundary, inside the box, and goes to a mean of the two.

    Args:
        steps: Steps of each start and target.
        restarts: Starts for each target; the first is the input itself, the others are random and near.
        classes: How many targets are tried, the likeliest first.
        halvings: Bisection steps towards the input at the end; the paper has 3, which leaves half a percent.
    """

    finds_minimum = True

    steps: int = 100
    restarts: int = 1
    classes: int = 9
    halvings: int = 10

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "restarts", "classes")
        at_least(self, 0, "halvings")

    def search(self, problem: Problem) -> Array:
        """Return the nearest adversarial example found."""
        closest = Closest(problem)
        for number, target in enumerate(likeliest_classes(problem, problem.rows, self.classes)):
            for restart in range(self.restarts):
                start = problem.x if restart == 0 else self._near(problem, closest, number * self.restarts + restart)
                self._walk(problem, closest, start, target)
        return closest.tighten(self.halvings)

    def _near(self, problem: Problem, closest: Closest, restart: int) -> Array:
        """Draw points within half the nearest distance so far, or a tenth of the box where none is known."""
        low, high = problem.bounds
        reach = np.where(closest.found, closest.distances / 2, 0.1 * (high - low))
        return problem.within(reach).random_start(restart, problem.rows)

    def _walk(self, problem: Problem, closest: Closest, start: Array, target: Array) -> None:
        rows, x, iterates = problem.rows, problem.x, start
        for _ in range(self.steps):
            value, slope = _lead(problem, iterates, rows, target)
            gap = problem.criterion(rows).lead - value
            shift = namespace(x).sum(flat(as_float64(slope) * as_float64(iterates - x)), axis=1)
            starts, gaps = concatenate([iterates, x]), concatenate([gap, gap + cast(shift, gap)])
            both = step_to_hyperplane(self.norm, starts, concatenate([slope, slope]), gaps, problem.bounds)
            from_here, from_start = both[: len(x)], both[len(x) :]
            lengths = _length(problem, both)
            here, there = lengths[: len(x)], lengths[len(x) :]
            bias = per_sample(problem.native(np.minimum(here / np.maximum(here + there, 1e-12), _LARGEST_BIAS)), x)
            ahead = (1 - bias) * (iterates + _OVERSHOOT * from_here) + bias * (x + _OVERSHOOT * from_start)
            iterates = namespace(x).clip(ahead, *problem.bounds)
            met = problem.is_adversarial(iterates, rows)
            closest.offer(iterates, rows, met)
            back = per_sample(from_numpy(met, x), x)
            iterates = namespace(x).where(back, x + _BACKWARD * (iterates - x), iterates)


def _lead(problem: Problem, candidates: Array, rows: Rows, target: Array) -> tuple[Array, Array]:
    """Return the lead of the target over the anchor, `(n,)`, and its gradient."""
    criterion = problem.criterion(rows)

    def directions(logits: Array) -> list[Array]:
        if criterion.is_targeted:
            return [margin(logits, criterion)[1]]
        own = is_class(logits, criterion.anchor)
        return [cast(is_class(logits, target), logits) - cast(own, logits)]

    logits, (slope,) = problem.slopes(candidates, rows, directions)
    (direction,) = directions(logits)
    return namespace(logits).sum(direction * logits, axis=1), slope


def _length(problem: Problem, step: Array) -> NDArray[np.float64]:
    return problem.distance.measure(namespace(step).zeros_like(step), step)


_BEYOND = 1e-2  # of the radius, by which a step aims beyond the boundary: our choice, so that most are adversarial
_LAST = 1e-3  # of the first radius, the last: our choice


@attack(
    "brendel-bethge",
    norms=("linf", "l2"),
    reference="Brendel et al. 2019, arXiv:1907.01003",
)
@dataclass(frozen=True)
class BrendelBethge(Attack):
    """Steps along the linearised boundary, each the one that comes nearest to the input within a small sphere.

    Differs from the paper in the start: where the paper begins at an adversarial input from elsewhere and follows the
    boundary for long, this one begins where a few steps of FMN end, so that a twentieth of the steps do; inputs for
    which FMN finds no example begin at another input of the data set. The spheres shrink with every step.

    Args:
        steps: Gradient steps along the boundary.
        radius: Of the first sphere, as a share of the distance.
        warm_up: Steps of FMN before.
        halvings: Bisection steps towards the input, before and at the end.
        polishing: Steps onto the linearised boundary at the end, at most.
    """

    finds_minimum = True

    steps: int = 50
    radius: float = 0.5
    warm_up: int = 30
    halvings: int = 5
    polishing: int = 5

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "warm_up")
        at_least(self, 0, "halvings", "polishing")
        positive(self, "radius")

    def search(self, problem: Problem) -> Array:
        """Return the nearest adversarial point found."""
        closest = Closest(problem)
        warm_start = FMN(norm=self.norm, steps=self.warm_up, halvings=0, polishing=0).search(problem)
        closest.offer(warm_start, problem.rows, problem.is_adversarial(warm_start, problem.rows))
        missed = np.flatnonzero(~closest.found)
        if len(missed):
            others, has_one = problem.examples(missed)
            closest.offer(others, has_one, problem.is_adversarial(others, has_one))
        closest.tighten(self.halvings)
        self._walk(problem, closest)
        return refine(problem, closest, self.halvings, self.polishing)

    def _walk(self, problem: Problem, closest: Closest) -> None:
        rows = np.flatnonzero(closest.found)
        if not len(rows):
            return
        x, at = problem.x[rows], closest.candidates[rows]
        xp = namespace(x)
        for step in range(self.steps):
            ascent = problem.ascend(at, rows, margin)
            closest.offer(at, rows, ascent.met)
            radius = self.radius * _LAST ** (step / self.steps) * euclidean(at - x)
            gap = problem.criterion(rows).lead - ascent.value
            gap = gap + _BEYOND * radius * dual_length("l2", ascent.gradient)
            change = trust_step(self.norm, x, at, normal=ascent.gradient, gap=gap, radius=radius, bounds=problem.bounds)
            at = xp.clip(at + change, *problem.bounds)
