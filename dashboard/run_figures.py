"""The two figures of a run as the store knows it now: the curve, and layer by step."""

from collections.abc import Sequence
from typing import Final, cast

import plotly.graph_objects as go

from ..storage import InvalidName, Matrix, nearest, split_metric
from .address import Span
from .figures.curve_figure import LINE_TRACE, Points, curve_figure, flags_of, points_of
from .figures.heatmap_figure import HeatmapData, NamedHeatmap, View, from_step, heat_of, heat_stack, with_elements
from .queries.reader import Reader
from .queries.result_queries import learner_scalars
from .queries.tensor_queries import element_counts
from .queries.tensor_sizes import at_equal_size
from .theme import Palette

#: Share of a range of steps that is read before it, so that its first columns have a history to deviate from; our
#: choice: the window of 32 columns of `insight.deviation` out of the fewest columns that a map has.
_HISTORY: Final = 0.5


def steps_shown(reader: Reader, run: str) -> tuple[int, int]:
    """Return the first and the last step of the axis that curve and maps of a run share.

    While the run is written the axis ends at a round number of steps, so that it stays the same for many steps.
    """
    info, names = reader.find(run), reader.scalars(run)
    first = 0
    for name in ("loss",) if "loss" in names else names[:1]:
        steps = reader.scalar(run, name, limit=_FEW).steps
        first = int(steps[0]) if steps.size else 0
    last = max(first, info.last_step)
    return first, last if info.state != "running" else first + _rounded_up(last - first + 1)


#: Points of a series of which only the first step is wanted.
_FEW: Final = 16


def _rounded_up(steps: int) -> int:
    """Return the next of 10, 15, 20, 30, 40, 60, 80, 100, 150, ... that is not below the number of steps."""
    decade = 10
    while True:
        for tenths in (10, 15, 20, 30, 40, 60, 80):
            if steps <= decade * tenths // 10:
                return decade * tenths // 10
        decade *= 10


def curve_name(scalar: str, scale: str, span: Span | None = None) -> str:
    """Return the name by which the browser knows a curve: the tail of another one must not be appended to it."""
    return f"{scalar} {scale} {span}" if span else f"{scalar} {scale}"


def run_curve_figure(
    reader: Reader, run: str, scalar: str, scale: str, palette: Palette, span: Span | None = None
) -> go.Figure:
    """Draw the scalar over the steps with the run's findings on it; of several learners the loss of each."""
    first, last = span or (None, None)
    learners = learner_scalars(reader, run) if scalar == "loss" else ()
    curves = [reader.scalar(run, name, first=first, last=last) for name in learners or (scalar,)]
    series, is_log = curves[0], scale == "log"
    figure = curve_figure(
        points_of(series.steps, series.values, log=is_log),
        palette,
        name=curve_name(scalar, scale, span),
        flags=flags_of(reader.findings(run)),
        log=is_log,
        span=span,
        shown=steps_shown(reader, run),
    )
    if learners:
        _name(figure, learners, [points_of(item.steps, item.values, log=is_log) for item in curves], palette)
    if not series.total and span is None:
        _say(
            figure,
            f"no {scalar} yet: it appears with the first step, or log it with monitor.log({scalar}=...)",
            palette,
        )
    return figure


def _name(figure: go.Figure, learners: Sequence[str], curves: Sequence[Points], palette: Palette) -> None:
    """Draw the curves of the other learners beside that of the first, each under the learner's name."""
    names = [name.removesuffix("/loss") for name in learners]
    figure.update_traces(showlegend=False)
    figure.data[LINE_TRACE].update(name=names[0], showlegend=True)
    for at, (name, points) in enumerate(zip(names, curves, strict=True)):
        if at:
            color = palette.lines[at % len(palette.lines)]
            figure.add_scatter(x=points.x, y=points.y, mode="lines", name=name, line={"width": 1.8, "color": color})
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})


def run_heatmap_figure(
    reader: Reader,
    run: str,
    metrics: Sequence[str],
    view: str,
    palette: Palette,
    *,
    selected: tuple[str, int] | None = None,
    span: Span | None = None,
) -> go.Figure:
    """Draw every site of each of the metrics over the steps."""
    maps = [
        NamedHeatmap(metric, run_heatmap_data(reader, run, metric, cast("View", view), maps=len(metrics), span=span)[1])
        for metric in metrics
    ]
    return heat_stack(maps, palette, selected=selected, span=span, shown=steps_shown(reader, run))


def run_heatmap_data(
    reader: Reader, run: str, metric: str, view: View, *, maps: int = 1, span: Span | None = None
) -> tuple[Matrix, HeatmapData]:
    """Read one metric with history before the range of steps; return it at equal size with the map of that range.

    Args:
        maps: How many such maps the page shows.
    """
    first, last = (_before(span), span[1]) if span else (None, None)
    counts = element_counts(reader, run, metric, first=first, last=last, maps=maps)
    matrix = with_elements(reader.matrix(run, metric, first=first, last=last, maps=maps), counts)
    compared = at_equal_size(reader, run, matrix, first=first, last=last, maps=maps)
    heat = heat_of(matrix, view, compared)
    return compared, from_step(heat, span[0]) if span else heat


def _before(span: Span) -> int:
    return max(0, span[0] - int(_HISTORY * (span[1] - span[0]) + 32))


def missing_metric(reader: Reader, run: str, metric: str) -> Sequence[str]:
    """Return title and advice on why a metric cannot be drawn; empty when it can."""
    known = reader.metrics(run)
    if metric in known:
        return ()
    if not known:
        return (
            "No statistics yet",
            "They appear with the first recorded step. A run that only logs scalars has none.",
        )
    try:
        split_metric(metric)
    except InvalidName as error:
        return "No such metric", str(error)
    return (
        f"No metric {metric}",
        f"This run has not recorded it{nearest(metric, known) or '.'} Choose one from the list above.",
    )


def _say(figure: go.Figure, words: str, palette: Palette) -> None:
    figure.add_annotation(
        text=words, xref="paper", yref="paper", x=0.5, y=0.5, showarrow=False, font={"color": palette.muted}
    )
    figure.update_layout(xaxis={"visible": False}, yaxis={"visible": False})
