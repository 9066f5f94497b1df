"""Planes through a model's parameters: two random directions, or the two along which a training has moved most."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidLandscape

__all__ = ["PathPoint", "Plane", "Weights", "along_path", "filter_normalised", "through"]

#: Parameters by their sites, as arrays of any floating dtype.
Weights = Mapping[str, NDArray[Any]]
Kind = Literal["random", "path"]

#: How far beyond the path's ends the plane goes, as a share of its length on that axis. Our choice.
_MARGIN = 0.2


@dataclass(frozen=True, slots=True)
class PathPoint:
    """Where the training was at a step, as seen on the plane."""

    step: int
    x: float
    y: float


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """The points `center + x * first + y * second`.

    Args:
        first, second: Directions of the center's shapes.
        x, y: The range of the coordinates.
        path: The training, oldest first; empty for random directions.
        explained: Share of the path's squared length that lies along each direction; NaN for random ones.
    """

    kind: Kind
    center: Weights
    first: Weights
    second: Weights
    x: tuple[float, float]
    y: tuple[float, float]
    path: tuple[PathPoint, ...] = ()
    explained: tuple[float, float] = (float("nan"), float("nan"))

    def at(self, x: float, y: float) -> dict[str, NDArray[Any]]:
        """The parameters at a point, computed in float64, in the center's own dtypes."""
        return {
            name: (value.astype(np.float64) + x * self.first[name] + y * self.second[name]).astype(value.dtype)
            for name, value in self.center.items()
        }


def through(weights: Weights, *, seed: int = 0, extent: float = 1.0) -> Plane:
    """The plane through the weights along two random, filter-normalised directions.

    Args:
        extent: How far it goes on either side; 1 is as far as the weights are from zero.
    """
    _check(weights)
    rng = np.random.default_rng(seed)
    first, second = filter_normalised(weights, rng), filter_normalised(weights, rng)
    return Plane("random", weights, first, second, (-extent, extent), (-extent, extent))


def filter_normalised(weights: Weights, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """A normal direction each of whose filters has the norm of the weights' own; zero in vectors and scalars.

    A filter is one index of the first axis. So a network and its rescaled twin, whose layers are `a` and `1 / a` times
    as large, show the same landscape. Biases and the gains of normalisation stay as they are.

    Reference:
        Li et al. 2018, arXiv:1712.09913, section 4.
    """
    found = {}
    for name, value in weights.items():
        direction = rng.standard_normal(value.shape)
        if value.ndim < 2:
            found[name] = np.zeros(value.shape)
            continue
        axes = tuple(range(1, value.ndim))
        own = np.sqrt((value.astype(np.float64) ** 2).sum(axis=axes, keepdims=True))
        drawn = np.sqrt((direction**2).sum(axis=axes, keepdims=True))
        found[name] = direction * (own / np.where(drawn > 0.0, drawn, 1.0))
    return found


def along_path(snapshots: Mapping[int, Weights]) -> Plane:
    """The plane through the last weights along the two principal components of the way there.

    Args:
        snapshots: The weights at three steps or more.

    Raises:
        InvalidLandscape: There are fewer, their parameters differ, or the training has not moved.

    Reference:
        Li et al. 2018, arXiv:1712.09913, section 7: components of the differences to the final weights.
    """
    steps = sorted(snapshots)
    if len(steps) < 3:
        raise InvalidLandscape(f"a path expects the weights at 3 steps or more, got {len(steps)}; dump more of them")
    center = snapshots[steps[-1]]
    for weights in snapshots.values():
        _check(weights, center)
    if sum(value.size for value in center.values()) < 2:
        raise InvalidLandscape("a plane expects two numbers among the weights or more, got one")
    moved = np.stack([_flat(snapshots[step]) - _flat(center) for step in steps])
    _, sizes, components = np.linalg.svd(moved[:-1], full_matrices=False)
    if not sizes[0] > 0.0:
        raise InvalidLandscape(f"the weights of steps {steps[0]} to {steps[-1]} are all equal; there is no path")
    places = moved @ components[:2].T
    path = tuple(PathPoint(step, float(x), float(y)) for step, (x, y) in zip(steps, places, strict=True))
    length = float((sizes**2).sum())
    first, second = (_shaped(component, center) for component in components[:2])
    ranges = _range(places[:, 0]), _range(places[:, 1])
    share = float(sizes[0] ** 2) / length, float(sizes[1] ** 2) / length
    return Plane("path", center, first, second, *ranges, path, share)


def _range(values: NDArray[np.float64]) -> tuple[float, float]:
    """Some way around the values; a straight path, without width, gets a tenth of nothing and more."""
    low, high = float(values.min()), float(values.max())
    margin = _MARGIN * (high - low) or 1e-6
    return low - margin, high + margin


def _flat(weights: Weights) -> NDArray[np.float64]:
    return np.concatenate([weights[name].astype(np.float64).ravel() for name in sorted(weights)])


def _shaped(flat: NDArray[np.float64], like: Weights) -> dict[str, NDArray[np.float64]]:
    found, start = {}, 0
    for name in sorted(like):
        end = start + like[name].size
        found[name] = flat[start:end].reshape(like[name].shape)
        start = end
    return {name: found[name] for name in like}


def _check(weights: Weights, like: Weights | None = None) -> None:
    if not weights:
        raise InvalidLandscape("weights expects at least one parameter, got none")
    for name, value in weights.items():
        if not np.isfinite(np.asarray(value, dtype=np.float64)).all():
            raise InvalidLandscape(f"weight {name!r} is not finite; take a step before it broke")
        if like is not None and (name not in like or like[name].shape != value.shape):
            told = like[name].shape if name in like else "none"
            raise InvalidLandscape(f"weight {name!r} has shape {value.shape} at one step and {told} at the last")
    if like is not None and len(like) != len(weights):
        missing = next(name for name in like if name not in weights)
        raise InvalidLandscape(f"weight {missing!r} is missing at one of the steps; dump all of them together")
