"""The loss over a plane through the parameters, or along a line between two sets of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidLandscape
from .plane import Kind, PathPoint, Plane, Weights

__all__ = ["Loss", "Surface", "between", "surface"]

#: The loss of the model with these parameters, on data that does not change between calls.
Loss = Callable[[Weights], float]


@dataclass(frozen=True, slots=True)
class Surface:
    """The loss over a plane.

    Args:
        x, y: The coordinates of columns and rows, ascending.
        losses: `losses[row][column]`; NaN and infinities are kept.
        center_loss: At (0, 0).
        path: The training on the plane; `explained` is the share of its squared length that each axis shows.
    """

    kind: Kind
    x: tuple[float, ...]
    y: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]
    center_loss: float
    path: tuple[PathPoint, ...]
    explained: tuple[float, float]

    @property
    def lowest(self) -> tuple[float, float, float]:
        """x, y and loss of the lowest finite point; NaN where nothing is finite."""
        losses = np.array(self.losses)
        if not np.isfinite(losses).any():
            return (float("nan"),) * 3
        row, column = np.unravel_index(np.argmin(np.where(np.isfinite(losses), losses, np.inf)), losses.shape)
        return self.x[column], self.y[row], float(losses[row, column])


def surface(
    loss: Loss, plane: Plane, *, resolution: int = 21, progress: Callable[[float], None] | None = None
) -> Surface:
    """The loss at `resolution * resolution` points of the plane, one call each, and one at its center.

    Args:
        resolution: Points on each axis; odd ones have the center of a symmetric plane among them.
        progress: Told the share that is done, after every row.

    Raises:
        InvalidLandscape: The resolution is below 2.
    """
    if resolution < 2:
        raise InvalidLandscape(f"resolution expects 2 points on an axis or more, got {resolution}")
    x, y = (np.linspace(*ends, resolution).tolist() for ends in (plane.x, plane.y))
    rows = []
    for number, at_y in enumerate(y):
        rows.append(tuple(float(loss(plane.at(at_x, at_y))) for at_x in x))
        if progress is not None:
            progress((number + 1) / resolution)
    center = float(loss(plane.at(0.0, 0.0)))
    return Surface(plane.kind, tuple(x), tuple(y), tuple(rows), center, plane.path, plane.explained)


def between(loss: Loss, first: Weights, last: Weights, *, points: int = 21) -> tuple[tuple[float, float], ...]:
    """(share of the way, loss) on the straight line from one set of weights to another, both ends included.

    Reference:
        Goodfellow et al. 2015, arXiv:1412.6544, section 3: a barrier shows as a hill between two runs.
    """
    if points < 2:
        raise InvalidLandscape(f"points expects 2 or more, got {points}")
    away = {name: np.asarray(last[name], np.float64) - value.astype(np.float64) for name, value in first.items()}
    still = {name: np.zeros(value.shape) for name, value in first.items()}
    line = Plane("path", first, away, still, (0.0, 1.0), (0.0, 0.0))
    return tuple((share, float(loss(line.at(share, 0.0)))) for share in np.linspace(0.0, 1.0, points).tolist())
