"""Two runs that are compared: which they are, both in one picture, and where they first lie apart."""

import math
from dataclasses import dataclass
from typing import Any, Final

from ....storage import Run, display_site
from ...data import Reader
from ...data.axes import along
from ...data.pairs import (
    alignment,
    difference_matrix,
    first_beyond,
)
from ...figures.overlay import Line, overlay_figure
from ...theme import Palette
from ...words import number

_POINTS: Final = 2000


@dataclass(frozen=True, slots=True)
class Pair:
    """The two runs that are compared."""

    first: Run
    second: Run


def pair_of(reader: Reader, run: Run, other: str | None) -> Pair | None:
    """The run with the other one; with the next older training where none is named, None where there is none."""
    if other:
        return Pair(run, reader.find(other))
    older = [one for one in reader.runs() if one.id != run.id and one.kind != "evaluation"]
    near = [one for one in older if one.created_at <= run.created_at] or older
    return Pair(run, near[0]) if near else None


def overlay(reader: Reader, pair: Pair, metric: str, site: str, axis: str, palette: Palette) -> Any:  # go.Figure
    """The metric of both runs over one axis."""
    mate = alignment(reader, pair.first, pair.second).pairs.get(site, site)
    lines = []
    for run, place in ((pair.first, site), (pair.second, mate)):
        series = reader.series(run.id, place, metric, limit=_POINTS)
        x = along(reader, run, series, axis)
        lines.append(Line(f"{run.name or run.id} · {run.id[-4:]}", series.steps, x, series.values))
    unit = {"time": "seconds since the start"}.get(axis, axis)
    return overlay_figure(lines, palette, title=metric.removeprefix("scalar/"), axis=unit)


def difference_note(reader: Reader, pair: Pair, metric: str, tolerance: float) -> str:
    """Where the metric first lies farther apart than the tolerance."""
    apart = difference_matrix(reader, pair.first, pair.second, metric)
    if not apart.steps.size or not apart.sites:
        return "The two have no step and site of this metric in common."
    found = first_beyond(apart, tolerance)
    if found is None:
        return f"Nowhere farther apart than {tolerance:g}, relative to the larger of the two."
    gap = number(found.difference) if math.isfinite(found.difference) else "one of them is not finite"
    place = f"{display_site(found.site)} from step {found.step:,}"
    return f"First farther apart than {tolerance:g}: {place} ({gap})."


def tolerance_of(text: str | None) -> float:
    """The tolerance that a person typed, 0 for what is none."""
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value >= 0 else 0.0
