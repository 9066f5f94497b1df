"""The pictures of a live run: the curve, layer by step, the tensor behind a cell, and what is chosen in them."""

from functools import partial
from typing import Final

import dash
from dash import ClientsideFunction, Input, Output, State, no_update
from dash.development.base_component import Component

from ...components import empty_state
from ...components.choices import site_choices, site_of, with_chosen
from ...components.detail import tensor_panel
from ...data import Reader
from ...headline import headline_of
from ...ids import Live as Id
from ...ids import Shell
from ...pictures.run import curve_picture, heat_picture, missing_metric
from ...places import tensor_of, usual_maps
from ...spans import span_of
from ...theme import palette_of

#: How old a map may be that somebody else has just been shown: less than the three seconds after which it is due again.
_SHARED_S: Final = 0.5


def connect_curve(app: dash.Dash, reader: Reader) -> None:
    """Draws the curve anew when it is another one or has grown too long."""

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


def connect_heat(app: dash.Dash, reader: Reader) -> None:
    """Draws the maps."""

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


def connect_detail(app: dash.Dash, reader: Reader) -> None:
    """Shows the tensor that was chosen, else the one behind the first anomaly."""

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


def connect_browser(app: dash.Dash) -> None:
    """What the browser does by itself: frame and open a cell, and keep what is zoomed to."""
    app.clientside_callback(
        ClientsideFunction("mindscope", "frameCell"),
        Input(Id.site, "value"),
        Input(Id.step, "value"),
        State(Id.heat_name, "data"),
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
