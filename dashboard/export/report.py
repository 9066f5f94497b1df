"""One run as one HTML file: what its pages say, with plotly.js inside, readable without a server or a network."""

import base64
import re
import time
from html import escape
from pathlib import Path
from typing import Final

from dash import html
from dash.development.base_component import Component
from plotly.offline import get_plotlyjs

from ...storage import Run, Store
from ..components import graph, headline_cards, panel, run_status
from ..components.detail import tensor_panel
from ..data import Reader
from ..data.evaluations import evaluations
from ..data.model import modules
from ..data.surroundings import part_of, scalar_rows
from ..headline import headline_of
from ..pages.findings import findings_list
from ..pages.graph import model_picture
from ..pages.robustness import robustness_panels
from ..pictures.run import curve_picture, heat_picture
from ..places import tensor_of, usual_maps
from ..theme import Palette, palette_of
from ..words import count, sentence
from .markup import markup

_ASSETS: Final = Path(__file__).parents[1] / "assets"
_STYLES: Final = ("app.css", "pages.css", "robustness.css")
_PARTS: Final = ("configuration", "machine", "packages", "git", "devices", "variables")
_PAGE: Final = """<!DOCTYPE html>
<html lang="en" data-mantine-color-scheme="{scheme}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:">
<title>{title}</title>
<style>{style}</style>
<script>{plotly}</script>
</head>
<body><main class="main">{body}</main></body>
</html>
"""


def export_report(store: Store, run: Run, folder: Path, *, scheme: str = "light") -> Path:
    """Writes the report of a run into a folder, which is made when it is not there.

    Returns:
        The file, `<run id>.html`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.id}.html"
    path.write_text(report(Reader(store), run, scheme=scheme), encoding="utf-8")
    return path


def report(reader: Reader, run: Run, *, scheme: str = "light") -> str:
    """The report as one HTML document, of 5 MB and what its figures hold."""
    palette = palette_of(scheme)
    parts = [
        _head(run),
        *_said_first(reader, run),
        *_pictures(reader, run, palette),
        *_model(reader, run, palette),
        *robustness_panels(evaluations(reader, run.id), palette),
        *_surroundings(reader, run),
    ]
    return _PAGE.format(
        scheme=palette.scheme,
        title=escape(f"{run.name or run.id} · mindscope"),
        style=_style(),
        plotly=get_plotlyjs(),
        body=markup(parts),
    )


def _style() -> str:
    """The styles of the dashboard, their pictures inside."""
    text = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in _STYLES)
    return re.sub(r'url\("([a-z]+\.svg)"\)', lambda found: f'url("{_inline(found[1])}")', text)


def _inline(name: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode((_ASSETS / name).read_bytes()).decode()


def _head(run: Run) -> Component:
    title = html.H1(run.name or run.id, className="page-title")
    written = html.P(f"{run.id} · written {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}", className="muted")
    status = html.Div(run_status(run, time.time()), className="status")
    return html.Header(html.Div([title, status, written], className="page-head-text"), className="page-head")


def _said_first(reader: Reader, run: Run) -> list[Component]:
    """The verdict in four cards, and every root cause with what follows from it."""
    findings = reader.findings(run.id)
    cards = html.Div(headline_cards(run, headline_of(reader, run), len(findings)), className="cards")
    return [cards, html.Div(findings_list(reader, run), className="stack")]


def _pictures(reader: Reader, run: Run, palette: Palette) -> list[Component]:
    """The loss, layer by step, and the tensor of the first anomaly; what was not recorded is left out."""
    parts: list[Component] = []
    scalars, metrics = reader.scalars(run.id), reader.metrics(run.id)
    if scalars:
        scalar = "loss" if "loss" in scalars else scalars[0]
        drawn = curve_picture(reader, run.id, scalar, "linear", palette)
        parts.append(panel(f"Curve of {scalar}", graph("curve", f"{scalar} over the steps", 250, drawn)))
    if metrics:
        maps = heat_picture(reader, run.id, usual_maps(metrics), "deviation", palette)
        title = "Layer × step, as deviation from each layer's own history"
        parts.append(panel(title, graph("maps", "layer by step", maps.layout.height, maps)))
    first = headline_of(reader, run).first
    metric, site = tensor_of(reader, run, first) if first else ("", None)
    if first and site is not None:
        parts.append(tensor_panel(reader, run, metric, site, first.first_step, palette))
    return parts


def _model(reader: Reader, run: Run, palette: Palette) -> list[Component]:
    if not modules(reader, run.id):
        return []
    drawn = model_picture(reader, run, "flow", "findings", "", None, run.last_step, palette)
    return [panel("Model, coloured by its findings", graph("model", "data flow", drawn.layout.height, drawn))]


def _surroundings(reader: Reader, run: Run) -> list[Component]:
    """The tables about the run, each folded."""
    parts = [("scalars", scalar_rows(reader, run))]
    parts += [(name, [{"name": key, "value": value} for key, value in part_of(run, name).items()]) for name in _PARTS]
    return [
        panel(sentence(name), html.Details([html.Summary(count(len(rows), "row")), _table(rows)], className="fold"))
        for name, rows in parts
        if rows
    ]


def _table(rows: list[dict[str, object]]) -> Component:
    head = html.Tr([html.Th(name) for name in rows[0]])
    body = [html.Tr([html.Td("" if value is None else str(value)) for value in row.values()]) for row in rows]
    return html.Div(html.Table([html.Thead(head), html.Tbody(body)], className="table"), className="table-frame")
