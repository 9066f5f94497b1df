"""Landscapes in a store: weights that a run has dumped, and surfaces as events of runs of kind `evaluation`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ...storage import Blobs, Event, Run, Store
from ..errors import InvalidLandscape
from .plane import PathPoint, Weights
from .surface import Surface

__all__ = ["dumped_weights", "stored_surfaces", "surfaces_in", "write_surface"]

_KIND = "landscape"
_ALL = 1_000_000_000


def dumped_weights(store: Store, run: Run, blobs: Blobs, *, rank: int = 0) -> dict[int, Weights]:
    """The weights by step, of those steps at which all that were ever dumped are there.

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
    sites = {site for found in events.values() for site in found}
    return {
        step: {site: blobs.get(str(found[site].data["digest"])) for site in sorted(sites)}
        for step, found in sorted(events.items())
        if set(found) == sites
    }


def write_surface(store: Store, surface: Surface, *, parent: str | None = None, name: str = "landscape") -> Run:
    """The run of kind `evaluation` that now holds the surface.

    Args:
        parent: The training that the weights are of: its id, name, or `latest`.

    Raises:
        RunNotFound: No run answers to that.
    """
    of = None if parent is None else store.find_run(parent).id
    writer = store.begin_run(name, kind="evaluation", parent=of, tags={"landscape": surface.kind})
    writer.write_events([Event(_KIND, 0, data=asdict(surface))])
    writer.close()
    return writer.run


def stored_surfaces(store: Store, run: str, *, limit: int = 1000) -> tuple[tuple[Run, Surface], ...]:
    """The surfaces of the run and of its evaluations, newest first.

    Args:
        limit: How many of the store's newest runs are looked at.
    """
    found = [one for one in store.runs(limit=limit) if run in (one.id, one.parent)]
    return tuple((one, made) for one in found for made in surfaces_in(store, one.id))


def surfaces_in(store: Store, run: str) -> tuple[Surface, ...]:
    """The surfaces that a run holds itself, in their order; evaluations of it are runs of their own."""
    return tuple(_surface(event.data) for event in store.events(run, kind=_KIND))


def _surface(data: Mapping[str, Any]) -> Surface:  # Any: what `write_surface` has written
    path = tuple(PathPoint(**point) for point in data["path"])
    losses = tuple(tuple(row) for row in data["losses"])
    first, second = data["explained"]
    return Surface(data["kind"], tuple(data["x"]), tuple(data["y"]), losses, data["center_loss"], path, (first, second))
