"""Where time and memory go: the split of steps over the run, memory over the run, and its parts at the peak."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ....insight.profile import MemoryPart, MemoryUse, Profiled
from ....storage import display_site
from ...formatting import short_site
from ...theme import Palette, template

Floats = NDArray[np.float64]

#: From the bottom of the stack up; a pattern beside the colour, so that neighbours differ without colours.
_PARTS: Final = {
    "data": "/",
    "forward": "",
    "backward": "\\",
    "optimizer": "x",
    "evaluation": "-",
    "other": ".",
    "step": "",
}
#: Share of the height that the stack takes; above it the longest steps, which may be far longer, have their own axis.
_STACK: Final = 0.7
_DASHES: Final = {"communication": "dash", "monitor": "dot"}


def split_figure(
    steps: Sequence[int],
    ends: Sequence[int],
    parts: Mapping[str, Floats],
    inside: Mapping[str, Floats],
    longest: Floats,
    palette: Palette,
) -> go.Figure:
    """Draw stacked seconds of every interval of steps; parts of the phases and the longest step as lines.

    Args:
        steps, ends: Where intervals begin and end.
        parts: Seconds by phase, that add up to the mean step.
        inside: Seconds of what is part of them.
        longest: The longest step of each interval.
    """
    figure = go.Figure(layout={"template": template(palette)})
    widths = [end - begin for begin, end in zip(steps, ends, strict=True)]
    for name, pattern in _PARTS.items():
        if name in parts:
            figure.add_bar(
                x=list(steps),
                y=_list(parts[name]),
                width=widths,
                offset=0,
                name=name,
                marker={
                    "color": palette.muted if name == "other" else palette.lines[_color(name)],
                    "pattern": {"shape": pattern, "fillmode": "overlay", "size": 7, "solidity": 0.2},
                    "line": {"width": 0},
                },
                hovertemplate=f"from step %{{x}}<br><b>{name} %{{y:.4g}} s</b><extra></extra>",
            )
    for name, dash in _DASHES.items():
        if name in inside:
            figure.add_scatter(
                x=list(steps),
                y=_list(inside[name]),
                name=f"of which {name}",
                mode="lines+markers",
                line={"dash": dash, "width": 1.6, "color": palette.text},
                marker={"size": 4},
                hovertemplate=f"from step %{{x}}<br><b>of which {name} %{{y:.4g}} s</b><extra></extra>",
            )
    if np.isfinite(longest).any():
        figure.add_scatter(
            x=list(steps),
            y=_list(longest),
            name="longest step",
            mode="lines+markers" if len(steps) < 3 else "lines",
            yaxis="y2",
            line={"width": 1.4, "color": palette.error, "shape": "hv"},
            hovertemplate="from step %{x}<br><b>longest %{y:.4g} s</b><extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        bargap=0,
        margin={"t": 66},
        legend={"traceorder": "normal", "yref": "container", "y": 1.0, "yanchor": "top"},
        xaxis={"title": "step", "showgrid": False},
        yaxis={"title": "seconds of a step", "rangemode": "tozero", "domain": [0, _STACK]},
        yaxis2={"title": "longest", "rangemode": "tozero", "domain": [_STACK + 0.06, 1], "anchor": "x"},
    )
    return figure


def _color(name: str) -> int:
    return 0 if name == "step" else list(_PARTS).index(name)


def memory_figure(use: MemoryUse, palette: Palette) -> go.Figure:
    """Draw memory over the steps, of the host, of the monitor in it, and of the device, with its peak marked."""
    figure = go.Figure(layout={"template": template(palette)})
    courses = (
        ("host", use.host_bytes, "solid"),
        ("device", use.device_bytes, "dash"),
        ("of the host, the monitor", use.monitor_bytes, "dot"),
    )
    for at, (name, values, dash) in enumerate(courses):
        if any(np.isfinite(values)):
            figure.add_scatter(
                x=list(use.steps),
                y=_list(values),
                name=name,
                mode="lines+markers" if len(use.steps) < 3 else "lines",
                line={"width": 1.8, "dash": dash, "color": palette.lines[at]},
                hovertemplate=f"step %{{x}}<br><b>{name} %{{y:.4s}}B</b><extra></extra>",
            )
    if use.peak_step >= 0:
        figure.add_vline(x=use.peak_step, line={"width": 1, "dash": "dot", "color": palette.muted})
        figure.add_annotation(
            x=use.peak_step,
            y=1,
            yref="paper",
            yanchor="bottom",
            text=f"most at step {use.peak_step:,}",
            showarrow=False,
        )
    figure.update_layout(
        showlegend=True,
        margin={"t": 44},
        legend={"y": 1.1},
        xaxis={"title": "step", "showgrid": False},
        yaxis={"title": "bytes", "tickformat": ".3s", "rangemode": "tozero"},
    )
    return figure


def parts_height(parts: int) -> int:
    """Return the pixels that the bars of so many parts need."""
    return int(np.clip(parts * 24 + 70, 150, 420))


def parts_figure(parts: Sequence[MemoryPart], palette: Palette) -> go.Figure:
    """Draw a bar for everything that takes memory at its peak; hatched where the size follows from shapes alone."""
    names = [_part(part) for part in parts]
    figure = go.Figure(layout={"template": template(palette)})
    figure.add_bar(
        y=names,
        x=[part.size_bytes for part in parts],
        orientation="h",
        text=["measured" if part.is_measured else "from shapes" for part in parts],
        textposition="none",
        marker={"color": palette.lines[0], "pattern": {"shape": ["" if part.is_measured else "/" for part in parts]}},
        hovertemplate="<b>%{y}</b><br>%{x:.4s}B, %{text}<extra></extra>",
    )
    figure.update_layout(
        height=parts_height(len(names)),
        xaxis={"title": "bytes", "tickformat": ".3s", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "type": "category", "automargin": True},
    )
    return figure


def _part(part: MemoryPart) -> str:
    return part.kind if part.kind != "activations" else f"{part.kind} of {short_site(display_site(part.site))}"


def inside_figure(looked: Profiled, palette: Palette) -> go.Figure:
    """Draw what one step has allocated, from its start to its end."""
    figure = go.Figure(layout={"template": template(palette)})
    figure.add_scatter(
        x=[at * 1e3 for at, _ in looked.memory],
        y=[size for _, size in looked.memory],
        mode="lines",
        fill="tozeroy",
        line={"width": 1.5, "shape": "hv", "color": palette.lines[0]},
        hovertemplate="%{x:.4g} ms<br><b>%{y:.4s}B</b><extra></extra>",
    )
    figure.update_layout(
        xaxis={"title": f"milliseconds into step {looked.step:,}", "showgrid": False},
        yaxis={"title": "bytes allocated", "tickformat": ".3s", "rangemode": "tozero"},
    )
    return figure


def _list(values: Sequence[float] | Floats) -> list[float | None]:
    """Return the numbers; None where there is none, which leaves a gap."""
    return [value if np.isfinite(value) else None for value in np.asarray(values, np.float64).tolist()]
