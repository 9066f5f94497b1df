"""Layer x step for any metric: in model order or the most unusual first, as a map or as small pictures."""

import time
from typing import Final, cast

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ...insight import deviation
from ...storage import Run
from ..address import Address, Key
from ..beat import beat, connect_beat
from ..components import empty_state, graph, panel, run_header, run_picker, run_status
from ..components.choices import choose, labelled, switch, with_chosen
from ..controls import METRIC, control_keys, follow_run, keep_address
from ..data import Reader
from ..figures import NamedHeat, View, heat_stack, matching_rows, most_unusual_first, small_multiples, with_rows
from ..ids import Layers as Id
from ..ids import Shell
from ..page import page
from ..pictures.run import heat_of_run, missing_metric
from ..places import usual_maps
from ..spans import SPAN, span_of
from ..theme import palette_of
from ..words import count

VIEW = Key("view", "deviation", ("deviation", "raw"))
ORDER = Key("order", "model", ("model", "score"))
FORM = Key("form", "map", ("map", "small"))
GLOB = Key("sites")
SCALE = Key("scale", "linear", ("linear", "log"))
_CONTROLS: Final = (
    (Id.metric, "value", METRIC),
    (Id.view, "value", VIEW),
    (Id.order, "value", ORDER),
    (Id.form, "value", FORM),
    (Id.scale, "value", SCALE),
    (Id.glob, "value", GLOB),
    (Id.span, "data", SPAN),
)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draws the picture whenever a choice or the run has changed."""

    @app.callback(
        Output(Id.picture, "figure"),
        Output(Id.picture, "style"),
        Output(Id.note, "children"),
        Output(Id.metric, "data"),
        Input(Id.metric, "value"),
        Input(Id.view, "value"),
        Input(Id.order, "value"),
        Input(Id.form, "value"),
        Input(Id.scale, "value"),
        Input(Id.glob, "value"),
        Input(Id.span, "data"),
        Input(Id.version, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(
        metric: str | None,
        view: str,
        order: str,
        form: str,
        scale: str,
        globs: str | None,
        span: str | None,
        _: object,
        scheme: str | None,
        run: str,
    ) -> tuple[object, ...]:
        metrics = list(reader.metrics(run))
        if note := missing_metric(reader, run, metric or ""):
            return no_update, {"display": "none"}, empty_state(*note), metrics
        palette, stretch = palette_of(scheme), span_of(span)
        matrix, heat = heat_of_run(reader, run, str(metric), cast("View", view), span=stretch)
        rows = matching_rows(heat, globs or "")
        if order == "score":
            rows = most_unusual_first(rows, heat, deviation(matrix))
        if not rows:
            return no_update, {"display": "none"}, _none_matches(globs or ""), metrics
        shown = with_rows(heat, rows)
        if form == "small":
            picture = small_multiples(str(metric), shown, palette, log=scale == "log", span=stretch)
        else:
            picture = heat_stack([NamedHeat(str(metric), shown)], palette, span=stretch)
        words = f"{count(len(rows), 'site')} of {len(heat.sites):,}"
        return picture, {"height": f"{picture.layout.height}px"}, html.P(words, className="muted"), metrics

    connect_beat(app, reader, tick=Id.tick, version=Id.version, run=Id.run)
    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)
    _connect_browser(app)


def _connect_browser(app: dash.Dash) -> None:
    app.clientside_callback(
        ClientsideFunction("mindscope", "visitCell"),
        Output(Shell.url, "href", allow_duplicate=True),
        Input(Id.picture, "clickData"),
        State(Id.name, "data"),
        State(Id.run, "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "zoomed"),
        Output(Id.span, "data"),
        Input(Id.picture, "relayoutData"),
        State(Id.span, "data"),
        prevent_initial_call=True,
    )


def _none_matches(globs: str) -> Component:
    return empty_state(
        "No site matches", f"No site of this metric matches `{globs}`.", "Globs such as `decoder.*.attn.*` name sites."
    )


def _controls(reader: Reader, run: Run, here: Address, metric: str) -> list[Component]:
    sites = dmc.TextInput(
        id=Id.glob,
        value=GLOB.of(here),
        placeholder="decoder.*.attn.*",
        size="xs",
        w=170,
        debounce=300,
        **{"aria-label": "Sites, as globs"},
    )
    return [
        choose(Id.metric, "Metric", with_chosen(reader.metrics(run.id), metric), metric or None, 230),
        sites,
        labelled("order", switch(Id.order, "Order", ORDER.words, ORDER.of(here))),
        labelled("as", switch(Id.form, "Form", FORM.words, FORM.of(here))),
        labelled("colours", switch(Id.view, "Colours show", VIEW.words, VIEW.of(here))),
        labelled("values", switch(Id.scale, "Value axis of small pictures", SCALE.words, SCALE.of(here))),
    ]


@page("layers", title="Layers", icon="layers", connect=connect, keys=(VIEW, ORDER, FORM, SCALE, GLOB, SPAN))
def layout(reader: Reader, address: Address) -> Component:
    """The layers of one run."""
    run = reader.find(address.run)
    metric = address.metric or next(iter(usual_maps(reader.metrics(run.id))), "")
    status = html.Div(run_status(run, time.time()), className="status")
    picture = graph(Id.picture, "layer by step; choose a cell to see its tensor, or type its site on the Tensor page")
    body = [dcc.Loading(picture, delay_show=400), html.Div(id=Id.note)]
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run)),
            panel("Layers", body, _controls(reader, run, address, metric)),
            control_keys(Id.keys, _CONTROLS),
            dcc.Store(id=Id.span, data=SPAN.of(address)),
            dcc.Store(id=Id.name, data=Id.picture),
            *beat(Id.tick, Id.version, reader.version(run.id)),
        ]
    )
