"""One run as one HTML file with plotly.js inside, readable without a server or a network."""

import base64
import re
import time
from html import escape
from pathlib import Path
from typing import Final

import plotly.io
from dash import dcc, html
from dash.development.base_component import Component
from plotly.offline import get_plotlyjs

from ...storage import Run, Store
from ..components.page_parts import CONFIG, graph, panel
from ..components.run_header import headline_cards, run_status
from ..components.tensor_detail import tensor_panel
from ..formatting import count, sentence
from ..headline import default_maps, headline_of, tensor_of
from ..pages.findings.findings_page import findings_list
from ..pages.graph.graph_page import model_figure
from ..pages.robustness.robustness_page import robustness_panels
from ..queries.environment_queries import part_of, scalar_rows
from ..queries.evaluations import evaluations
from ..queries.model_queries import modules
from ..queries.reader import Reader
from ..queries.result_queries import main_loss
from ..run_figures import run_curve_figure, run_heatmap_figure
from ..theme import Palette, palette_of

_ATTRIBUTES: Final = {"className": "class", "title": "title", "role": "role", "tabIndex": "tabindex"}
_VOID: Final = frozenset({"Br", "Hr", "Img"})
_HTML: Final = frozenset(vars(html))


def markup(part: object) -> str:
    """Render components, text and lists of them as HTML; text is escaped.

    A figure is drawn by the plotly.js of the document. Links become text, since their pages are missing; buttons and
    controls are left out.
    """
    if part is None:
        return ""
    if isinstance(part, list | tuple):
        return "".join(markup(child) for child in part)
    if not isinstance(part, Component):
        return escape(str(part))
    if isinstance(part, dcc.Graph):
        return figure_markup(part.figure, (getattr(part, "style", None) or {}).get("height"))
    children = markup(getattr(part, "children", None))
    if isinstance(part, dcc.Link | html.A):
        if "button" in (getattr(part, "className", None) or ""):
            return ""
        return f"<span{_attributes(part)}>{children}</span>"
    name = type(part).__name__
    if type(part).__module__.startswith("dash.html") and name in _HTML:
        tag = name.lower()
        return f"<{tag}{_attributes(part)}>" + ("" if name in _VOID else f"{children}</{tag}>")
    return ""


def figure_markup(figure: object, height: str | None = None) -> str:
    """Render the figure as an element of the page and the script that draws it there."""
    drawn: str = plotly.io.to_html(
        figure,
        config=CONFIG,
        include_plotlyjs=False,
        full_html=False,
        validate=False,
        default_height=height or "400px",
    )
    return drawn


def _attributes(part: Component) -> str:
    properties = part.to_plotly_json()["props"]
    pairs = [(name, properties[key]) for key, name in _ATTRIBUTES.items() if properties.get(key) is not None]
    pairs += [(key, value) for key, value in properties.items() if key.startswith("aria-")]
    style = properties.get("style")
    if style:
        pairs.append(("style", "; ".join(f"{_dashed(name)}: {value}" for name, value in style.items())))
    return "".join(f' {name}="{escape(str(value))}"' for name, value in pairs)


def _dashed(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


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
    """Write the report of a run into a folder, which is created when missing.

    Returns:
        The file, `<run id>.html`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.id}.html"
    path.write_text(report(Reader(store), run, scheme=scheme), encoding="utf-8")
    return path


def report(reader: Reader, run: Run, *, scheme: str = "light") -> str:
    """Render the report as one HTML document, of 5 MB plus its figures."""
    palette = palette_of(scheme)
    parts = [
        _head(run),
        *verdict_parts(reader, run),
        *_figures(reader, run, palette),
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
    """Return the styles of the dashboard with their icons inlined."""
    text = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in _STYLES)
    return re.sub(r'url\("([a-z]+\.svg)"\)', lambda found: f'url("{_inline(found[1])}")', text)


def _inline(name: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode((_ASSETS / name).read_bytes()).decode()


def _head(run: Run) -> Component:
    title = html.H1(run.name or run.id, className="page-title")
    written = html.P(f"{run.id} · written {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}", className="muted")
    status = html.Div(run_status(run, time.time()), className="status")
    return html.Header(html.Div([title, status, written], className="page-head-text"), className="page-head")


def verdict_parts(reader: Reader, run: Run) -> list[Component]:
    """Build the four verdict cards, and every root cause with what follows from it."""
    findings = reader.findings(run.id)
    shown = headline_cards(run, headline_of(reader, run), len(findings), main_loss(reader, run))
    cards = html.Div(shown, className="cards")
    return [cards, html.Div(findings_list(reader, run), className="stack")]


def _figures(reader: Reader, run: Run, palette: Palette) -> list[Component]:
    """Draw the loss, layer by step, and the tensor of the first anomaly; leave out what was not recorded."""
    parts: list[Component] = []
    scalars, metrics = reader.scalars(run.id), reader.metrics(run.id)
    if scalars:
        scalar = main_loss(reader, run).name or scalars[0]
        drawn = run_curve_figure(reader, run.id, scalar, "linear", palette)
        parts.append(panel(f"Curve of {scalar}", graph("curve", f"{scalar} over the steps", 250, drawn)))
    if metrics:
        maps = run_heatmap_figure(reader, run.id, default_maps(metrics), "deviation", palette)
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
    drawn = model_figure(reader, run, palette, shape="flow", color="findings", metric="", site=None, step=run.last_step)
    return [panel("Model, coloured by its findings", graph("model", "data flow", drawn.layout.height, drawn))]


def _surroundings(reader: Reader, run: Run) -> list[Component]:
    """Build the tables about the run, each folded."""
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
