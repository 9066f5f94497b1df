"""Layer by step for any metric: in model order or the most unusual first, as a map or as small figures."""

import time
from typing import Final, cast

import dash
import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ....insight import deviation
from ....storage import Run
from ...address import SPAN, PageAddress, QueryKey, span_of
from ...components.form_controls import choose, labelled, switch, with_chosen
from ...components.page_parts import empty_state, graph, panel
from ...components.run_header import run_header, run_picker, run_status
from ...components.shell import ShellIds
from ...figures.heatmap_figure import HeatmapData, NamedHeatmap, View, heat_stack
from ...formatting import count
from ...headline import default_maps
from ...page_callbacks import METRIC, connect_polling, control_keys, follow_run, keep_address, polling_parts
from ...page_registry import page
from ...queries.reader import Reader
from ...run_figures import missing_metric, run_heatmap_data
from ...theme import palette_of
from .layer_figures import matching_rows, most_unusual_first, small_multiples, with_rows
from .row_groups import MOST_ROWS, folded, groups_of


class LayersIds:
    """Layer by step for any metric."""

    keys: Final = "layers-keys"
    tick: Final = "layers-tick"
    version: Final = "layers-version"
    run: Final = "layers-run"
    metric: Final = "layers-metric"
    view: Final = "layers-view"
    order: Final = "layers-order"
    form: Final = "layers-form"
    scale: Final = "layers-scale"
    glob: Final = "layers-glob"
    rows: Final = "layers-rows"
    opened: Final = "layers-open"
    span: Final = "layers-span"
    figure: Final = "layers-picture"
    name: Final = "layers-name"
    note: Final = "layers-note"


VIEW = QueryKey("view", "deviation", ("deviation", "raw"))
ORDER = QueryKey("order", "model", ("model", "score"))
FORM = QueryKey("form", "map", ("map", "small"))
GLOB = QueryKey("sites")
SCALE = QueryKey("scale", "linear", ("linear", "log"))
ROWS = QueryKey("rows", "groups", ("groups", "all"))
OPEN = QueryKey("open")
_CONTROLS: Final = (
    (LayersIds.metric, "value", METRIC),
    (LayersIds.view, "value", VIEW),
    (LayersIds.order, "value", ORDER),
    (LayersIds.form, "value", FORM),
    (LayersIds.scale, "value", SCALE),
    (LayersIds.glob, "value", GLOB),
    (LayersIds.rows, "value", ROWS),
    (LayersIds.opened, "value", OPEN),
    (LayersIds.span, "data", SPAN),
)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Redraw the figure whenever a choice or the run has changed."""

    @app.callback(
        Output(LayersIds.figure, "figure"),
        Output(LayersIds.figure, "style"),
        Output(LayersIds.note, "children"),
        Output(LayersIds.metric, "data"),
        Output(LayersIds.opened, "data"),
        Input(LayersIds.metric, "value"),
        Input(LayersIds.view, "value"),
        Input(LayersIds.order, "value"),
        Input(LayersIds.form, "value"),
        Input(LayersIds.scale, "value"),
        Input(LayersIds.glob, "value"),
        Input(LayersIds.rows, "value"),
        Input(LayersIds.opened, "value"),
        Input(LayersIds.span, "data"),
        Input(LayersIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(LayersIds.run, "value"),
    )
    def draw(
        metric: str | None,
        view: str,
        order: str,
        form: str,
        scale: str,
        globs: str | None,
        how: str,
        opened: list[str] | None,
        span: str | None,
        _: object,
        scheme: str | None,
        run: str,
    ) -> tuple[object, ...]:
        metrics = list(reader.metrics(run))
        if note := missing_metric(reader, run, metric or ""):
            return no_update, {"display": "none"}, empty_state(*note), metrics, no_update
        palette, steps = palette_of(scheme), span_of(span)
        matrix, heat = run_heatmap_data(reader, run, str(metric), cast("View", view), span=steps)
        rows = matching_rows(heat, globs or "")
        if not rows:
            return no_update, {"display": "none"}, _none_matches(globs or ""), metrics, no_update
        if order == "score":
            rows = most_unusual_first(rows, heat, deviation(matrix))
        if form == "small":
            shown = with_rows(heat, rows)
            figure = small_multiples(str(metric), shown, palette, log=scale == "log", span=steps)
            return figure, _tall(figure), _counted(len(rows), len(rows), heat), metrics, []
        shown, labels, groups = _readable(with_rows(heat, rows), how, order, opened or [])
        figure = heat_stack([NamedHeatmap(str(metric), shown, labels)], palette, span=steps)
        return figure, _tall(figure), _counted(len(shown.sites), len(rows), heat), metrics, groups

    connect_polling(app, reader, tick=LayersIds.tick, version=LayersIds.version, run=LayersIds.run)
    keep_address(app, LayersIds.keys, _CONTROLS)
    follow_run(app, LayersIds.run)
    _connect_browser(app)


def _readable(
    heat: HeatmapData, how: str, order: str, opened: list[str]
) -> tuple[HeatmapData, dict[str, str], list[str]]:
    """Return the map with as many rows as can be read, the closed groups by their labels, and all groups.

    In the order of the model rows are grouped; of the most unusual ones the first are shown.
    """
    if how == "all":
        return heat, {}, []
    if order == "score":
        return with_rows(heat, range(min(MOST_ROWS, len(heat.sites)))), {}, []
    groups = groups_of(heat.sites)
    names = [group.name for group in groups if len(group.rows) > 1]
    return (*folded(heat, groups, opened), names)


def _tall(figure: go.Figure) -> dict[str, str]:
    return {"height": f"{figure.layout.height}px"}


def _counted(shown: int, matching: int, heat: HeatmapData) -> html.P:
    words = f"{count(matching, 'site')} of {len(heat.sites):,}"
    words += f" in {count(shown, 'row')}" if shown != matching else ""
    return html.P(words, className="muted")


def _connect_browser(app: dash.Dash) -> None:
    app.clientside_callback(
        ClientsideFunction("mindscope", "visitCell"),
        Output(ShellIds.url, "href", allow_duplicate=True),
        Input(LayersIds.figure, "clickData"),
        State(LayersIds.name, "data"),
        State(LayersIds.run, "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "openGroup"),
        Output(LayersIds.opened, "value"),
        Input(LayersIds.figure, "clickData"),
        State(LayersIds.name, "data"),
        State(LayersIds.opened, "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "zoomed"),
        Output(LayersIds.span, "data"),
        Input(LayersIds.figure, "relayoutData"),
        State(LayersIds.span, "data"),
        prevent_initial_call=True,
    )


def _none_matches(globs: str) -> Component:
    return empty_state(
        "No site matches",
        f"No site of this metric matches `{globs}`.",
        "Use a part of a site such as `attn`, or a glob such as `decoder.*.attn.*`.",
    )


def _controls(reader: Reader, run: Run, here: PageAddress, metric: str) -> list[Component]:
    sites = dmc.TextInput(
        id=LayersIds.glob,
        value=GLOB.of(here),
        placeholder="attn or decoder.*.attn.*",
        size="xs",
        w=190,
        debounce=300,
        **{"aria-label": "Sites, as words or globs"},
    )
    chosen = [name for name in OPEN.of(here).split(",") if name]
    opened = dmc.MultiSelect(
        id=LayersIds.opened,
        data=chosen,
        value=chosen,
        placeholder="" if chosen else "open groups",
        searchable=True,
        clearable=True,
        limit=300,
        size="xs",
        miw=120,
        maw=420,
        **{"aria-label": "Groups of rows that are open"},
    )
    return [
        choose(LayersIds.metric, "Metric", with_chosen(reader.metrics(run.id), metric), metric or None, 230),
        sites,
        labelled("rows", switch(LayersIds.rows, "Rows", ROWS.words, ROWS.of(here))),
        opened,
        labelled("order", switch(LayersIds.order, "Order", ORDER.words, ORDER.of(here))),
        labelled("as", switch(LayersIds.form, "Form", FORM.words, FORM.of(here))),
        labelled("colours", switch(LayersIds.view, "Colours show", VIEW.words, VIEW.of(here))),
        labelled("values", switch(LayersIds.scale, "Value axis of small figures", SCALE.words, SCALE.of(here))),
    ]


@page("layers", title="Layers", icon="layers", connect=connect, keys=(VIEW, ORDER, FORM, SCALE, GLOB, ROWS, OPEN, SPAN))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the layers of one run."""
    run = reader.find(address.run)
    metric = address.metric or next(iter(default_maps(reader.metrics(run.id))), "")
    status = html.Div(run_status(run, time.time()), className="status")
    figure = graph(
        LayersIds.figure, "layer by step; choose a cell to see its tensor, or type its site on the Tensor page"
    )
    body = [dcc.Loading(figure, delay_show=400), html.Div(id=LayersIds.note)]
    return html.Div(
        [
            run_header(run, status, run_picker(LayersIds.run, reader.runs(), run)),
            panel("Layers", body, _controls(reader, run, address, metric)),
            control_keys(LayersIds.keys, _CONTROLS),
            dcc.Store(id=LayersIds.span, data=SPAN.of(address)),
            dcc.Store(id=LayersIds.name, data=LayersIds.figure),
            *polling_parts(LayersIds.tick, LayersIds.version, reader.version(run.id)),
        ]
    )
