"""Loss surfaces and explanations of a run's model: what the run holds itself, and what its evaluations hold."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ...insight.landscape import Surface, surfaces_in
from ...insight.saliency import Explanation, explanations_in
from ...storage import Run, RunNotFound, Store
from .reader import Reader

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class KeptSurface:
    """A surface with the word that an address calls it by: the id of the run that holds it, and which of several."""

    key: str
    name: str
    surface: Surface


def surfaces(reader: Reader, run: Run) -> tuple[KeptSurface, ...]:
    """The surfaces of the run and of its evaluations, newest first."""
    found = []
    for one, held in _held(reader, run, "surfaces", surfaces_in):
        for at, surface in enumerate(held):
            along = "its own path" if surface.kind == "path" else "random directions"
            name = f"{along}, {len(surface.y)} × {len(surface.x)} · {one.id[-4:]}"
            found.append(KeptSurface(one.id if at == 0 else f"{one.id}:{at}", name, surface))
    return tuple(found)


def explanations(reader: Reader, run: Run) -> dict[str, tuple[Explanation, ...]]:
    """By sample, in their order: one for every method, the newest where the same was made twice."""
    newest: dict[tuple[str, str, str], Explanation] = {}
    for _, held in _held(reader, run, "explanations", explanations_in):
        for one in held:
            newest.setdefault((one.sample, one.target, one.method), one)
    by_sample: dict[str, list[Explanation]] = {}
    for one in newest.values():
        by_sample.setdefault(one.sample, []).append(one)
    return {sample: tuple(by_sample[sample]) for sample in sorted(by_sample, key=_by_number)}


def holders(reader: Reader, run: Run) -> list[str]:
    """The ids of the run and of its evaluations that are over: when they change, there may be more to see."""
    return [one.id for one in _about(reader, run) if one.state != "running" or one.id == run.id]


def _about(reader: Reader, run: Run) -> list[Run]:
    return [one for one in reader.runs() if run.id in (one.id, one.parent)]


def _by_number(sample: str) -> tuple[int, int, str]:
    return (0, int(sample), "") if sample.isascii() and sample.isdigit() else (1, 0, sample)


def _held(
    reader: Reader, run: Run, key: str, read: Callable[[Store, str], tuple[Found, ...]]
) -> list[tuple[Run, tuple[Found, ...]]]:
    """What each of them holds, kept by its own version: an evaluation does not change the run that it is about."""
    found = []
    for one in _about(reader, run):
        try:
            held = reader.cached(one.id, key, lambda store, one=one: read(store, one.id))  # type: ignore[misc]
        except RunNotFound:
            continue  # deleted since the runs were listed
        if held:
            found.append((one, held))
    return found
