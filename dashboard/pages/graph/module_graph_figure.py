"""The model as a figure: modules folded into as many boxes as a screen holds, or the whole tree, coloured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ....storage import Finding, ModuleInfo, display_site
from ...formatting import number, sentence, short_site
from ...theme import ColorScale, Palette, template

#: Modules are opened level by level while no more boxes than this stand there; our choice: what 900 pixels can label.
_MOST: Final = 40


@dataclass(frozen=True, slots=True)
class ModuleBox:
    """One module, closed or without parts.

    Args:
        members: The sites that it represents, its own included.
        layer: Row in the drawing; every box is below its inputs.
        position: Position within the row, 0 in the middle.
    """

    site: str
    kind: str
    members: tuple[str, ...]
    layer: int
    position: float

    @property
    def is_closed(self) -> bool:
        """Whether there is something inside."""
        return len(self.members) > 1


@dataclass(frozen=True, slots=True)
class FlowLayout:
    """The boxes in the order of the computation, and which of them gives data to which."""

    boxes: tuple[ModuleBox, ...]
    edges: tuple[tuple[int, int], ...]


def parents_of(sites: Sequence[str]) -> dict[str, str | None]:
    """Return the module that directly holds each site; None for those at the top."""
    known = set(sites)
    return {site: _parent(site, known) for site in sites}


def _parent(site: str, known: set[str]) -> str | None:
    if site == "":
        return None
    prefix = site
    while "." in prefix:
        prefix = prefix.rpartition(".")[0]
        if prefix in known:
            return prefix
    return "" if "" in known else None


def flow_of(modules: Sequence[ModuleInfo], chosen: str | None = None) -> FlowLayout:
    """Lay out the data flow of a model, opened as far as fits a screen and around the chosen site."""
    parents = parents_of([module.site for module in modules])
    inside: dict[str | None, list[str]] = {}
    for site, parent in parents.items():
        inside.setdefault(parent, []).append(site)
    shown = _shown(inside, _opened(inside, parents, chosen))
    order = {module.site: module.order for module in modules}
    members = {site: (site, *_below(site, inside)) for site in shown}
    first = {site: _first_call(members[site], order) for site in shown}
    shown.sort(key=lambda site: (first[site] < 0, first[site]))
    edges = _edges(modules, shown, members, order, inside)
    kinds = {module.site: module.kind for module in modules}
    layers = _layers(len(shown), edges)
    places = _places(layers, edges)
    boxes = (ModuleBox(site, kinds[site], members[site], layers[at], places[at]) for at, site in enumerate(shown))
    return FlowLayout(tuple(boxes), edges)


def _opened(
    inside: Mapping[str | None, list[str]], parents: Mapping[str, str | None], chosen: str | None
) -> set[str | None]:
    """Return the open modules: whole levels from the top while they fit, then the chosen site and its ancestors."""
    opened: set[str | None] = {None}
    level = [site for site in inside.get(None, ()) if site in inside]
    while level:
        wider = opened | set(level)
        if len(_shown(inside, wider)) > _MOST and len(_shown(inside, opened)) > 1:
            break
        opened = wider
        level = [site for outer in level for site in inside[outer] if site in inside]
    while chosen is not None and chosen in parents:
        opened.add(chosen)
        chosen = parents[chosen]
    return opened


def _shown(inside: Mapping[str | None, list[str]], opened: set[str | None]) -> list[str]:
    found, waiting = [], list(reversed(inside.get(None, ())))
    while waiting:
        site = waiting.pop()
        if site in opened and site in inside:
            waiting.extend(reversed(inside[site]))
        else:
            found.append(site)
    return found


def _below(site: str, inside: Mapping[str | None, list[str]]) -> list[str]:
    return [deep for near in inside.get(site, ()) for deep in (near, *_below(near, inside))]


def _first_call(members: Sequence[str], order: Mapping[str, int]) -> int:
    return min((order[site] for site in members if order[site] >= 0), default=-1)


def _edges(
    modules: Sequence[ModuleInfo],
    shown: Sequence[str],
    members: Mapping[str, tuple[str, ...]],
    order: Mapping[str, int],
    inside: Mapping[str | None, list[str]],
) -> tuple[tuple[int, int], ...]:
    """Return pairs of boxes; the output of an open module comes from the last of its parts."""
    box = {site: at for at, shown_site in enumerate(shown) for site in members[shown_site]}

    def giver(site: str) -> int | None:
        if site in box or site not in order:
            return box.get(site)
        parts = [part for part in _below(site, inside) if part in box]
        return box[max(parts, key=lambda part: order[part])] if parts else None

    found: dict[tuple[int, int], None] = {}
    for module in modules:
        into = box.get(module.site)
        for source in module.inputs if into is not None else ():
            out = giver(source)
            if out is not None and into is not None and out != into:
                found[out, into] = None
    return tuple(found)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the longest path to each box; ignore edges back, as in a loop over the same module."""
    sorter = TopologicalSorter({at: [a for a, b in edges if b == at and a < b] for at in range(count)})
    sorter.prepare()
    layers, layer = [0] * count, 0
    while sorter.is_active():
        ready = sorter.get_ready()
        for at in ready:
            layers[at] = layer
        sorter.done(*ready)
        layer += 1
    return layers


def _places(layers: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[float]:
    """Place the boxes of one row side by side, each as near as possible to the middle of its inputs."""
    places = [0.0] * len(layers)
    for layer in range(max(layers, default=-1) + 1):
        row = [at for at, row_layer in enumerate(layers) if row_layer == layer]
        pull = {at: _mean([places[a] for a, b in edges if b == at and a < b]) for at in row}
        for index, at in enumerate(sorted(row, key=lambda at: (pull[at], at))):
            places[at] = index - (len(row) - 1) / 2
    return places


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


_SYMBOLS: Final = {"error": "diamond", "warning": "triangle-up", "info": "square"}
_SEVERITIES: Final = ("error", "warning", "info")
_ROW_HEIGHT: Final = 34
#: Boxes that still have room for their names.
_LABELLED: Final = 120
#: Deviations have their full colour here, as on the maps of layer x step.
_FULL: Final = 12.0


@dataclass(frozen=True, slots=True)
class SiteColors:
    """How sites are painted.

    Args:
        colors: CSS colours by site; other sites have the default colour.
        symbols: Plotly symbols by site, for readers who cannot distinguish colours.
        texts: Hover text of each site.
        scale: Colours of the legend with its two ends, None when the colours are words of severity.
    """

    colors: Mapping[str, str]
    symbols: Mapping[str, str]
    texts: Mapping[str, str]
    scale: tuple[ColorScale, float, float] | None = None


def color_by_findings(findings: Sequence[Finding], step: int, palette: Palette) -> SiteColors:
    """Colour each site by its worst finding up to a step; the severity gives colour and symbol."""
    by_site: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.first_step <= step:
            by_site.setdefault(finding.site, []).append(finding)
    worst = {
        site: min(found, key=lambda finding: _SEVERITIES.index(finding.severity)).severity
        for site, found in by_site.items()
    }
    texts = {
        site: "<br>".join(f"{sentence(finding.cause)} since step {finding.first_step:,}" for finding in found[:4])
        for site, found in by_site.items()
    }
    colors = {site: palette.severity(severity) for site, severity in worst.items()}
    return SiteColors(colors, {site: _SYMBOLS[severity] for site, severity in worst.items()}, texts)


def color_by_values(values: Mapping[str, float], palette: Palette, *, is_deviation: bool, unit: str) -> SiteColors:
    """Colour sites by numbers; non-finite ones have the colour of NaN and a symbol of their own."""
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
    return SiteColors(colors, symbols, texts, (scale, low, high))


def _between(scale: ColorScale, share: float) -> str:
    """Mix the colour at a share of a scale from the two stops around it."""
    places = [position for position, _ in scale]
    stops = np.array([[int(color[at : at + 2], 16) for at in (1, 3, 5)] for _, color in scale])
    mixed = [round(float(np.interp(share, places, stops[:, channel]))) for channel in range(3)]
    return f"rgb({mixed[0]}, {mixed[1]}, {mixed[2]})"


def flow_figure(flow: FlowLayout, paint: SiteColors, palette: Palette, *, selected: str | None = None) -> go.Figure:
    """Draw data flow from top to bottom; closed boxes are squares with a border, and open at a click."""
    figure = go.Figure(layout={"template": template(palette)})
    _add_edges(figure, flow, palette)
    sites = [_worst_of(box, paint) for box in flow.boxes]
    figure.add_scatter(
        x=[box.position for box in flow.boxes],
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
    widest = max((abs(box.position) for box in flow.boxes), default=0.0)
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


def _add_edges(figure: go.Figure, flow: FlowLayout, palette: Palette) -> None:
    """Draw lines from box to box; one that passes other rows bows out, so that it avoids their boxes."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for a, b in flow.edges:
        start, end = flow.boxes[a], flow.boxes[b]
        bow = 0.0 if abs(end.layer - start.layer) <= 1 else min(0.8, 0.25 + 0.05 * abs(end.layer - start.layer))
        for share in np.linspace(0, 1, 2 if bow == 0 else 9).tolist():
            xs.append(start.position + (end.position - start.position) * share - bow * 4 * share * (1 - share))
            ys.append(start.layer + (end.layer - start.layer) * share)
        xs.append(None)
        ys.append(None)
    line = {"width": 1.2, "color": palette.muted}
    figure.add_scatter(x=xs, y=ys, mode="lines", line=line, hoverinfo="skip", opacity=0.6)


def _worst_of(box: ModuleBox, paint: SiteColors) -> str:
    """Return the member that gives a closed box its colour: the first with findings, else its own site."""
    if box.site in paint.colors or paint.scale is not None:
        return box.site
    return next((site for site in box.members if site in paint.colors), box.site)


def _label(box: ModuleBox) -> str:
    inside = f" +{len(box.members) - 1}" if box.is_closed else ""
    return f"  {short_site(display_site(box.site), 30)}{inside}"


def _hover(box: ModuleBox, site: str, paint: SiteColors) -> str:
    inside = f"<br>{len(box.members) - 1} modules inside; a click opens it" if box.is_closed else ""
    text = paint.texts.get(site, "")
    whose = f"<br>{display_site(site)}:" if text and site != box.site else ""
    return f"<b>{display_site(box.site)}</b><br>{box.kind}{inside}{whose}{'<br>' + text if text else ''}"


def _add_legend(figure: go.Figure, paint: SiteColors, palette: Palette) -> None:
    if paint.scale is None:
        return
    colors, low, high = paint.scale
    bar = {"thickness": 8, "outlinewidth": 0, "tickfont": {"size": 10, "color": palette.muted}, "x": 1.0}
    marker = {"color": [low, high], "colorscale": [list(stop) for stop in colors], "showscale": True, "colorbar": bar}
    figure.add_scatter(x=[None, None], y=[None, None], mode="markers", marker=marker, hoverinfo="skip")


def tree_figure(
    modules: Sequence[ModuleInfo], paint: SiteColors, palette: Palette, *, selected: str | None = None
) -> go.Figure:
    """Draw every module inside the one that holds it, the whole model at the left; a click goes inside."""
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
