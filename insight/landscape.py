"""The loss around a model's weights: along random directions, along the training's path, between two runs."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..storage import Blobs, Event, Run, Store
from .errors import InvalidLandscape

__all__ = [
    "Loss",
    "PathPoint",
    "Plane",
    "Surface",
    "Weights",
    "along_path",
    "between",
    "dumped_weights",
    "filter_normalised",
    "stored_surfaces",
    "surface",
    "surfaces_in",
    "through",
    "write_surface",
]

#: Parameters by their sites, as arrays of any floating dtype.
Weights = Mapping[str, NDArray[np.generic]]
#: Directions in the space of the parameters, by their sites.
Directions = Mapping[str, NDArray[np.float64]]
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
        first, second: Directions with the shapes of the center.
        x, y: The range of the coordinates.
        path: The training, oldest first; empty for random directions.
        explained: Share of the path's squared length that lies along each direction; NaN for random ones.
    """

    kind: Kind
    center: Weights
    first: Directions
    second: Directions
    x: tuple[float, float]
    y: tuple[float, float]
    path: tuple[PathPoint, ...] = ()
    explained: tuple[float, float] = (float("nan"), float("nan"))

    def at(self, x: float, y: float) -> dict[str, NDArray[np.generic]]:
        """Return the parameters at a point, computed in float64, in the center's dtypes."""
        return {
            name: (value.astype(np.float64) + x * self.first[name] + y * self.second[name]).astype(value.dtype)
            for name, value in self.center.items()
        }


def through(weights: Weights, *, seed: int = 0, extent: float = 1.0) -> Plane:
    """Return the plane through the weights along two random, filter-normalised directions.

    Args:
        extent: Range to either side; 1 is the distance of the weights from zero.
    """
    _check(weights)
    rng = np.random.default_rng(seed)
    first, second = filter_normalised(weights, rng), filter_normalised(weights, rng)
    return Plane("random", weights, first, second, (-extent, extent), (-extent, extent))


def filter_normalised(weights: Weights, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Return a random direction whose filters have the norms of the weights' filters; zero in vectors and scalars.

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
    """Return the plane through the last weights along the two principal components of the training's path.

    Args:
        snapshots: The weights at three steps or more.

    Raises:
        InvalidLandscape: There are fewer, their parameters differ, or the training has not moved.

    Reference:
        Li et al. 2018, arXiv:1712.09913, section 7: components of the differences to the final weights.
    """
    steps = sorted(snapshots)
    if len(steps) < 3:
        raise InvalidLandscape(f"a path expects the weights at 3 or more steps, got {len(steps)}; dump more of them")
    center = snapshots[steps[-1]]
    for weights in snapshots.values():
        _check(weights, center)
    if sum(value.size for value in center.values()) < 2:
        raise InvalidLandscape("a plane expects two or more numbers among the weights, got one")
    moved = np.stack([_flat(snapshots[step]) - _flat(center) for step in steps])
    _, sizes, components = np.linalg.svd(moved[:-1], full_matrices=False)
    if not sizes[0] > 0.0:
        raise InvalidLandscape(f"the weights of steps {steps[0]} to {steps[-1]} are all equal; there is no path")
    places = moved @ components[:2].T
    path = tuple(PathPoint(step, float(x), float(y)) for step, (x, y) in zip(steps, places, strict=True))
    length = float((sizes**2).sum())
    first, second = (_shaped(component, center) for component in components[:2])
    share = float(sizes[0] ** 2) / length, float(sizes[1] ** 2) / length
    return Plane(
        kind="path",
        center=center,
        first=first,
        second=second,
        x=_range(places[:, 0]),
        y=_range(places[:, 1]),
        path=path,
        explained=share,
    )


def _range(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the values' range with a margin; a straight path, which has no width, gets 1e-6."""
    low, high = float(values.min()), float(values.max())
    margin = _MARGIN * (high - low) or 1e-6
    return low - margin, high + margin


def _flat(weights: Weights) -> NDArray[np.float64]:
    return np.concatenate([weights[name].astype(np.float64).ravel() for name in sorted(weights)])


def _shaped(flat: NDArray[np.float64], template: Weights) -> dict[str, NDArray[np.float64]]:
    found, start = {}, 0
    for name in sorted(template):
        end = start + template[name].size
        found[name] = flat[start:end].reshape(template[name].shape)
        start = end
    return {name: found[name] for name in template}


def _check(weights: Weights, template: Weights | None = None) -> None:
    if not weights:
        raise InvalidLandscape("weights expects at least one parameter, got none")
    for name, value in weights.items():
        if not np.isfinite(np.asarray(value, dtype=np.float64)).all():
            raise InvalidLandscape(f"weight {name!r} is not finite; choose an earlier step")
        if template is not None and (name not in template or template[name].shape != value.shape):
            expected = template[name].shape if name in template else "none"
            raise InvalidLandscape(f"weight {name!r} has shape {value.shape} at one step and {expected} at the last")
    if template is not None and len(template) != len(weights):
        missing = next(name for name in template if name not in weights)
        raise InvalidLandscape(f"weight {missing!r} is missing at one of the steps; dump all of them together")


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
    """Compute the loss at `resolution * resolution` points of the plane, one call each, and at its center.

    Args:
        resolution: Points on each axis; odd ones have the center of a symmetric plane among them.
        progress: Called with the finished share after every row.

    Raises:
        InvalidLandscape: The resolution is below 2.
    """
    if resolution < 2:
        raise InvalidLandscape(f"resolution expects 2 or more points on an axis, got {resolution}")
    x, y = (np.linspace(*ends, resolution).tolist() for ends in (plane.x, plane.y))
    rows = []
    for number, at_y in enumerate(y):
        rows.append(tuple(float(loss(plane.at(at_x, at_y))) for at_x in x))
        if progress is not None:
            progress((number + 1) / resolution)
    center = float(loss(plane.at(0.0, 0.0)))
    return Surface(
        kind=plane.kind,
        x=tuple(x),
        y=tuple(y),
        losses=tuple(rows),
        center_loss=center,
        path=plane.path,
        explained=plane.explained,
    )


def between(loss: Loss, first: Weights, last: Weights, *, points: int = 21) -> tuple[tuple[float, float], ...]:
    """Yield (share of the way, loss) on the straight line between two sets of weights, both ends included.

    Reference:
        Goodfellow et al. 2015, arXiv:1412.6544, section 3: a barrier shows as a hill between two runs.
    """
    if points < 2:
        raise InvalidLandscape(f"points expects 2 or more, got {points}")
    away = {name: np.asarray(last[name], np.float64) - value.astype(np.float64) for name, value in first.items()}
    still = {name: np.zeros(value.shape) for name, value in first.items()}
    line = Plane("path", first, away, still, (0.0, 1.0), (0.0, 0.0))
    return tuple((share, float(loss(line.at(share, 0.0)))) for share in np.linspace(0.0, 1.0, points).tolist())


_KIND = "landscape"
_ALL = 1_000_000_000


def dumped_weights(store: Store, run: Run, blobs: Blobs, *, rank: int | None = None) -> dict[int, Weights]:
    """Return the weights by step, for the steps at which every dumped weight is present.

    Raises:
        InvalidLandscape: The run has dumped none.
        StoreUnavailable, StoreDamaged: A file is not there, or not what was written.
    """
    events: dict[int, dict[str, Event]] = {}
    for event in store.events(run.id, rank=rank, kind="tensor", limit=_ALL):
        if event.data["subject"] == "weight":
            events.setdefault(event.step, {})[event.site] = event
    if not events:
        raise InvalidLandscape(
            f"run {run.name!r} has dumped no weights; configure `dump: {{subjects: [weight], when: {{every: 50}}}}`"
        )
    sites = {site for step_events in events.values() for site in step_events}
    return {
        step: {site: blobs.get(str(step_events[site].data["digest"])) for site in sorted(sites)}
        for step, step_events in sorted(events.items())
        if set(step_events) == sites
    }


def write_surface(store: Store, surface: Surface, *, parent: str | None = None, name: str = "landscape") -> Run:
    """Write the surface into a run of kind `evaluation` and return that run.

    Args:
        parent: The training that the weights belong to: its id, name, or `latest`.

    Raises:
        RunNotFound: No run answers to that.
    """
    of = None if parent is None else store.find_run(parent).id
    writer = store.begin_run(name, kind="evaluation", parent=of, tags={"landscape": surface.kind})
    writer.write_events([Event(_KIND, 0, data=asdict(surface))])
    writer.close()
    return writer.run


def stored_surfaces(store: Store, run: str, *, limit: int = 1000) -> tuple[tuple[Run, Surface], ...]:
    """Return the surfaces of the run and of its evaluations, newest first.

    Args:
        limit: Number of the store's newest runs to search.
    """
    found = [candidate for candidate in store.runs(limit=limit) if run in (candidate.id, candidate.parent)]
    return tuple((holder, stored) for holder in found for stored in surfaces_in(store, holder.id))


def surfaces_in(store: Store, run: str) -> tuple[Surface, ...]:
    """Return the surfaces that a run itself holds, in order; its evaluations are separate runs."""
    return tuple(_surface(event.data) for event in store.events(run, kind=_KIND))


def _surface(data: Mapping[str, Any]) -> Surface:  # Any: what `write_surface` has written
    path = tuple(PathPoint(**point) for point in data["path"])
    losses = tuple(tuple(row) for row in data["losses"])
    first, second = data["explained"]
    return Surface(
        kind=data["kind"],
        x=tuple(data["x"]),
        y=tuple(data["y"]),
        losses=losses,
        center_loss=data["center_loss"],
        path=path,
        explained=(first, second),
    )
