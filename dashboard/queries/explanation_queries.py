"""Loss surfaces and explanations of a run's model, from the run itself and from its evaluations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ...insight.landscape import Surface, surfaces_in
from ...insight.saliency import Explanation, explanations_in
from ...storage import Run, RunNotFound, Store
from .reader import Reader

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class StoredSurface:
    """A surface with the word that an address calls it by: the id of the run that holds it, and which of several."""

    key: str
    name: str
    surface: Surface


def surfaces(reader: Reader, run: Run) -> tuple[StoredSurface, ...]:
    """Return the surfaces of the run and of its evaluations, newest first."""
    found = []
    for holder, stored in _stored(reader, run, "surfaces", surfaces_in):
        for at, surface in enumerate(stored):
            along = "its own path" if surface.kind == "path" else "random directions"
            name = f"{along}, {len(surface.y)} × {len(surface.x)} · {holder.id[-4:]}"
            found.append(StoredSurface(holder.id if at == 0 else f"{holder.id}:{at}", name, surface))
    return tuple(found)


def explanations(reader: Reader, run: Run) -> dict[str, tuple[Explanation, ...]]:
    """Return the explanations by sample: one for every method, the newest where the same was made twice."""
    newest: dict[tuple[str, str, str], Explanation] = {}
    for _, stored in _stored(reader, run, "explanations", explanations_in):
        for explanation in stored:
            newest.setdefault((explanation.sample, explanation.target, explanation.method), explanation)
    by_sample: dict[str, list[Explanation]] = {}
    for explanation in newest.values():
        by_sample.setdefault(explanation.sample, []).append(explanation)
    return {sample: tuple(by_sample[sample]) for sample in sorted(by_sample, key=_by_number)}


def surface_holders(reader: Reader, run: Run) -> list[str]:
    """Return the ids of the run and of its finished evaluations: when they change, there may be more to see."""
    return [holder.id for holder in _about(reader, run) if holder.state != "running" or holder.id == run.id]


def _about(reader: Reader, run: Run) -> list[Run]:
    return [candidate for candidate in reader.runs() if run.id in (candidate.id, candidate.parent)]


def _by_number(sample: str) -> tuple[int, int, str]:
    return (0, int(sample), "") if sample.isascii() and sample.isdigit() else (1, 0, sample)


def _stored(
    reader: Reader, run: Run, key: str, read: Callable[[Store, str], tuple[Found, ...]]
) -> list[tuple[Run, tuple[Found, ...]]]:
    """Read what the run and its evaluations hold, cached by their own versions: they change independently."""
    found = []
    for holder in _about(reader, run):
        try:
            stored = reader.cached(holder.id, key, lambda store, holder=holder: read(store, holder.id))  # type: ignore[misc]
        except RunNotFound:
            continue  # deleted since the runs were listed
        if stored:
            found.append((holder, stored))
    return found
