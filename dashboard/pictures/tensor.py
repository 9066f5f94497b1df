"""The pictures of one tensor: its series over an axis, the range of its values, its distribution over time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import plotly.graph_objects as go

from ...storage import Run, RunNotFound, Series, metric_name, split_metric
from ..data import AxisName, Reader, axis_of, broken_steps, calls, histograms
from ..figures import (
    Edge,
    Place,
    Track,
    band_figure,
    distribution_figure,
    distribution_of,
    flags_of,
    held_figure,
    points_of,
)
from ..spans import Span
from ..theme import Palette
from .levels import levels_of

Over = Literal["nothing", "ranks", "calls"]
OVERS: Final[tuple[Over, ...]] = get_args(Over)
#: More lines than this in one picture cannot be told apart.
_MOST_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class Look:
    """Which tensor is looked at, and how.

    Args:
        others: Ids of runs whose same tensor is laid over it.
    """

    run: Run
    site: str
    metric: str
    axis: AxisName = "step"
    span: Span | None = None
    over: Over = "nothing"
    others: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False
    step: int | None = None


def series_of(reader: Reader, look: Look, *, run: str = "", metric: str = "", rank: int = 0, call: int = 0) -> Series:
    """The series of the look, or that of another run, metric, rank or call over the same steps."""
    first, last = look.span or (None, None)
    where = (run or look.run.id, look.site, metric or look.metric)
    return reader.series(*where, first=first, last=last, rank=rank, call=call)


_TITLES: Final[dict[AxisName, str]] = {
    "step": "step",
    "epoch": "epoch",
    "time": "time, UTC",
    "tokens": "tokens seen",
}
Places = Callable[[Sequence[int]], tuple[Place, ...]]


def _places(reader: Reader, run: Run, series: Series, axis: AxisName) -> Places | None:
    """Where steps stand on the axis; None when the run has no such axis."""
    found = axis_of(reader, run.id, axis, series)
    return None if found is None else found.places


def curve_of(reader: Reader, look: Look, palette: Palette) -> go.Figure | None:
    """The series with what it is held against; None when the run has not recorded what the axis takes."""
    base = series_of(reader, look)
    places = _places(reader, look.run, base, look.axis)
    if places is None:
        return None
    lines = [_line(reader, look, look.run.name or look.run.id, base, places), *_laid_over(reader, look, places)]
    findings = reader.findings(look.run.id)
    flags = flags_of([one for one in findings if one.site == look.site and _holds(look.span, one.first_step)])
    figure = held_figure(
        lines[:_MOST_LINES],
        palette,
        title=_TITLES[look.axis],
        levels=levels_of(look.run, look.site, look.metric, findings),
        flags=list(zip(places([flag.step for flag in flags]), flags, strict=True)),
        selected=None if look.step is None else places([look.step])[0],
        log_x=look.log_x,
        log_y=look.log_y,
    )
    figure.update_layout(uirevision=f"{look.metric} {look.site} {look.axis} {look.span}")
    return figure


def _holds(span: Span | None, step: int) -> bool:
    return span is None or span[0] <= step <= span[1]


def _line(reader: Reader, look: Look, name: str, series: Series, places: Places, run: str = "") -> Track:
    broken = broken_steps(reader, run or look.run.id, look.site, look.metric) if series.rank == series.call == 0 else ()
    broken = tuple(step for step in broken if _holds(look.span, step))
    points = points_of(series.steps, series.values, log=look.log_y, broken=broken)
    return Track(name, points, places(points.x), places(points.mark_x))


def _laid_over(reader: Reader, look: Look, places: Places) -> list[Track]:
    """The same tensor of other ranks, calls and runs, as far as they have it."""
    subject, _ = split_metric(look.metric)
    pairs: list[tuple[str, Series]] = []
    if look.over == "ranks":
        pairs += [(f"rank {rank}", series_of(reader, look, rank=rank)) for rank in look.run.ranks if rank]
    if look.over == "calls":
        numbers = calls(reader, look.run.id, look.site, subject)
        pairs += [(f"call {call}", series_of(reader, look, call=call)) for call in numbers if call]
    lines = [_line(reader, look, name, series, places) for name, series in pairs if series.total]
    return lines + [line for other in look.others if (line := _of_run(reader, look, other)) is not None]


def _of_run(reader: Reader, look: Look, other: str) -> Track | None:
    """The line of another run, on its own axis; None when it is gone or has not recorded this."""
    try:
        run = reader.find(other)
    except RunNotFound:
        return None
    series = series_of(reader, look, run=run.id)
    places = _places(reader, run, series, look.axis)
    if places is None or not series.total:
        return None
    return _line(reader, look, run.name or run.id, series, places, run.id)


def band_of(reader: Reader, look: Look, palette: Palette) -> go.Figure | None:
    """The range of the tensor's values; None when smallest and largest were not recorded."""
    subject, _ = split_metric(look.metric)
    edges = {name: _edge(reader, look, metric_name(subject, name)) for name in ("min", "max", "mean")}
    low, high = edges["min"], edges["max"]
    if low is None or high is None:
        return None
    return band_figure(low, high, edges["mean"], palette, title=_TITLES[look.axis])


def _edge(reader: Reader, look: Look, metric: str) -> Edge | None:
    if metric not in reader.all_metrics(look.run.id):
        return None
    series = series_of(reader, look, metric=metric)
    places = _places(reader, look.run, series, look.axis) if series.total else None
    if places is None:
        return None
    points = points_of(series.steps, series.values)
    return Edge(points, places(points.x))


def distribution_over_time(reader: Reader, look: Look, palette: Palette) -> go.Figure | None:
    """The tensor's histograms as a map over the axis; None when it has none."""
    subject, _ = split_metric(look.metric)
    first, last = look.span or (None, None)
    recorded = histograms(reader, look.run.id, look.site, subject, first=first, last=last)
    if not recorded:
        return None
    places = _places(reader, look.run, series_of(reader, look), look.axis)
    found = distribution_of(recorded)
    if places is None:
        return distribution_figure(found, found.steps, palette, title="step")
    return distribution_figure(found, places(found.steps), palette, title=_TITLES[look.axis])


def names_of(others: Sequence[str] | None) -> tuple[str, ...]:
    """The ids of other runs as an address or a control holds them."""
    return tuple(dict.fromkeys(one for one in others or () if one))
