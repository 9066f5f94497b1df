"""One run, live: what is wrong first, the curve, layer x step, and the tensor behind any cell."""

import time
from functools import partial
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ...storage import Run
from ..address import Address, Key
from ..components import empty_state, graph, headline_cards, panel, run_header, run_link, run_picker, run_status
from ..components.choices import site_choices, site_of, with_chosen
from ..components.detail import tensor_panel
from ..components.live_controls import curve_controls, heat_controls, tensor_controls
from ..controls import METRIC, SITE, STEP, control_keys, follow_run, keep_address
from ..data import Reader
from ..headline import headline_of
from ..ids import Live as Id
from ..ids import Shell
from ..live import cursor_now, from_json, look, to_json
from ..page import page
from ..pictures import curve_name, curve_picture, heat_picture, missing_metric
from ..places import place_of, tensor_of, usual_maps
from ..spans import SPAN, span_of
from ..theme import SCHEME_SHOWN, Palette, palette_of

_REFRESH_MS: Final = 1000
#: How old a map may be that somebody else has just been shown: less than the three seconds after which it is due again.
_SHARED_S: Final = 0.5
SCALAR, SCALE = Key("scalar", "loss"), Key("scale", "linear", ("linear", "log"))
MAPS, VIEW = Key("maps"), Key("view", "deviation", ("deviation", "raw"))
_CONTROLS: Final = (
    (Id.scalar, "value", SCALAR),
    (Id.scale, "value", SCALE),
    (Id.maps, "value", MAPS),
    (Id.view, "value", VIEW),
    (Id.span, "data", SPAN),
    (Id.metric, "value", METRIC),
    (Id.site, "value", SITE),
    (Id.step, "value", STEP),
)


def _maps_of(reader: Reader, run: Run, here: Address) -> list[str]:
    said = [metric for metric in MAPS.of(here).split(",") if metric]
    return said[:3] or usual_maps(reader.metrics(run.id), here.metric)


def _scalar_of(reader: Reader, run: Run, here: Address) -> str:
    """The scalar that the address names; of a run that has no loss, its first."""
    scalars = reader.scalars(run.id)
    said = SCALAR.of(here)
    return scalars[0] if said == SCALAR.usual and said not in scalars and scalars else said


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


def _curve_panel(reader: Reader, run: Run, here: Address, palette: Palette) -> html.Section:
    """The curve is laid out with its figure: it is what a person waits for, and one question less."""
    scalar, scale = _scalar_of(reader, run, here), SCALE.of(here)
    figure = curve_picture(reader, run.id, scalar, scale, palette, span_of(SPAN.of(here)))
    picture = graph(Id.curve, "the chosen scalar over the steps, findings marked", 230, figure)
    controls = curve_controls(reader.scalars(run.id), scalar, scale)
    return panel("Curve", picture, controls)


def _heat_panel(reader: Reader, run: Run, here: Address) -> html.Section:
    metrics = reader.metrics(run.id)
    controls = heat_controls(metrics, _maps_of(reader, run, here), VIEW.of(here))
    body = [
        graph(Id.heat, "layer by step; choose a cell, or a site and step below, to see its tensor"),
        html.Div(id=Id.heat_note),
    ]
    return panel("Layer × step", body, controls)


def _tensor_bar(reader: Reader, run: Run, here: Address) -> html.Div:
    controls = tensor_controls(reader.metrics(run.id), reader.sites(run.id, here.metric), here)
    return html.Div([html.Span("Tensor", className="bar-title"), *controls], className="bar")


def connect(app: dash.Dash, reader: Reader) -> None:
    """The callbacks of the page: one look per tick, three pictures, and the address kept in step with the controls."""
    _connect_tick(app, reader)
    _connect_curve(app, reader)
    _connect_heat(app, reader)
    _connect_detail(app, reader)
    _connect_browser(app)
    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)


def _connect_tick(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.cursor, "data"),
        Output(Id.tail, "data"),
        Output(Id.redraw, "data"),
        Output(Id.beat, "data"),
        Output(Id.cards, "children"),
        Output(Id.status, "children"),
        Output(Id.follow, "style"),
        Input(Id.tick, "n_intervals"),
        State(Id.cursor, "data"),
        State(Id.run, "value"),
        State(Id.scalar, "value"),
        State(Id.scale, "value"),
        State(Id.span, "data"),
        prevent_initial_call=True,
    )
    def tick(count: int, data: object, reference: str, scalar: str, scale: str, span: str | None) -> tuple[object, ...]:
        """Answers in a few bytes when nothing has happened, in a few kilobytes when the run has gone on."""
        seen = from_json(data)
        run = reader.find(reference)
        news = look(reader, run.id, scalar, seen, log=scale == "log", is_over=run.state != "running")
        if news is None:
            raise PreventUpdate
        findings = reader.findings(run.id)
        tail = (
            {"name": curve_name(scalar, scale, span_of(span)), "x": news.tail.x, "y": news.tail.y}
            if news.tail
            else no_update
        )
        return (
            to_json(news.cursor),
            tail,
            count if news.redraw else no_update,
            count if news.beat else no_update,
            headline_cards(run, headline_of(reader, run), len(findings)),
            run_status(run, time.time()),
            _offered(run),
        )


def _offered(run: Run) -> dict[str, str]:
    """The style of the switch that follows a run: there is nothing to follow when it is over."""
    return {} if run.state == "running" else {"display": "none"}


def _connect_curve(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.curve, "figure"),
        Output(Id.scalar, "data"),
        Input(Id.scalar, "value"),
        Input(Id.scale, "value"),
        Input(Id.span, "data"),
        Input(Id.redraw, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
        prevent_initial_call=True,
    )
    def draw(
        scalar: str, scale: str, span: str | None, _: int, scheme: str | None, run: str
    ) -> tuple[object, list[str]]:
        picture = curve_picture(reader, run, scalar, scale, palette_of(scheme), span_of(span))
        return picture, with_chosen(reader.scalars(run), scalar)


def _connect_heat(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.heat, "figure"),
        Output(Id.heat, "style"),
        Output(Id.heat_note, "children"),
        Output(Id.maps, "data"),
        Output(Id.metric, "data"),
        Input(Id.maps, "value"),
        Input(Id.view, "value"),
        Input(Id.span, "data"),
        Input(Id.beat, "data"),
        State(Id.site, "value"),
        State(Id.step, "value"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(
        maps: list[str] | None,
        view: str,
        span: str | None,
        _: int,
        choice: str | None,
        step: object,
        scheme: str | None,
        run: str,
    ) -> tuple[object, ...]:
        metrics = list(reader.metrics(run))
        wanted = maps or usual_maps(tuple(metrics))[:1]
        note = next((why for metric in wanted or [""] if (why := missing_metric(reader, run, metric))), None)
        if note:
            return no_update, {"display": "none"}, empty_state(*note), with_chosen(metrics, *wanted), metrics
        site = site_of(choice)
        selected = (site, step) if site is not None and isinstance(step, int) else None
        draw_now = partial(
            heat_picture, reader, run, wanted, view, palette_of(scheme), selected=selected, span=span_of(span)
        )
        is_written = reader.find(run).state == "running"
        key = ("heat", run, tuple(wanted), view, scheme, selected, span)
        picture = reader.shared(key, draw_now, for_s=_SHARED_S) if is_written else draw_now()
        return picture, {"height": f"{picture.layout.height}px"}, None, metrics, metrics


def _connect_detail(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.detail, "children"),
        Output(Id.site, "data"),
        Input(Id.metric, "value"),
        Input(Id.site, "value"),
        Input(Id.step, "value"),
        Input(Id.beat, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(
        metric: str | None, choice: str | None, step: object, _: int, scheme: str | None, reference: str
    ) -> tuple[list[Component], list[str]]:
        run, site = reader.find(reference), site_of(choice)
        at = step if isinstance(step, int) else None
        first = headline_of(reader, run).first
        offered = site_choices(reader.sites(run.id, metric or ""), site)
        if site is None and first is not None:
            (metric, site), at = tensor_of(reader, run, first), first.first_step
        if site is None or not metric:
            return [], offered
        return [tensor_panel(reader, run, metric, site, at, palette_of(scheme))], offered


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
        State(Id.heat_name, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "paused"),
        Output(Id.tick, "disabled"),
        Input(Id.follow, "checked"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "openCell"),
        Output(Id.metric, "value"),
        Output(Id.site, "value"),
        Output(Id.step, "value"),
        Input(Id.heat, "clickData"),
        State(Id.heat_name, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "zoomed"),
        Output(Id.span, "data"),
        Input(Id.curve, "relayoutData"),
        Input(Id.heat, "relayoutData"),
        State(Id.span, "data"),
        prevent_initial_call=True,
    )


@page("run", title="Live run", icon="run", connect=connect, keys=(SCALAR, SCALE, MAPS, VIEW, SPAN))
def layout(reader: Reader, address: Address) -> Component:
    """The page of one run."""
    run = reader.find(address.run)
    if run.kind == "evaluation":
        return _evaluation(reader, run)
    seen = cursor_now(reader, run.id, run.last_step)
    here = place_of(reader, run, address)
    now = time.time()
    status = html.Div(run_status(run, now), id=Id.status, className="status")
    follow = dmc.Switch(
        id=Id.follow, checked=True, label="Follow", size="xs", labelPosition="left", style=_offered(run)
    )
    findings = reader.findings(run.id)
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run), [follow]),
            html.Div(
                headline_cards(run, headline_of(reader, run), len(findings)),
                id=Id.cards,
                className="cards",
            ),
            _curve_panel(reader, run, here, palette_of(SCHEME_SHOWN.get())),
            _heat_panel(reader, run, here),
            _tensor_bar(reader, run, here),
            html.Div(id=Id.detail, className="detail"),
            control_keys(Id.keys, _CONTROLS),
            dcc.Store(id=Id.span, data=SPAN.of(here)),
            dcc.Store(id=Id.heat_name, data=Id.heat),
            dcc.Store(id=Id.cursor, data=to_json(seen)),
            dcc.Store(id=Id.tail),
            dcc.Store(id=Id.redraw, data=0),
            dcc.Store(id=Id.beat, data=0),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
