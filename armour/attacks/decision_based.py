"""Attacks that ask for decisions alone: Boundary, HopSkipJump, rotations and shifts, and plain noise."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, as_images, copy, flat, from_numpy, image_shape, namespace, per_sample, take
from ..contract.attack import Attack, at_least, attack, fraction, positive
from ..distances import Norm, distance_named
from ..distances.norms import euclidean
from ..errors import InvalidInput
from ..problem import Problem
from ..search.black_box import find_starts
from ..search.nearest_examples import Closest

_CHECK = 5  # steps between two checks of the sideways step alone: our choice
_GROWTH = 1.3  # of a step's length after a success: our choice


@attack(
    "boundary",
    norms=("l2",),
    reference="Brendel et al. 2018, arXiv:1712.04248",
    asks="decisions",
)
@dataclass(frozen=True)
class Boundary(Attack):
    """Random steps along the sphere around the input, then a little towards it; adversarial points are kept.

    The sideways step grows and shrinks so that half of the points beside are adversarial, the step towards the input so
    that a quarter of the candidates are, as in the paper; both are adapted after every try.

    Args:
        steps: Candidates of each sample.
        sideways: Length of the first sideways steps, as a share of the distance.
        towards: Length of the first steps towards the input, as a share of the distance.
        tries: Draws of noise for a point to start from, where no other input of the data set is one.
    """

    finds_minimum = True

    norm: Norm = "l2"
    steps: int = 5000
    sideways: float = 0.1
    towards: float = 0.1
    tries: int = 50

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "tries")
        positive(self, "sideways", "towards")

    def search(self, problem: Problem) -> Array:
        """Return the nearest adversarial point of each walk; the input where no start was found."""
        closest = Closest(problem)
        rows = find_starts(problem, closest, self.tries)
        closest.tighten(10)
        sideways, towards = np.full(len(rows), self.sideways), np.full(len(rows), self.towards)
        for step in range(self.steps if len(rows) else 0):
            beside = self._beside(problem, closest, rows, sideways, step)
            if step % _CHECK == 0:
                met = problem.is_adversarial(beside, rows)
                sideways = np.clip(np.where(met, sideways * _GROWTH, sideways / _GROWTH), 1e-8, 1.0)
            x = problem.x[rows]
            candidates = x + per_sample(problem.native(1.0 - towards), x) * (beside - x)
            met = problem.is_adversarial(candidates, rows)
            closest.offer(candidates, rows, met)
            towards = np.clip(np.where(met, towards * _GROWTH, towards / _GROWTH ** (1 / 3)), 1e-8, 0.5)
        return closest.candidates

    def _beside(self, problem: Problem, closest: Closest, rows: Rows, sideways: np.ndarray, step: int) -> Array:
        """Return a random point beside the nearest one known, equally far from the input and inside the box."""
        x, here = problem.x[rows], closest.candidates[rows]
        xp, offset = namespace(x), here - x
        length = per_sample(euclidean(offset), x)
        unit = offset / xp.where(length > 0, length, xp.ones_like(length))
        noise = problem.normal(rows, tuple(x.shape[1:]), step)
        along = per_sample(xp.sum(flat(noise * unit), axis=1), x)
        noise = problem.distance.steepest(noise - along * unit)
        moved = offset + per_sample(problem.native(sideways), x) * length * noise
        return xp.clip(x + length * problem.distance.steepest(moved), *problem.bounds)


#: Numbers that are drawn at once for each sample, in draws and in elements, and rows that are asked for at once. Our
#: choice: on 20 images of 8 x 8 a normal took two thirds of the time that it takes draw by draw.
_DRAWN: Final = (20, 65_536)
_ASKED: Final = 256


def _draws(problem: Problem, rows: Rows, count: int, is_normal: bool, *key: int) -> Iterator[Array]:
    """Yield `(k, len(rows), ...)` draws, `count` in all, the same for a sample whatever the batch."""
    shape = tuple(problem.x.shape[1:])
    together = max(1, min(_DRAWN[0], _DRAWN[1] // math.prod(shape)))
    asked = max(1, _ASKED // len(rows))
    for start in range(0, count, together):
        if is_normal:
            drawn = problem.normal(rows, (together, *shape), *key, start)
        else:
            drawn = problem.native(2.0 * problem.uniform(rows, (together, *shape), *key, start) - 1.0)
        drawn = namespace(drawn).moveaxis(drawn, 1, 0)[: count - start]
        yield from (drawn[at : at + asked] for at in range(0, len(drawn), asked))


_MOST_QUERIES = 10_000  # for one normal: the authors' bound
_EUCLIDEAN = distance_named("l2")  # directions have this length 1 in both norms, as in the authors' own program
_HALVINGS = 25  # of a step that leads nowhere, and at most of the way back to the boundary


@attack(
    "hop-skip-jump",
    norms=("l2", "linf"),
    reference="Chen, Jordan and Wainwright 2020, arXiv:1904.02144",
    asks="decisions",
)
@dataclass(frozen=True)
class HopSkipJump(Attack):
    """Estimate the boundary's normal from decisions at random directions, step along it, return to the boundary.

    Args:
        steps: Rounds.
        queries: For the normal of the first round; in round t it is sqrt(t) times as many.
        gamma: Width of the boundary that the way back leaves; the paper's theta times d^1.5 (L2) or d^2 (Linf).
        tries: Draws of noise for a point to start from, where no other input of the data set is one.
    """

    finds_minimum = True

    norm: Norm = "l2"
    steps: int = 32
    queries: int = 100
    gamma: float = 1.0
    tries: int = 50

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "queries", "tries")
        positive(self, "gamma")

    def search(self, problem: Problem) -> Array:
        """Return the nearest point on the boundary of each sample; the input where no start was found."""
        closest = Closest(problem)
        rows = find_starts(problem, closest, self.tries)
        if not len(rows):
            return closest.candidates
        size = math.prod(problem.x.shape[1:])
        theta = self.gamma / (size * math.sqrt(size) if self.norm == "l2" else size * size)
        here = self._return_to_boundary(problem, closest.candidates[rows], rows, theta)
        closest.offer(here, rows, np.ones(len(rows), np.bool_))
        reach = np.full(len(rows), 0.1 * (problem.bounds[1] - problem.bounds[0]))
        for step in range(1, self.steps + 1):
            count = min(int(self.queries * math.sqrt(step)), _MOST_QUERIES)
            normal = self._normal(problem, here, rows, reach, count, step)
            distances = problem.distance.measure(problem.x[rows], here)
            jumped = _jump(problem, here, rows, problem.distance.steepest(normal), distances / math.sqrt(step))
            here = self._return_to_boundary(problem, jumped, rows, theta)
            closest.offer(here, rows, np.ones(len(rows), np.bool_))
            distances = problem.distance.measure(problem.x[rows], here)
            reach = (math.sqrt(size) if self.norm == "l2" else size) * theta * distances
        return closest.candidates

    def _normal(
        self, problem: Problem, here: Array, rows: Rows, reach: NDArray[np.float64], count: int, step: int
    ) -> Array:
        """Estimate the boundary's normal: directions weighted by decision minus mean decision (equation 16)."""
        xp = namespace(here)
        length = per_sample(problem.native(np.maximum(reach, 1e-12)), here)
        weighted = plain = xp.zeros_like(here)
        total = np.zeros(len(rows))
        for drawn in _draws(problem, rows, count, self.norm == "l2", step):
            unit = _EUCLIDEAN.steepest(drawn.reshape((-1, *here.shape[1:]))).reshape(drawn.shape)
            around = xp.clip(here + length * unit, *problem.bounds)
            direction = (around - here) / length  # the direction, cut by the box
            met = np.stack([problem.judge(logits, rows) for logits in problem.logits_of_many(around, rows)])
            decision = np.where(met, 1.0, -1.0)
            weights = problem.native(decision).reshape((*met.shape, *(1 for _ in here.shape[1:])))
            weighted = weighted + xp.sum(weights * direction, axis=0)
            plain = plain + xp.sum(direction, axis=0)
            total += decision.sum(axis=0)
        mean = per_sample(problem.native(np.where(np.abs(total) < count, total / count, 0.0)), here)
        return weighted - mean * plain

    def _return_to_boundary(self, problem: Problem, far: Array, rows: Rows, theta: float) -> Array:
        """Return adversarial points between the inputs and `far`, halving the way until `theta` of it is left.

        In Linf the way is a cube around the input that shrinks: what is outside is cut.
        """
        x, found = problem.x[rows], copy(far)
        xp = namespace(x)
        longest = problem.distance.measure(x, far) if self.norm == "linf" else np.ones(len(rows))
        near, beyond = np.zeros(len(rows)), longest.copy()
        for _ in range(min(_HALVINGS, math.ceil(-math.log2(theta)))):
            middle = (near + beyond) / 2
            share = per_sample(problem.native(middle), x)
            between = x + share * (far - x) if self.norm == "l2" else xp.clip(far, x - share, x + share)
            met = problem.is_adversarial(between, rows)
            found[np.flatnonzero(met)] = between[np.flatnonzero(met)]
            near, beyond = np.where(met, near, middle), np.where(met, middle, beyond)
        return found


def _jump(problem: Problem, here: Array, rows: Rows, direction: Array, length: NDArray[np.float64]) -> Array:
    """Return an adversarial point along the direction, halving the length until one is found; else `here`."""
    xp, found = namespace(here), copy(here)
    going, length = np.arange(len(rows)), length.copy()
    for _ in range(_HALVINGS):
        ahead = here[going] + per_sample(problem.native(length[going]), here) * direction[going]
        ahead = xp.clip(ahead, *problem.bounds)
        met = problem.is_adversarial(ahead, rows[going])
        found[going[met]] = ahead[np.flatnonzero(met)]
        going = going[~met]
        length = length / 2
        if not len(going):
            break
    return found


@attack(
    "spatial",
    norms=("linf", "l2", "l1", "l0"),
    reference="Engstrom et al. 2019, arXiv:1712.02779",
    asks="decisions",
)
@dataclass(frozen=True)
class Spatial(Attack):
    """A grid of rotations and shifts; the successful one nearest to the input in the norm is kept.

    The last two axes of an input are taken as an image; a flat input is one row of pixels. Pixels are read linearly
    between their neighbours, and are the lowest value of the box outside the image. What such an attack may do is
    limited by angle and shift: ask for it with `epsilons=None`; a finite budget cuts what it has found.

    Args:
        degrees: Largest turn to either side.
        share: Largest shift, as a share of each side of the image.
        turns: Angles of the grid.
        shifts: Shifts of the grid in each direction; a sample costs up to `turns * shifts * shifts` queries.
    """

    finds_minimum = True

    degrees: float = 30.0
    share: float = 0.1
    turns: int = 31
    shifts: int = 5

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "turns", "shifts")
        fraction(self, "share")
        if not 0 <= self.degrees <= 180:
            raise InvalidInput(f"Spatial expects degrees from 0 to 180, got {self.degrees}")

    def search(self, problem: Problem) -> Array:
        """Return the nearest adversarial image of each sample; the input where none of the grid is adversarial."""
        closest, (_, height, width) = Closest(problem), image_shape(problem.x)
        steps = _grid(1.0, self.shifts)
        places = [
            (math.radians(degrees), self.share * height * down, self.share * width * across)
            for degrees, down, across in product(_grid(self.degrees, self.turns), steps, steps)
        ]
        together = max(1, _ASKED // len(problem.x))
        for start in range(0, len(places), together):
            moved = _rotate_and_shift(problem, places[start : start + together])
            for candidate, logits in zip(moved, problem.logits_of_many(moved, problem.rows), strict=True):
                closest.offer(candidate, problem.rows, problem.judge(logits, problem.rows))
        return closest.candidates


def _grid(end: float, count: int) -> list[float]:
    """`count` values from `-end` to `end`; of one value, 0."""
    return [float(value) for value in np.linspace(-end, end, count)] if count > 1 else [0.0]


def _rotate_and_shift(problem: Problem, places: Sequence[tuple[float, float, float]]) -> Array:
    """Rotate all images around their middle, then shift them by that many pixels, for each of `places`.

    Args:
        places: Angles, and pixels down and across.

    Returns:
        `(len(places), n, ...)`.
    """
    x, low = problem.x, problem.bounds[0]
    xp, (channels, height, width) = namespace(x), image_shape(x)
    pixels = as_images(x).reshape(len(x), channels, height * width) - low
    readings = [_readings(height, width, *place) for place in places]
    pixels_read = np.stack([found for found, _ in readings], axis=1)  # (4, places, pixels)
    weights = problem.native(np.stack([found for _, found in readings], axis=1))
    moved = sum(pixels[:, :, from_numpy(pixels_read[part], x)] * weights[part] for part in range(len(weights)))
    images = xp.moveaxis(moved + low, 2, 0)
    return xp.clip(images.reshape((len(places), *x.shape)), *problem.bounds)


def _readings(
    height: int, width: int, angle: float, down: float, across: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the four pixels that each new pixel is read from, `(4, pixels)`, and their weights; 0 outside."""
    row, column = np.mgrid[:height, :width].reshape(2, -1).astype(np.float64)
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    row, column = row - middle[0] - down, column - middle[1] - across
    row, column = (
        math.cos(angle) * row - math.sin(angle) * column + middle[0],
        math.sin(angle) * row + math.cos(angle) * column + middle[1],
    )
    at_row = np.floor(row) + np.array([[0], [0], [1], [1]])
    at_column = np.floor(column) + np.array([[0], [1], [0], [1]])
    weights = (1 - np.abs(row - at_row)) * (1 - np.abs(column - at_column))
    inside = (at_row >= 0) & (at_row < height) & (at_column >= 0) & (at_column < width)
    return np.where(inside, at_row * width + at_column, 0).astype(np.int64), np.where(inside, weights, 0.0)


Kind = Literal["uniform", "gaussian"]


@attack(
    "plain-noise",
    norms=("linf", "l2", "l1"),
    reference="Rauber et al. 2017, arXiv:1707.04131",
    asks="decisions",
)
@dataclass(frozen=True)
class PlainNoise(Attack):
    """Noise scaled to the whole budget, drawn again until it succeeds: the baseline for every attack.

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
        """Return the first adversarial draw of each sample, else the last one."""
        found, rows = copy(problem.x), problem.rows
        for group in range(0, self.draws, _DRAWN[0]):
            whole = rows  # the rows that the noise is drawn for
            for noise in self._noise(problem, whole, min(_DRAWN[0], self.draws - group), group):
                at = take(noise, np.searchsorted(whole, rows)) if len(rows) < len(whole) else noise
                candidates = problem.project(take(problem.x, rows) + at, rows)
                found[rows] = candidates
                rows = rows[~problem.is_adversarial(candidates, rows)]
                if not len(rows):
                    return found
        return found

    def _noise(self, problem: Problem, rows: Rows, count: int, group: int) -> Iterator[Array]:
        """Yield `(len(rows), ...)` noise of the length of the budget, `count` times."""
        for drawn in _draws(problem, rows, count, self.kind == "gaussian", group):
            noise = drawn.reshape((-1, *problem.x.shape[1:]))
            lengths = problem.distance.measure(namespace(noise).zeros_like(noise), noise).reshape(drawn.shape[:2])
            scale = problem.native(problem.epsilon[rows] / np.maximum(lengths, 1e-300))
            yield from drawn * scale.reshape((*lengths.shape, *(1 for _ in problem.x.shape[1:])))
