"""The model as a person thinks of it: the data flow from box to box, or the tree of modules, painted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ...storage import Finding, ModuleInfo, display_site
from ..theme import ColorScale, Palette, template
from ..words import number, sentence, short_site
from .folding import Box, Flow, parents_of

_SYMBOLS: Final = {"error": "diamond", "warning": "triangle-up", "info": "square"}
_SEVERITIES: Final = ("error", "warning", "info")
_ROW_HEIGHT: Final = 34
#: Boxes that still have room for their names.
_LABELLED: Final = 120
#: Deviations have their full colour here, as on the maps of layer x step.
_FULL: Final = 12.0


@dataclass(frozen=True, slots=True)
class Paint:
    """How sites are painted.

    Args:
        colors: CSS colours by site; what is not named keeps the colour of the usual.
        symbols: Plotly symbols by site, for those who cannot tell colours.
        texts: What to read about each site.
        scale: Colours of the legend with its two ends, None when the colours are words of severity.
    """

    colors: Mapping[str, str]
    symbols: Mapping[str, str]
    texts: Mapping[str, str]
    scale: tuple[ColorScale, float, float] | None = None


def paint_findings(findings: Sequence[Finding], step: int, palette: Palette) -> Paint:
    """What was wrong at each site up to a step: the worst severity gives colour and symbol."""
    by_site: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.first_step <= step:
            by_site.setdefault(finding.site, []).append(finding)
    worst = {
        site: min(found, key=lambda one: _SEVERITIES.index(one.severity)).severity for site, found in by_site.items()
    }
    texts = {
        site: "<br>".join(f"{sentence(one.cause)} since step {one.first_step:,}" for one in found[:4])
        for site, found in by_site.items()
    }
    colors = {site: palette.severity(severity) for site, severity in worst.items()}
    return Paint(colors, {site: _SYMBOLS[severity] for site, severity in worst.items()}, texts)


def paint_values(values: Mapping[str, float], palette: Palette, *, is_deviation: bool, unit: str) -> Paint:
    """Numbers as colours; what is not finite has the colour of NaN and a symbol of its own."""
    finite = [value for value in values.values() if np.isfinite(value)]
    low, high = (-_FULL, _FULL) if is_deviation else (min(finite, default=0.0), max(finite, default=1.0))
    scale = palette.diverging if is_deviation else palette.sequential
    colors, symbols, texts = {}, {}, {}
    for site, value in values.items():
        is_finite = bool(np.isfinite(value))
        share = (value - low) / (high - low) if is_finite and high > low else 0.0
        colors[site] = _between(scale, share) if is_finite else palette.non_finite
        symbols[site] = "circle" if is_finite else "x"
        texts[site] = f"{number(value)} {unit}"
    return Paint(colors, symbols, texts, (scale, low, high))


def _between(scale: ColorScale, share: float) -> str:
    """The colour of a scale at a share of it, mixed from the two stops around."""
    places = [place for place, _ in scale]
    stops = np.array([[int(color[at : at + 2], 16) for at in (1, 3, 5)] for _, color in scale])
    mixed = [round(float(np.interp(share, places, stops[:, channel]))) for channel in range(3)]
    return f"rgb({mixed[0]}, {mixed[1]}, {mixed[2]})"


def flow_figure(flow: Flow, paint: Paint, palette: Palette, *, selected: str | None = None) -> go.Figure:
    """Data runs from the top to the bottom; closed boxes are squares with a border, and open at a click."""
    figure = go.Figure(layout={"template": template(palette)})
    _add_edges(figure, flow, palette)
    sites = [_worst_of(box, paint) for box in flow.boxes]
    figure.add_scatter(
        x=[box.place for box in flow.boxes],
        y=[box.layer for box in flow.boxes],
        mode="markers+text" if len(flow.boxes) <= _LABELLED else "markers",
        text=[_label(box) for box in flow.boxes],
        textposition="middle right",
        textfont={"size": 11},
        customdata=[box.site for box in flow.boxes],
        hovertext=[_hover(box, site, paint) for box, site in zip(flow.boxes, sites, strict=True)],
        hovertemplate="%{hovertext}<extra></extra>",
        marker={
            "size": [19 if box.is_closed else 14 for box in flow.boxes],
            "color": [paint.colors.get(site, palette.grid) for site in sites],
            "symbol": [
                paint.symbols.get(site, "square" if box.is_closed else "circle")
                for box, site in zip(flow.boxes, sites, strict=True)
            ],
            "line": {
                "width": [3 if box.site == selected else 1.5 for box in flow.boxes],
                "color": [palette.text if box.site == selected else palette.muted for box in flow.boxes],
            },
        },
        cliponaxis=False,
    )
    _add_legend(figure, paint, palette)
    widest = max((abs(box.place) for box in flow.boxes), default=0.0)
    layers = max((box.layer for box in flow.boxes), default=0)
    figure.update_layout(
        height=int(np.clip((layers + 1) * _ROW_HEIGHT + 40, 240, 3000)),
        showlegend=False,
        uirevision="flow",
        margin={"l": 16, "r": 16, "t": 16, "b": 16},
        xaxis={"visible": False, "range": [-widest - 1.2, widest + 1.8]},
        yaxis={"visible": False, "range": [layers + 0.7, -0.7]},
    )
    return figure


def _add_edges(figure: go.Figure, flow: Flow, palette: Palette) -> None:
    """Lines from box to box; one that passes rows by bows out, so that it passes their boxes too."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for a, b in flow.edges:
        start, end = flow.boxes[a], flow.boxes[b]
        bow = 0.0 if abs(end.layer - start.layer) <= 1 else min(0.8, 0.25 + 0.05 * abs(end.layer - start.layer))
        for share in np.linspace(0, 1, 2 if bow == 0 else 9).tolist():
            xs.append(start.place + (end.place - start.place) * share - bow * 4 * share * (1 - share))
            ys.append(start.layer + (end.layer - start.layer) * share)
        xs.append(None)
        ys.append(None)
    line = {"width": 1.2, "color": palette.muted}
    figure.add_scatter(x=xs, y=ys, mode="lines", line=line, hoverinfo="skip", opacity=0.6)


def _worst_of(box: Box, paint: Paint) -> str:
    """The member that gives a closed box its colour: with findings, the first that has one; else its own."""
    if box.site in paint.colors or paint.scale is not None:
        return box.site
    return next((site for site in box.members if site in paint.colors), box.site)


def _label(box: Box) -> str:
    inside = f" +{len(box.members) - 1}" if box.is_closed else ""
    return f"  {short_site(display_site(box.site), 30)}{inside}"


def _hover(box: Box, site: str, paint: Paint) -> str:
    inside = f"<br>{len(box.members) - 1} modules inside; a click opens it" if box.is_closed else ""
    said = paint.texts.get(site, "")
    whose = f"<br>{display_site(site)}:" if said and site != box.site else ""
    return f"<b>{display_site(box.site)}</b><br>{box.kind}{inside}{whose}{'<br>' + said if said else ''}"


def _add_legend(figure: go.Figure, paint: Paint, palette: Palette) -> None:
    if paint.scale is None:
        return
    colors, low, high = paint.scale
    bar = {"thickness": 8, "outlinewidth": 0, "tickfont": {"size": 10, "color": palette.muted}, "x": 1.0}
    marker = {"color": [low, high], "colorscale": [list(stop) for stop in colors], "showscale": True, "colorbar": bar}
    figure.add_scatter(x=[None, None], y=[None, None], mode="markers", marker=marker, hoverinfo="skip")


def tree_figure(
    modules: Sequence[ModuleInfo], paint: Paint, palette: Palette, *, selected: str | None = None
) -> go.Figure:
    """Every module inside of the one that holds it, the whole model at the left; a click goes inside."""
    sites = [module.site for module in modules]
    parents = parents_of(sites)
    holds = set(parents.values())
    figure = go.Figure(layout={"template": template(palette)})
    figure.add_icicle(
        ids=[display_site(site) for site in sites],
        labels=[site.rpartition(".")[2] or display_site(site) for site in sites],
        parents=[_name(parents[site]) for site in sites],
        values=[0 if site in holds else 1 for site in sites],
        branchvalues="remainder",
        customdata=sites,
        text=[module.kind for module in modules],
        hovertext=[
            f"<b>{display_site(module.site)}</b><br>{module.kind}<br>{paint.texts.get(module.site, '')}"
            for module in modules
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        marker={
            "colors": [paint.colors.get(site, palette.grid) for site in sites],
            "line": {"width": 1, "color": palette.surface},
        },
        level=_name(selected) if selected in holds else None,
        maxdepth=5,
        tiling={"orientation": "h"},
    )
    figure.update_layout(height=int(np.clip(len(sites) * 14, 320, 760)), margin={"l": 8, "r": 8, "t": 8, "b": 8})
    return figure


def _name(site: str | None) -> str:
    return "" if site is None else display_site(site)
