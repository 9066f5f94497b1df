"""The model as a graph: where in the data flow, or in the tree of modules, something is wrong at a step."""

import time
from typing import Any, Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ...storage import ROOT_SITE, Run, display_site
from ..address import Address, Key
from ..beat import beat, connect_beat
from ..components import empty_state, graph, panel, run_header, run_link, run_picker, run_status, severity_badge
from ..components.choices import choose, labelled, site_choices, site_of, switch, with_chosen
from ..controls import METRIC, SITE, STEP, control_keys, follow_run, keep_address
from ..data import Reader
from ..data.model import by_module, modules, values_at
from ..figures.folding import flow_of
from ..figures.module_graph import Paint, flow_figure, paint_findings, paint_values, tree_figure
from ..ids import Shell
from ..page import page
from ..places import place_of
from ..theme import Palette, palette_of
from ..words import sentence

SHAPE, COLOR = Key("shape", "flow", ("flow", "tree")), Key("color", "findings", ("findings", "deviation", "value"))


class Id:
    """What stands on this page."""

    run: Final = "graph-run"
    keys: Final = "graph-keys"
    shape: Final = "graph-shape"
    color: Final = "graph-color"
    metric: Final = "graph-metric"
    site: Final = "graph-site"
    step: Final = "graph-step"
    picture: Final = "graph-picture"
    detail: Final = "graph-detail"
    tick: Final = "graph-tick"
    version: Final = "graph-version"


_CONTROLS: Final = (
    (Id.shape, "value", SHAPE),
    (Id.color, "value", COLOR),
    (Id.metric, "value", METRIC),
    (Id.site, "value", SITE),
    (Id.step, "value", STEP),
)


def model_picture(
    reader: Reader, run: Run, shape: str, color: str, metric: str, site: str | None, step: int, palette: Palette
) -> Any:  # go.Figure, which has no types
    """The model in one of its shapes and colours."""
    infos = modules(reader, run.id)
    paint = _paint(reader, run, color, metric, step, palette)
    if shape == "tree":
        return tree_figure(infos, paint, palette, selected=site)
    return flow_figure(flow_of(infos, site), paint, palette, selected=site)


def _paint(reader: Reader, run: Run, color: str, metric: str, step: int, palette: Palette) -> Paint:
    if color == "findings":
        return paint_findings(reader.findings(run.id), step, palette)
    is_deviation = color == "deviation"
    values = by_module(modules(reader, run.id), values_at(reader, run.id, metric, step, deviations=is_deviation))
    return paint_values(
        values, palette, is_deviation=is_deviation, unit="σ from its history" if is_deviation else metric
    )


def module_panel(reader: Reader, run: Run, site: str | None, metric: str, step: int) -> list[Component]:
    """What is known of the chosen module, and the ways from it."""
    info = next((one for one in modules(reader, run.id) if one.site == site), None)
    if info is None or site is None:
        words = html.P("Choose a module, here or in the picture, to see what goes in and out.", className="muted")
        whole = _findings_here(reader, run, ROOT_SITE)
        return [*([html.P("About the whole model:"), *whole] if whole else []), words]
    inside = [one for one in reader.structure(run.id).parameters if one.site.rpartition(".")[0] == site]
    facts = [
        ("Class", info.kind),
        ("Call", f"number {info.order}" if info.order >= 0 else "never called in the first forward"),
        ("Takes from", ", ".join(display_site(one) for one in info.inputs) or "nothing that is watched"),
        ("Parameters", ", ".join(f"{one.site.rpartition('.')[2]} {list(one.shape)}" for one in inside) or "none"),
    ]
    pairs = [html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts]
    ways = [run_link("Its tensor over the steps", Address("tensor", run=run.id).at(metric, site, step).href)]
    return [html.Dl(pairs, className="evidence"), *_findings_here(reader, run, site), html.Div(ways, className="ways")]


def _findings_here(reader: Reader, run: Run, site: str) -> list[Component]:
    found = [one for one in reader.findings(run.id) if one.site == site or one.site.startswith(f"{site}.")][:6]
    return [
        html.Div(
            [
                severity_badge(one.severity),
                dcc.Link(sentence(one.cause), href=Address("findings", run=run.id).href),
                html.Span(f"since step {one.first_step:,}", className="muted"),
            ],
            className="finding-head",
        )
        for one in found
    ]


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draws the picture, tells about the chosen module, and follows clicks."""

    @app.callback(
        Output(Id.picture, "figure"),
        Output(Id.picture, "style"),
        Output(Id.detail, "children"),
        Input(Id.shape, "value"),
        Input(Id.color, "value"),
        Input(Id.metric, "value"),
        Input(Id.site, "value"),
        Input(Id.step, "value"),
        Input(Id.version, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
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
        picture = model_picture(reader, run, shape, color, metric or "", site, at, palette_of(scheme))
        style = {"height": f"{picture.layout.height}px"}
        return picture, style, module_panel(reader, run, site, metric or "", at)

    app.clientside_callback(
        ClientsideFunction("mindscope", "openModule"),
        Output(Id.site, "value"),
        Input(Id.picture, "clickData"),
        prevent_initial_call=True,
    )
    connect_beat(app, reader, tick=Id.tick, version=Id.version, run=Id.run)
    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)


def _slider(step: int, last: int) -> dmc.Slider:
    return dmc.Slider(
        id=Id.step,
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
    """The module that is looked at: of a parameter's site the module that holds it."""
    is_parameter = any(one.site == site for one in reader.structure(run.id).parameters)
    return site.rpartition(".")[0] if site and is_parameter else site


def _drawing(reader: Reader, run: Run, here: Address) -> list[Component]:
    step = min(run.last_step, here.step) if here.step is not None else run.last_step
    infos, metrics = modules(reader, run.id), reader.metrics(run.id)
    site = _module_of(reader, run, here.site)
    chosen = None if site is None else display_site(site)
    controls = [
        labelled("as", switch(Id.shape, "Shape of the picture", SHAPE.words, SHAPE.of(here))),
        labelled("colours", switch(Id.color, "Colours show", COLOR.words, COLOR.of(here))),
        choose(Id.metric, "Metric", with_chosen(metrics, here.metric), here.metric or None, 220),
        choose(
            Id.site,
            "Module",
            site_choices([one.site for one in infos], site),
            chosen,
            240,
            clearable=True,
            placeholder="find a module",
        ),
    ]
    slider = html.Div([html.Span("Step", className="muted"), _slider(step, run.last_step)], className="step-row")
    picture = dcc.Loading(graph(Id.picture, "the model; a click opens a module or chooses it"), delay_show=400)
    return [
        panel("Model", [slider, picture], controls),
        panel("Module", html.Div(id=Id.detail)),
        control_keys(Id.keys, _CONTROLS),
    ]


@page("graph", title="Graph", icon="graph", connect=connect, keys=(SHAPE, COLOR))
def layout(reader: Reader, address: Address) -> Component:
    """The model of one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    head = run_header(run, status, run_picker(Id.run, reader.runs(), run))
    if not modules(reader, run.id):
        note = empty_state(
            "No model recorded",
            "The modules of a run are known after its first forward; an imported run or one that only logs scalars "
            "has none. `ms.watch(model, optimizer)` records them.",
        )
        return html.Div([head, html.Section(note, className="panel")])
    beats = beat(Id.tick, Id.version, reader.version(run.id))
    return html.Div([head, *_drawing(reader, run, place_of(reader, run, address)), *beats])
