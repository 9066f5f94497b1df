"""Spatial: a turn and a shift that a person hardly notices, all of a grid tried; it asks for decisions alone."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, from_numpy, namespace
from ..arrays.images import as_images, image_shape
from ..contract.attack import Attack
from ..contract.options import at_least, fraction
from ..contract.registry import attack
from ..errors import InvalidInput
from ..problem import Problem
from ..search.closest import Closest


@attack(
    "spatial",
    norms=("linf", "l2", "l1", "l0"),
    reference="Engstrom et al. 2019, arXiv:1712.02779",
    asks="decisions",
)
@dataclass(frozen=True)
class Spatial(Attack):
    """The grid of turns and shifts; of those that succeed the nearest to the input in the norm is kept.

    The last two axes of an input are taken for a picture; a flat input is one row of pixels. Pixels are read linearly
    between their neighbours, and are the lowest value of the box outside the picture. What such an attack may do is
    limited by angle and shift: ask for it with `epsilons=None`; a finite budget cuts what it has found.

    Args:
        degrees: Largest turn to either side.
        share: Largest shift, as a share of each side of the picture.
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
        """The nearest adversarial picture of each sample; the input where none of the grid is one."""
        closest, (_, height, width) = Closest(problem), image_shape(problem.x)
        steps = _grid(1.0, self.shifts)
        for degrees, down, across in product(_grid(self.degrees, self.turns), steps, steps):
            moved = _moved(problem, degrees, self.share * height * down, self.share * width * across)
            closest.offer(moved, problem.rows, problem.is_adversarial(moved, problem.rows))
        return closest.candidates


def _grid(end: float, count: int) -> list[float]:
    """`count` values from `-end` to `end`; of one value, 0."""
    return [float(value) for value in np.linspace(-end, end, count)] if count > 1 else [0.0]


def _moved(problem: Problem, degrees: float, down: float, across: float) -> Array:
    """All pictures, turned around the middle and then shifted by that many pixels."""
    x, low = problem.x, problem.bounds[0]
    images = as_images(x)
    channels, height, width = image_shape(x)
    pixels = images.reshape(len(x), channels, height * width)
    moved: Array = low
    for places, weights in _readings(height, width, math.radians(degrees), down, across):
        moved = moved + (pixels[:, :, from_numpy(places, x)] - low) * problem.native(weights)
    return namespace(x).clip(moved.reshape(x.shape), *problem.bounds)


def _readings(
    height: int, width: int, angle: float, down: float, across: float
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Which four pixels each pixel of the new picture is read from, and with which weights; 0 outside."""
    row, column = np.mgrid[:height, :width].reshape(2, -1).astype(np.float64)
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    row, column = row - middle[0] - down, column - middle[1] - across
    row, column = (
        math.cos(angle) * row - math.sin(angle) * column + middle[0],
        math.sin(angle) * row + math.cos(angle) * column + middle[1],
    )
    found = []
    for up, left in product((0, 1), (0, 1)):
        at_row, at_column = np.floor(row) + up, np.floor(column) + left
        weights = (1 - np.abs(row - at_row)) * (1 - np.abs(column - at_column))
        inside = (at_row >= 0) & (at_row < height) & (at_column >= 0) & (at_column < width)
        places = np.where(inside, at_row * width + at_column, 0).astype(np.int64)
        found.append((places, np.where(inside, weights, 0.0)))
    return found
