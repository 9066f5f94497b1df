"""The two pictures of a run as the store knows it now: the curve, and layer by step."""

from collections.abc import Sequence
from typing import cast

import plotly.graph_objects as go

from ..storage import InvalidName, nearest, split_metric
from .data import Reader
from .figures import View, curve_figure, flags_of, heat_figure, heat_of, points_of, with_elements
from .theme import Palette


def curve_name(scalar: str, scale: str) -> str:
    """What the browser knows a curve by: a tail of another one must not be appended to it."""
    return f"{scalar} {scale}"


def curve_picture(reader: Reader, run: str, scalar: str, scale: str, palette: Palette) -> go.Figure:
    """The scalar over the steps with the run's findings on it."""
    series = reader.scalar(run, scalar)
    is_log = scale == "log"
    figure = curve_figure(
        points_of(series.steps, series.values, log=is_log),
        palette,
        name=curve_name(scalar, scale),
        flags=flags_of(reader.findings(run)),
        log=is_log,
    )
    if not series.total:
        _say(
            figure,
            f"no {scalar} yet: it appears with the first step, or log it with monitor.log({scalar}=...)",
            palette,
        )
    return figure


def heat_picture(
    reader: Reader, run: str, metric: str, view: str, selected: tuple[str, int] | None, palette: Palette
) -> go.Figure:
    """Every site of the metric over the steps."""
    matrix = with_elements(reader.matrix(run, metric), reader.element_counts(run, metric))
    return heat_figure(heat_of(matrix, cast("View", view)), palette, selected=selected)


def missing_metric(reader: Reader, run: str, metric: str) -> Sequence[str]:
    """Why a metric cannot be drawn, in a title and advice; nothing when it can."""
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
