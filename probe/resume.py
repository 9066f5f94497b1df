"""Where earlier runs ended, and what differs in a run that resumes from there."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from ..storage import Event, Run, Store
from ..storage.records import Json

_log = logging.getLogger(__name__)
#: Runs of the same name whose last points are read when no resumed run was given: enough for a run that was stopped
#: and resumed now and then, few enough to be read in milliseconds. Our choice.
_MOST_RUNS: Final = 8


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """What a run told of itself at one moment, as its event `resume_point` says.

    Args:
        run: Its id.
        step: The last step before.
        checksum: Of all parameters; `parameters` of each.
        is_declared: Whether the user said that the new run resumes it.
    """

    run: str
    step: int
    checksum: str
    parameters: Mapping[str, Json]
    learning_rates: tuple[Json, ...]
    counts: tuple[Json, ...]
    generators: Mapping[str, Json]
    is_declared: bool

    @classmethod
    def of(cls, run: str, event: Event, *, is_declared: bool) -> Self:
        """Return the point that this event describes."""
        data = event.data
        parameters, generators = data.get("parameters"), data.get("generators")
        rates, counts = data.get("learning_rates"), data.get("counts")
        return cls(
            run=run,
            step=event.step,
            checksum=str(data.get("checksum")),
            parameters=parameters if isinstance(parameters, dict) else {},
            learning_rates=tuple(rates) if isinstance(rates, list) else (),
            counts=tuple(counts) if isinstance(counts, list) else (),
            generators=generators if isinstance(generators, dict) else {},
            is_declared=is_declared,
        )


def resume_points(store: Store, name: str, resumed: str | None, *, rank: int) -> tuple[ResumePoint, ...]:
    """Return the points from which a new run may resume, the latest first.

    Args:
        name: Of the new run; earlier ones of this name are looked at where nothing was said.
        resumed: The run that the user says is resumed: an id, a unique prefix, a name or `latest`.

    Raises:
        RunNotFound: There is no such run.
    """
    if resumed is None:
        return tuple(_unasked(store, name, rank))
    run = store.find_run(resumed)
    found = tuple(_points(store, run.id, rank, is_declared=True)) if rank in run.ranks else ()
    if not found:
        _log.warning("run %s left no resume point of rank %d: nothing can be compared with it", run.id, rank)
    return found


def _unasked(store: Store, name: str, rank: int) -> Iterator[ResumePoint]:
    """Yield points of earlier runs of this name; what cannot be read is left out, since nobody requested it.

    The run that begins may be among them, when another rank has begun it already; it has no points yet.
    """
    for run in _earlier(store):
        if run.name == name and rank in run.ranks:
            try:
                yield from tuple(_points(store, run.id, rank, is_declared=False))
            except Exception as error:  # noqa: BLE001  a look that nobody asked for must never stop a training
                _log.debug("run %s is not looked at for what this one may resume: %s", run.id, error)


def _earlier(store: Store) -> tuple[Run, ...]:
    try:
        return store.runs(limit=_MOST_RUNS)
    except Exception as error:  # noqa: BLE001  as in `_unasked`; such as files that another process deletes meanwhile
        _log.debug("earlier runs are not looked at for what this one may resume: %s", error)
        return ()


def _points(store: Store, run: str, rank: int, *, is_declared: bool) -> Iterator[ResumePoint]:
    for event in reversed(store.events(run, rank=rank, kind="resume_point", limit=16)):
        yield ResumePoint.of(run, event, is_declared=is_declared)


_MOST: Final = 16


def resume_differences(points: Sequence[ResumePoint], current: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the data of the event `resume_seam`; None where this run resumes from none of the points.

    Args:
        points: The latest first. The first with the same parameters is the one; else the first that was declared.
        current: What a resume point of this run would say at its first step.
    """
    same = [point for point in points if point.checksum == current["checksum"]]
    declared = [point for point in points if point.is_declared]
    if not (same or declared):
        return None
    point = (same or declared)[0]
    parameters, generators = _named(current["parameters"]), _named(current["generators"])
    changed: list[Json] = [
        site
        for site in dict.fromkeys((*point.parameters, *parameters))
        if point.parameters.get(site) != parameters.get(site)
    ]
    return {
        "run": point.run,
        "step": point.step,
        "is_declared": point.is_declared,
        "is_same_parameters": bool(same),
        "changed": changed[:_MOST],
        "learning_rates_before": list(point.learning_rates),
        "learning_rates": current["learning_rates"],
        "counts_before": list(point.counts),
        "counts": current["counts"],
        "generators_changed": [
            name for name, state in generators.items() if point.generators.get(name, state) != state
        ],
    }


def _named(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
