"""The model as a graph: where in the data flow, or in the tree of modules, something is wrong at a step."""

import time
from typing import Final

import dash
import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ....storage import ROOT_SITE, Run, display_site
from ...address import PageAddress, QueryKey
from ...components.form_controls import choose, labelled, site_choices, site_of, switch, with_chosen
from ...components.page_parts import empty_state, graph, panel, severity_badge
from ...components.run_header import run_header, run_link, run_picker, run_status
from ...components.shell import ShellIds
from ...formatting import sentence
from ...headline import filled_address
from ...page_callbacks import METRIC, SITE, STEP, connect_polling, control_keys, follow_run, keep_address, polling_parts
from ...page_registry import page
from ...queries.model_queries import by_module, modules, values_at
from ...queries.reader import Reader
from ...theme import Palette, palette_of
from .module_graph_figure import SiteColors, color_by_findings, color_by_values, flow_figure, flow_of, tree_figure

SHAPE, COLOR = (
    QueryKey("shape", "flow", ("flow", "tree")),
    QueryKey("color", "findings", ("findings", "deviation", "value")),
)


class GraphIds:
    """Ids of the components of this page."""

    run: Final = "graph-run"
    keys: Final = "graph-keys"
    shape: Final = "graph-shape"
    color: Final = "graph-color"
    metric: Final = "graph-metric"
    site: Final = "graph-site"
    step: Final = "graph-step"
    figure: Final = "graph-picture"
    detail: Final = "graph-detail"
    tick: Final = "graph-tick"
    version: Final = "graph-version"


_CONTROLS: Final = (
    (GraphIds.shape, "value", SHAPE),
    (GraphIds.color, "value", COLOR),
    (GraphIds.metric, "value", METRIC),
    (GraphIds.site, "value", SITE),
    (GraphIds.step, "value", STEP),
)


def model_figure(
    reader: Reader, run: Run, palette: Palette, *, shape: str, color: str, metric: str, site: str | None, step: int
) -> go.Figure:
    """Draw the model in one of its shapes and colours."""
    infos = modules(reader, run.id)
    paint = _paint(reader, run, color, metric, step, palette)
    if shape == "tree":
        return tree_figure(infos, paint, palette, selected=site)
    return flow_figure(flow_of(infos, site), paint, palette, selected=site)


def _paint(reader: Reader, run: Run, color: str, metric: str, step: int, palette: Palette) -> SiteColors:
    if color == "findings":
        return color_by_findings(reader.findings(run.id), step, palette)
    is_deviation = color == "deviation"
    values = by_module(modules(reader, run.id), values_at(reader, run.id, metric, step, deviations=is_deviation))
    return color_by_values(
        values, palette, is_deviation=is_deviation, unit="σ from its history" if is_deviation else metric
    )


def module_panel(reader: Reader, run: Run, site: str | None, metric: str, step: int) -> list[Component]:
    """List what is known of the chosen module, with links from it."""
    info = next((module for module in modules(reader, run.id) if module.site == site), None)
    if info is None or site is None:
        words = html.P(
            "Choose a module above, or click one in the graph, to see its inputs and parameters.", className="muted"
        )
        whole = _findings_here(reader, run, ROOT_SITE)
        return [*([html.P("About the whole model:"), *whole] if whole else []), words]
    inside = [
        parameter for parameter in reader.structure(run.id).parameters if parameter.site.rpartition(".")[0] == site
    ]
    facts = [
        ("Class", info.kind),
        ("Call", f"number {info.order}" if info.order >= 0 else "never called in the first forward"),
        ("Inputs from", ", ".join(display_site(source) for source in info.inputs) or "no watched module"),
        (
            "Parameters",
            ", ".join(f"{parameter.site.rpartition('.')[2]} {list(parameter.shape)}" for parameter in inside) or "none",
        ),
    ]
    pairs = [html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts]
    ways = [run_link("Open its tensor", PageAddress("tensor", run=run.id).at(metric, site, step).href)]
    return [html.Dl(pairs, className="evidence"), *_findings_here(reader, run, site), html.Div(ways, className="ways")]


def _findings_here(reader: Reader, run: Run, site: str) -> list[Component]:
    found = [
        finding for finding in reader.findings(run.id) if finding.site == site or finding.site.startswith(f"{site}.")
    ][:6]
    return [
        html.Div(
            [
                severity_badge(finding.severity),
                dcc.Link(sentence(finding.cause), href=PageAddress("findings", run=run.id).href),
                html.Span(f"since step {finding.first_step:,}", className="muted"),
            ],
            className="finding-head",
        )
        for finding in found
    ]


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draw the model, describe the chosen module, and follow clicks."""

    @app.callback(
        Output(GraphIds.figure, "figure"),
        Output(GraphIds.figure, "style"),
        Output(GraphIds.detail, "children"),
        Input(GraphIds.shape, "value"),
        Input(GraphIds.color, "value"),
        Input(GraphIds.metric, "value"),
        Input(GraphIds.site, "value"),
        Input(GraphIds.step, "value"),
        Input(GraphIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(GraphIds.run, "value"),
    )
    def draw(
        shape: str,
        color: str,
        metric: str | None,
        choice: str | None,
        step: object,
        _: str,
        scheme: str | None,
        reference: str,
    ) -> tuple[object, ...]:
        run, site = reader.find(reference), site_of(choice)
        at = step if isinstance(step, int) else run.last_step
        figure = model_figure(
            reader, run, palette_of(scheme), shape=shape, color=color, metric=metric or "", site=site, step=at
        )
        style = {"height": f"{figure.layout.height}px"}
        return figure, style, module_panel(reader, run, site, metric or "", at)

    app.clientside_callback(
        ClientsideFunction("mindscope", "openModule"),
        Output(GraphIds.site, "value"),
        Input(GraphIds.figure, "clickData"),
        prevent_initial_call=True,
    )
    connect_polling(app, reader, tick=GraphIds.tick, version=GraphIds.version, run=GraphIds.run)
    keep_address(app, GraphIds.keys, _CONTROLS)
    follow_run(app, GraphIds.run)


def _slider(step: int, last: int) -> dmc.Slider:
    return dmc.Slider(
        id=GraphIds.step,
        value=step,
        min=0,
        max=max(1, last),
        step=1,
        size="sm",
        updatemode="mouseup",
        marks=[{"value": at, "label": f"{at:,}"} for at in sorted({0, last // 2, max(1, last)})],
        className="step-slider",
        thumbLabel="Step",
        **{"aria-label": "Step"},
    )


def _module_of(reader: Reader, run: Run, site: str | None) -> str | None:
    """Return the module to show: for a parameter's site the module that holds it."""
    is_parameter = any(parameter.site == site for parameter in reader.structure(run.id).parameters)
    return site.rpartition(".")[0] if site and is_parameter else site


def _drawing(reader: Reader, run: Run, here: PageAddress) -> list[Component]:
    step = min(run.last_step, here.step) if here.step is not None else run.last_step
    infos, metrics = modules(reader, run.id), reader.metrics(run.id)
    site = _module_of(reader, run, here.site)
    chosen = None if site is None else display_site(site)
    controls = [
        labelled("as", switch(GraphIds.shape, "Shape of the graph", SHAPE.words, SHAPE.of(here))),
        labelled("colours", switch(GraphIds.color, "Colours show", COLOR.words, COLOR.of(here))),
        choose(GraphIds.metric, "Metric", with_chosen(metrics, here.metric), here.metric or None, 220),
        choose(
            GraphIds.site,
            "Module",
            site_choices([module.site for module in infos], site),
            chosen,
            240,
            clearable=True,
            placeholder="find a module",
        ),
    ]
    slider = html.Div([html.Span("Step", className="muted"), _slider(step, run.last_step)], className="step-row")
    figure = dcc.Loading(graph(GraphIds.figure, "the model; a click opens a module or chooses it"), delay_show=400)
    return [
        panel("Model", [slider, figure], controls),
        panel("Module", html.Div(id=GraphIds.detail)),
        control_keys(GraphIds.keys, _CONTROLS),
    ]


@page("graph", title="Graph", icon="graph", connect=connect, keys=(SHAPE, COLOR))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the model of one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    head = run_header(run, status, run_picker(GraphIds.run, reader.runs(), run))
    if not modules(reader, run.id):
        note = empty_state(
            "No model recorded",
            "The modules of a run are known after its first forward; an imported run or one that only logs scalars "
            "has none. `ms.watch(model, optimizer)` records them.",
        )
        return html.Div([head, html.Section(note, className="panel")])
    polling = polling_parts(GraphIds.tick, GraphIds.version, reader.version(run.id))
    return html.Div([head, *_drawing(reader, run, filled_address(reader, run, address)), *polling])
