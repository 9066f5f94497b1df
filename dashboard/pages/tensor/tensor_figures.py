"""The figures of one tensor: its series over an axis, the range of its values, its distribution over time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, get_args

import plotly.graph_objects as go

from ....insight import InsightError
from ....insight.watchpoints import watchpoints_of
from ....storage import Finding, InvalidName, Run, RunNotFound, Series, metric_name, split_metric
from ...address import Span
from ...figures.curve_figure import Points, flags_of, points_of
from ...figures.drawing import Part, drawing, packed
from ...figures.histogram_figures import distribution_figure, distribution_of
from ...figures.series_figure import AxisValue, LimitLine, SeriesLine, series_figure, steps_of
from ...formatting import sentence
from ...queries.reader import Reader
from ...queries.tensor_queries import broken_steps, calls, histograms
from ...queries.x_axes import AxisName, axis_of
from ...theme import Palette, faint


@dataclass(frozen=True, slots=True)
class BandEdge:
    """One of the three lines with the places of its points."""

    points: Points
    x: tuple[AxisValue, ...]


def band_figure(low: BandEdge, high: BandEdge, mean: BandEdge | None, palette: Palette, *, title: str) -> go.Figure:
    """Draw the band, with a gap where a value is not finite."""
    color = palette.lines[0]
    traces = [
        _curve(low, "smallest", {"width": 0.8, "color": color}),
        {**_curve(high, "largest", {"width": 0.8, "color": color}), "fill": "tonexty", "fillcolor": faint(color)},
    ]
    if mean is not None:
        traces.append(_curve(mean, "mean", {"width": 1.8, "color": palette.lines[1]}))
    return drawing(
        traces,
        palette,
        showlegend=False,
        xaxis={"title": {"text": title}, "showgrid": False},
        yaxis={"exponentformat": "e"},
    )


def _curve(edge: BandEdge, name: str, line: Part) -> Part:
    carried, step = steps_of(edge.points, edge.x)
    return {
        "type": "scatter",
        "x": packed(edge.x),
        "y": packed(edge.points.y),
        **carried,
        "mode": "lines",
        "name": name,
        "line": line,
        "hovertemplate": f"{name}<br>step %{{{step}}}<br><b>%{{y:.6g}}</b><extra></extra>",
    }


def levels_of(run: Run, site: str, metric: str, findings: Sequence[Finding]) -> tuple[LimitLine, ...]:
    """Return the levels of one series, each once."""
    found = [*_of_findings(site, metric, findings), *_of_watchpoints(run, site, metric)]
    return tuple({(level.value, level.words): level for level in found}.values())


def _of_findings(site: str, metric: str, findings: Sequence[Finding]) -> list[LimitLine]:
    return [
        LimitLine(value, f"{sentence(name)} of {finding.rule}")
        for finding in findings
        if finding.site == site and finding.metric == metric
        for name, value in finding.evidence.items()
        if (name == "limit" or name.startswith("usual")) and abs(value) < float("inf")
    ]


def _of_watchpoints(run: Run, site: str, metric: str) -> list[LimitLine]:
    """Return bounds of conditions on the value itself; errors of a configuration are reported elsewhere."""
    try:
        conditions = [watchpoint.condition for watchpoint in watchpoints_of(run.config)]
    except (InsightError, InvalidName):
        return []
    mine = [
        condition
        for condition in conditions
        if condition.statistic
        and not condition.is_change
        and metric_name(condition.subject, condition.statistic) == metric
        and fnmatchcase(site, condition.sites)
    ]
    return [
        LimitLine(bound, condition.text)
        for condition in mine
        for bound in dict.fromkeys((condition.low, condition.high))
    ]


Over = Literal["nothing", "ranks", "calls"]
OVERS: Final[tuple[Over, ...]] = get_args(Over)
#: Ranks and calls that are laid over each other: more lines would be a surface. Chosen runs are all drawn.
_MOST_LINES: Final = 36


@dataclass(frozen=True, slots=True)
class TensorView:
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


def series_of(
    reader: Reader, look: TensorView, *, run: str = "", metric: str = "", rank: int | None = None, call: int = 0
) -> Series:
    """Read the series of the view, or that of another run, metric, rank or call over the same steps."""
    first, last = look.span or (None, None)
    where = (run or look.run.id, look.site, metric or look.metric)
    return reader.series(*where, first=first, last=last, rank=rank, call=call)


_TITLES: Final[dict[AxisName, str]] = {
    "step": "step",
    "epoch": "epoch",
    "time": "time, UTC",
    "tokens": "tokens seen",
}
AxisPositions = Callable[[Sequence[int]], tuple[AxisValue, ...]]


def _places(reader: Reader, run: Run, series: Series, axis: AxisName) -> AxisPositions | None:
    """Return where steps stand on the axis; None when the run has no such axis."""
    found = axis_of(reader, run.id, axis, series)
    return None if found is None else found.positions


def curve_of(reader: Reader, look: TensorView, palette: Palette) -> go.Figure | None:
    """Draw the series with its limits; None when the run has not recorded the axis."""
    base = series_of(reader, look)
    places = _places(reader, look.run, base, look.axis)
    if places is None:
        return None
    beside, left = _overlaid_lines(reader, look, places)
    lines = [_line(reader, look, look.run.name or look.run.id, base, places), *beside]
    findings = reader.findings(look.run.id)
    flags = flags_of(
        [finding for finding in findings if finding.site == look.site and _holds(look.span, finding.first_step)]
    )
    figure = series_figure(
        lines,
        palette,
        title=_TITLES[look.axis],
        levels=levels_of(look.run, look.site, look.metric, findings),
        flags=list(zip(places([flag.step for flag in flags]), flags, strict=True)),
        selected=None if look.step is None else places([look.step])[0],
        log_x=look.log_x,
        log_y=look.log_y,
    )
    figure.update_layout(uirevision=f"{look.metric} {look.site} {look.axis} {look.span}")
    if left:
        words = f"{left:,} more {look.over} are not drawn"
        figure.add_annotation(
            text=words,
            xref="paper",
            yref="paper",
            x=1,
            y=1,
            xanchor="right",
            showarrow=False,
            font={"color": palette.muted},
        )
    return figure


def _holds(span: Span | None, step: int) -> bool:
    return span is None or span[0] <= step <= span[1]


def _line(
    reader: Reader, look: TensorView, name: str, series: Series, places: AxisPositions, run: Run | None = None
) -> SeriesLine:
    run = run or look.run
    is_first = series.call == 0 and series.rank == run.first_rank
    broken = broken_steps(reader, run.id, look.site, look.metric) if is_first else ()
    broken = tuple(step for step in broken if _holds(look.span, step))
    points = points_of(series.steps, series.values, log=look.log_y, broken=broken)
    return SeriesLine(name, points, places(points.x), places(points.mark_x))


def _overlaid_lines(reader: Reader, look: TensorView, places: AxisPositions) -> tuple[list[SeriesLine], int]:
    """Return the same tensor of other ranks, calls and runs, where they have it, and how many are left out."""
    subject, _ = split_metric(look.metric)
    pairs: list[tuple[str, Series]] = []
    numbers: list[int] = []
    if look.over == "ranks":
        numbers = [rank for rank in look.run.ranks if rank != look.run.first_rank]
        pairs = [(f"rank {rank}", series_of(reader, look, rank=rank)) for rank in numbers[:_MOST_LINES]]
    if look.over == "calls":
        numbers = [call for call in calls(reader, look.run.id, look.site, subject) if call]
        pairs = [(f"call {call}", series_of(reader, look, call=call)) for call in numbers[:_MOST_LINES]]
    lines = [_line(reader, look, name, series, places) for name, series in pairs if series.total]
    runs = [line for other in look.others if (line := _of_run(reader, look, other)) is not None]
    return lines + runs, max(0, len(numbers) - _MOST_LINES)


def _of_run(reader: Reader, look: TensorView, other: str) -> SeriesLine | None:
    """Return the line of another run, on its own axis; None when it is gone or has not recorded this."""
    try:
        run = reader.find(other)
    except RunNotFound:
        return None
    series = series_of(reader, look, run=run.id)
    places = _places(reader, run, series, look.axis)
    if places is None or not series.total:
        return None
    return _line(reader, look, run.name or run.id, series, places, run)


def band_of(reader: Reader, look: TensorView, palette: Palette) -> go.Figure | None:
    """Draw the range of the tensor's values; None when smallest and largest were not recorded."""
    subject, _ = split_metric(look.metric)
    edges = {name: _edge(reader, look, metric_name(subject, name)) for name in ("min", "max", "mean")}
    low, high = edges["min"], edges["max"]
    if low is None or high is None:
        return None
    return band_figure(low, high, edges["mean"], palette, title=_TITLES[look.axis])


def _edge(reader: Reader, look: TensorView, metric: str) -> BandEdge | None:
    if metric not in reader.all_metrics(look.run.id):
        return None
    series = series_of(reader, look, metric=metric)
    places = _places(reader, look.run, series, look.axis) if series.total else None
    if places is None:
        return None
    points = points_of(series.steps, series.values)
    return BandEdge(points, places(points.x))


def distribution_over_time(reader: Reader, look: TensorView, palette: Palette) -> go.Figure | None:
    """Draw the tensor's histograms as a map over the axis; None when it has none."""
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
    """Return the ids of other runs in an address or a control, each once."""
    return tuple(dict.fromkeys(other for other in others or () if other))
