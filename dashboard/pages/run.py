"""One run, live: what is wrong first, the curve, layer x step, and the tensor behind any cell."""

import time
from dataclasses import replace
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ...storage import Finding, Run, metric_name
from ..address import Address
from ..components import empty_state, graph, headline_cards, panel, run_header, run_link, run_picker, run_status
from ..components.detail import tensor_panel
from ..components.live_controls import curve_controls, heat_controls, site_choices, site_of
from ..data import ELEMENT_COUNTS, Reader
from ..headline import headline
from ..ids import Live as Id
from ..ids import Shell
from ..live import cursor_now, from_json, look, to_json
from ..page import page
from ..pictures import curve_name, curve_picture, heat_picture, missing_metric
from ..theme import palette_of

_REFRESH_MS: Final = 1000
_PREFERRED: Final = ("activation/l2_norm", "gradient/l2_norm", "update/ratio_to_weight", "weight/l2_norm")
_CONTROLS: Final = (Id.scalar, Id.scale, Id.metric, Id.view, Id.site, Id.step)


def _telling(metric: str, metrics: tuple[str, ...]) -> str:
    """The metric that shows the tensor of a finding best: for counts of NaN its norm, on which they are marked."""
    subject, _, statistic = metric.rpartition("/")
    norm = metric_name(subject, "l2_norm")
    if statistic in ELEMENT_COUNTS and norm in metrics:
        return norm
    return metric if metric in metrics else ""


def _tensor_of(reader: Reader, run: Run, finding: Finding) -> tuple[str, str | None]:
    """Metric and site of the tensor that a finding speaks of; no site when it speaks of the whole model."""
    metric = _telling(finding.metric, reader.metrics(run.id))
    return metric, finding.site if finding.site in reader.sites(run.id, metric) else None


def place_of(reader: Reader, run: Run, address: Address) -> Address:
    """The address with what it leaves open filled in: the first anomaly, if there is one, else the usual."""
    metrics, scalars = reader.metrics(run.id), reader.scalars(run.id)
    first = headline(run, reader.findings(run.id)).first
    if first is not None and not address.metric and address.site is None:
        address = address.at(*_tensor_of(reader, run, first), first.first_step)
    if not address.metric:
        usual: list[str] = [metric for metric in _PREFERRED if metric in metrics]
        address = replace(address, metric=next(iter((*usual, *metrics)), ""))
    if address.scalar not in scalars and address.scalar == Address().scalar and scalars:
        address = replace(address, scalar=scalars[0])
    return address


def _evaluation(reader: Reader, run: Run) -> Component:
    note = empty_state(
        "An evaluation",
        "It has no steps; what the attacks did stands under Robustness.",
        run_link("Open it", Address("robustness", run=run.parent or run.id).href),
    )
    status = html.Div(run_status(run, time.time()), className="status")
    return html.Div(
        [run_header(run, status, run_picker(Id.run, reader.runs(), run)), html.Section(note, className="panel")]
    )


def _curve_panel(reader: Reader, run: Run, here: Address) -> html.Section:
    picture = graph(Id.curve, "the chosen scalar over the steps, findings marked", 250)
    return panel("Curve", picture, curve_controls(reader.scalars(run.id), here))


def _heat_panel(reader: Reader, run: Run, here: Address) -> html.Section:
    controls = heat_controls(reader.metrics(run.id), reader.sites(run.id, here.metric), here)
    body = [
        graph(Id.heat, "layer by step; choose a cell, or a site and step above, to see its tensor"),
        html.Div(id=Id.heat_note),
    ]
    return panel("Layer × step", body, controls)


def connect(app: dash.Dash, reader: Reader) -> None:
    """The callbacks of the page: one look per tick, three pictures, and the address kept in step with the controls."""
    _connect_tick(app, reader)
    _connect_curve(app, reader)
    _connect_heat(app, reader)
    _connect_detail(app, reader)
    _connect_browser(app)


def _connect_tick(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.cursor, "data"),
        Output(Id.tail, "data"),
        Output(Id.redraw, "data"),
        Output(Id.beat, "data"),
        Output(Id.cards, "children"),
        Output(Id.status, "children"),
        Input(Id.tick, "n_intervals"),
        State(Id.cursor, "data"),
        State(Id.run, "value"),
        State(Id.scalar, "value"),
        State(Id.scale, "value"),
        prevent_initial_call=True,
    )
    def tick(count: int, data: object, reference: str, scalar: str, scale: str) -> tuple[object, ...]:
        """Answers in a few bytes when nothing has happened, in a few kilobytes when the run has gone on."""
        seen = from_json(data)
        run = reader.find(reference)
        news = look(reader, run.id, scalar, seen, log=scale == "log", is_over=run.state != "running")
        if news is None:
            raise PreventUpdate
        findings = reader.findings(run.id)
        tail = {"name": curve_name(scalar, scale), "x": news.tail.x, "y": news.tail.y} if news.tail else no_update
        return (
            to_json(news.cursor),
            tail,
            count if news.redraw else no_update,
            count if news.beat else no_update,
            headline_cards(run, headline(run, findings), len(findings)),
            run_status(run, time.time()),
        )


def _connect_curve(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.curve, "figure"),
        Output(Id.scalar, "data"),
        Input(Id.scalar, "value"),
        Input(Id.scale, "value"),
        Input(Id.redraw, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(scalar: str, scale: str, _: int, scheme: str | None, run: str) -> tuple[object, list[str]]:
        picture = curve_picture(reader, run, scalar, scale, palette_of(scheme))
        return picture, list(dict.fromkeys((*reader.scalars(run), scalar)))


def _connect_heat(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.heat, "figure"),
        Output(Id.heat, "style"),
        Output(Id.heat_note, "children"),
        Output(Id.metric, "data"),
        Output(Id.site, "data"),
        Input(Id.metric, "value"),
        Input(Id.view, "value"),
        Input(Id.beat, "data"),
        State(Id.site, "value"),
        State(Id.step, "value"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(
        metric: str | None, view: str, _: int, choice: str | None, step: object, scheme: str | None, run: str
    ) -> tuple[object, ...]:
        metrics = reader.metrics(run)
        note = missing_metric(reader, run, metric or "")
        if note:
            return no_update, {"display": "none"}, empty_state(*note), list(metrics), no_update
        site, palette = site_of(choice), palette_of(scheme)
        selected = (site, step) if site is not None and isinstance(step, int) else None
        picture = heat_picture(reader, run, str(metric), view, selected, palette)
        style = {"height": f"{picture.layout.height}px"}
        return picture, style, None, list(metrics), site_choices(reader.sites(run, str(metric)), site)


def _connect_detail(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.detail, "children"),
        Input(Id.metric, "value"),
        Input(Id.site, "value"),
        Input(Id.step, "value"),
        Input(Id.beat, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(
        metric: str | None, choice: str | None, step: object, _: int, scheme: str | None, reference: str
    ) -> list[Component]:
        run, site = reader.find(reference), site_of(choice)
        at = step if isinstance(step, int) else None
        first = headline(run, reader.findings(run.id)).first
        if site is None and first is not None:
            (metric, site), at = _tensor_of(reader, run, first), first.first_step
        if site is None or not metric:
            return []
        return [tensor_panel(reader, run, metric, site, at, palette_of(scheme))]


def _connect_browser(app: dash.Dash) -> None:
    """What the browser does by itself: append the tail, follow or pause, keep controls and address in step."""
    app.clientside_callback(
        ClientsideFunction("mindscope", "extendCurve"),
        Output(Id.curve, "extendData"),
        Input(Id.tail, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "frameCell"),
        Input(Id.site, "value"),
        Input(Id.step, "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "paused"),
        Output(Id.tick, "disabled"),
        Input(Id.follow, "checked"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "syncLive"),
        Output(Shell.url, "search", allow_duplicate=True),
        *(Output(name, "value", allow_duplicate=True) for name in _CONTROLS),
        *(Input(name, "value") for name in _CONTROLS),
        Input(Id.heat, "clickData"),
        Input(Id.url, "search"),
        State(Id.run, "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "chooseRun"),
        Output(Shell.url, "search", allow_duplicate=True),
        Input(Id.run, "value"),
        State(Shell.shown, "data"),
        prevent_initial_call=True,
    )


@page("run", title="Live run", icon="run", connect=connect)
def layout(reader: Reader, address: Address) -> Component:
    """The page of one run."""
    run = reader.find(address.run)
    if run.kind == "evaluation":
        return _evaluation(reader, run)
    seen = cursor_now(reader, run.id, run.last_step)
    here = place_of(reader, run, address)
    now = time.time()
    status = html.Div(run_status(run, now), id=Id.status, className="status")
    follow = dmc.Switch(id=Id.follow, checked=True, label="Follow", size="xs", labelPosition="left")
    findings = reader.findings(run.id)
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run), [follow]),
            html.Div(headline_cards(run, headline(run, findings), len(findings)), id=Id.cards, className="cards"),
            _curve_panel(reader, run, here),
            _heat_panel(reader, run, here),
            html.Div(id=Id.detail, className="detail"),
            dcc.Location(id=Id.url, refresh="callback-nav"),
            dcc.Store(id=Id.cursor, data=to_json(seen)),
            dcc.Store(id=Id.tail),
            dcc.Store(id=Id.redraw, data=0),
            dcc.Store(id=Id.beat, data=0),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
