"""One series over the steps: points that Plotly can extend, with findings and non-finite values marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...storage import Finding, display_site
from ..address import Span
from ..formatting import sentence
from ..theme import Palette
from .drawing import Part, drawing

#: Kind of mark -> (Plotly symbol, words).
MARKS: dict[str, tuple[str, str]] = {
    "nan": ("x", "NaN"),
    "positive": ("triangle-up", "+Inf"),
    "negative": ("triangle-down", "-Inf"),
    "elements": ("x", "some elements are NaN or infinite"),
    "below": ("triangle-down-open", "zero or less, not on a log axis"),
}


@dataclass(frozen=True, slots=True)
class Points:
    """One curve, ready to draw or to append to what is drawn.

    Args:
        x: Steps of every point, the gaps included.
        y: Values; None where the line breaks because the value is not on the axis.
        mark_x: Steps of the values that are not on the axis.
        mark_kind: For each of them a key of `MARKS`.
    """

    x: tuple[int, ...]
    y: tuple[float | None, ...]
    mark_x: tuple[int, ...]
    mark_kind: tuple[str, ...]

    @property
    def mark_symbol(self) -> tuple[str, ...]:
        """The Plotly symbol of each mark."""
        return tuple(MARKS[kind][0] for kind in self.mark_kind)

    @property
    def mark_text(self) -> tuple[str, ...]:
        """What each mark stands for."""
        return tuple(MARKS[kind][1] for kind in self.mark_kind)


def points_of(
    steps: NDArray[np.int64], values: NDArray[np.float64], *, log: bool = False, broken: Sequence[int] = ()
) -> Points:
    """Return the points of a series; NaN, infinities and, on a log axis, values that are not positive become marks.

    Args:
        broken: Steps to mark although the value itself is on the axis: a statistic of the finite elements looks
            well while others are NaN.
    """
    on_axis = np.isfinite(values)
    if log:
        on_axis &= values > 0
    y = tuple(value if ok else None for value, ok in zip(values.tolist(), on_axis.tolist(), strict=True))
    off = ~on_axis
    marks = list(zip(steps[off].tolist(), map(_kind, values[off].tolist()), strict=True))
    marks += [(step, "elements") for step in broken]
    return Points(tuple(steps.tolist()), y, tuple(step for step, _ in marks), tuple(kind for _, kind in marks))


def _kind(value: float) -> str:
    if value != value:  # NaN alone differs from itself
        return "nan"
    if value == float("inf"):
        return "positive"
    return "negative" if value == float("-inf") else "below"


#: Order of the traces; live updates depend on it.
LINE_TRACE: Final = 0
MARK_TRACE: Final = 1
#: Share of the height that the values take; above them a strip of its own holds the marks and, over these, the flags.
_VALUES: Final = 0.87
_MARK_HEIGHT: Final = 0.2
_FLAG_HEIGHT: Final = 0.8
_MOST_FALLS: Final = 40
_SYMBOLS: Final = {"error": "diamond", "warning": "triangle-up", "info": "circle"}


@dataclass(frozen=True, slots=True)
class Flag:
    """All findings that began at one step: its worst severity and what to read about them."""

    step: int
    severity: str
    text: str


def flags_of(findings: Sequence[Finding]) -> tuple[Flag, ...]:
    """Return one flag for every step at which a finding began, earliest first."""
    by_step: dict[int, list[Finding]] = {}
    for finding in findings:
        by_step.setdefault(finding.first_step, []).append(finding)
    return tuple(_flag(step, by_step[step]) for step in sorted(by_step))


def _flag(step: int, findings: list[Finding]) -> Flag:
    worst = min(findings, key=lambda finding: ("error", "warning", "info").index(finding.severity))
    shown = [f"{sentence(finding.cause)} at {display_site(finding.site)}" for finding in findings[:4]]
    if len(findings) > len(shown):
        shown.append(f"and {len(findings) - len(shown)} more")
    return Flag(step, worst.severity, "<br>".join(shown))


def curve_figure(
    points: Points,
    palette: Palette,
    *,
    name: str,
    flags: Sequence[Flag] = (),
    log: bool = False,
    selected: int | None = None,
    span: Span | None = None,
    shown: Span | None = None,
) -> go.Figure:
    """Draw the curve; findings stand as symbols along the top, each with a thin line down to its step.

    Marks and flags live in a strip above the values, so they stay in view however those are zoomed.

    Args:
        selected: A step that is marked.
        span: The range of steps that was read.
        shown: First and last step of the axis where all steps are shown; by default from zero to the last one.
    """
    shapes = _falls(flags, palette)
    if selected is not None:
        line = {"width": 1, "color": palette.muted, "dash": "dot"}
        shapes.append(
            {"type": "line", "x0": selected, "x1": selected, "yref": "paper", "y0": 0, "y1": _VALUES, "line": line}
        )
    steps: dict[str, object] = {"title": {"text": "step"}, "showgrid": False, "rangemode": "tozero"}
    if span or shown:
        steps["range"] = list(span) if span else whole_range(shown)
    return drawing(
        [_line(points, palette, name), _marks(points, palette), _flags(flags, palette)],
        palette,
        shapes=shapes,
        showlegend=False,
        uirevision=name,
        meta={"whole": whole_range(shown)},
        xaxis=steps,
        yaxis={"type": "log" if log else "linear", "domain": [0, _VALUES], "exponentformat": "power" if log else "e"},
        yaxis2={"domain": [_VALUES, 1], "range": [0, 1], "anchor": "x", "visible": False, "fixedrange": True},
    )


def whole_range(shown: Span | None) -> list[float] | None:
    """Return the range of an axis from the first to the last step; half a step wider, as cells of a map are."""
    return None if shown is None else [shown[0] - 0.5, shown[1] + 0.5]


def _line(points: Points, palette: Palette, name: str) -> Part:
    return {
        "type": "scatter",
        "x": list(points.x),
        "y": list(points.y),
        "mode": "lines+markers" if len(points.x) <= 3 else "lines",
        "name": name,
        "line": {"width": 1.8, "color": palette.lines[0]},
        "hovertemplate": "step %{x}<br><b>%{y:.6g}</b><extra></extra>",
    }


def _marks(points: Points, palette: Palette) -> Part:
    marker = {
        "symbol": list(points.mark_symbol),
        "size": 8,
        "color": palette.non_finite,
        "line": {"width": 1.5, "color": palette.non_finite},
    }
    return {
        "type": "scatter",
        "x": list(points.mark_x),
        "y": [_MARK_HEIGHT] * len(points.mark_x),
        "yaxis": "y2",
        "mode": "markers",
        "name": "not finite",
        "text": list(points.mark_text),
        "marker": marker,
        "cliponaxis": False,
        "hovertemplate": "step %{x}<br><b>%{text}</b><extra></extra>",
    }


def _flags(flags: Sequence[Flag], palette: Palette) -> Part:
    marker = {"symbol": [_SYMBOLS[flag.severity] for flag in flags], "size": 10, "color": _colors(flags, palette)}
    return {
        "type": "scatter",
        "x": [flag.step for flag in flags],
        "y": [_FLAG_HEIGHT] * len(flags),
        "yaxis": "y2",
        "mode": "markers",
        "name": "findings",
        "text": [flag.text for flag in flags],
        "marker": marker,
        "cliponaxis": False,
        "hovertemplate": "<b>since step %{x}</b><br>%{text}<extra></extra>",
    }


def _colors(flags: Sequence[Flag], palette: Palette) -> list[str]:
    return [palette.severity(flag.severity) for flag in flags]  # type: ignore[arg-type]  # a flag's word is a severity


def _falls(flags: Sequence[Flag], palette: Palette) -> list[Part]:
    """Draw a thin line from each symbol down to its step; only the first ones, or they hide the curve."""
    drawn = list(zip(flags, _colors(flags, palette), strict=True))[:_MOST_FALLS]
    return [
        {
            "type": "line",
            "x0": flag.step,
            "x1": flag.step,
            "yref": "paper",
            "y0": 0,
            "y1": 0.95,
            "line": {"width": 1, "color": color, "dash": "dot"},
        }
        for flag, color in drawn
    ]
