"""The seam between a run and the one it resumes: what was kept, and what is another."""

from collections.abc import Mapping, Sequence
from typing import Final

from ...storage.records import Json
from ..resume import ResumePoint

_MOST: Final = 16


def seam_of(points: Sequence[ResumePoint], here: Mapping[str, Json]) -> dict[str, Json] | None:
    """The data of the event `resume_seam`; None where this run goes on from none of the points.

    Args:
        points: The latest first. The first with the same parameters is the one; else the first that was declared.
        here: What a resume point of this run would say at its first step.
    """
    same = [point for point in points if point.checksum == here["checksum"]]
    declared = [point for point in points if point.is_declared]
    if not (same or declared):
        return None
    point = (same or declared)[0]
    parameters, generators = _named(here["parameters"]), _named(here["generators"])
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
        "learning_rates": here["learning_rates"],
        "counts_before": list(point.counts),
        "counts": here["counts"],
        "generators_changed": [
            name for name, state in generators.items() if point.generators.get(name, state) != state
        ],
    }


def _named(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
