"""The wall of scalars: everything that was logged, grouped by prefix, of one run or of many over each other."""

import time
from collections.abc import Sequence
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import MATCH, ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ....storage import Run
from ...address import PageAddress, QueryKey
from ...components.form_controls import AT_THE_RIGHT, labelled, switch
from ...components.page_parts import BLANK, CONFIG, empty_state
from ...components.run_header import run_header, run_picker, run_status
from ...components.shell import ShellIds
from ...formatting import count
from ...page_callbacks import control_keys, follow_run, keep_address, polling_parts
from ...page_registry import page
from ...queries.reader import Reader
from ...queries.x_axes import AXES, axes_of
from ...theme import SCHEME_SHOWN, palette_of
from .overlaid_runs import ENDING, runs_shown
from .scalar_charts import HEIGHT, first_groups, groups_of, run_legend, scalar_chart


class ScalarsIds:
    """Ids of the components of this page."""

    keys: Final = "scalars-keys"
    tick: Final = "scalars-tick"
    version: Final = "scalars-version"
    run: Final = "scalars-run"
    others: Final = "scalars-others"
    match: Final = "scalars-match"
    smoothing: Final = "scalars-smoothing"
    over: Final = "scalars-over"
    scale: Final = "scalars-scale"
    opened: Final = "scalars-open"
    names: Final = "scalars-names"
    legend: Final = "scalars-legend"
    note: Final = "scalars-note"
    views: Final = "scalars-views"
    view: Final = "scalars-view"
    view_name: Final = "scalars-view-name"
    save: Final = "scalars-save"
    forget: Final = "scalars-forget"
    #: The type of the charts' ids; each also has its `name`.
    chart: Final = "scalars-chart"


#: Between two looks at what is new: many charts are drawn then, and answers that come after the next look are lost.
_EVERY_MS: Final = 5000
WITH, MATCHING, OPEN = QueryKey("with"), QueryKey("match"), QueryKey("open")
SMOOTHING = QueryKey("smooth", "0", pattern=r"0|0?\.\d{1,18}", example="0.6")
OVER = QueryKey("over", "step", AXES)
SCALE = QueryKey("scale", "linear", ("linear", "log"))
_CONTROLS: Final = (
    (ScalarsIds.others, "value", WITH),
    (ScalarsIds.match, "value", MATCHING),
    (ScalarsIds.smoothing, "value", SMOOTHING),
    (ScalarsIds.over, "value", OVER),
    (ScalarsIds.scale, "value", SCALE),
    (ScalarsIds.opened, "value", OPEN),
)


def _names(reader: Reader, runs: Sequence[Run]) -> list[str]:
    return sorted({name for run in runs for name in reader.scalars(run.id)})


def wall(groups: dict[str, list[str]]) -> list[Component]:
    """Build the groups with a frame for every chart; the charts draw themselves."""
    return [
        dmc.AccordionItem(
            [
                dmc.AccordionControl(
                    html.Span([group, html.Span(count(len(names), "chart"), className="muted wall-count")])
                ),
                dmc.AccordionPanel(html.Div([_card(group, name) for name in names], className="wall")),
            ],
            value=group,
        )
        for group, names in groups.items()
    ]


def _card(group: str, name: str) -> Component:
    chart = dcc.Graph(
        id={"type": ScalarsIds.chart, "group": group, "name": name},
        figure=BLANK,
        config={**CONFIG, "displayModeBar": False},
        style={"height": f"{HEIGHT}px"},
    )
    title = html.H3(name.removeprefix(f"{group}/"), className="wall-title", title=name)
    return html.Div(
        [title, html.Div(chart, className="graph", role="figure", **{"aria-label": name})], className="wall-card"
    )


def connect(app: dash.Dash, reader: Reader) -> None:
    """Lay out the wall, draw its charts, follow runs that are being written, and keep address and views."""
    _connect_wall(app, reader)
    _connect_charts(app, reader)
    _connect_polling(app, reader)
    _connect_views(app)
    keep_address(app, ScalarsIds.keys, _CONTROLS)
    follow_run(app, ScalarsIds.run)


def _connect_wall(app: dash.Dash, reader: Reader) -> None:
    """Lay out the charts anew only when there are others: what is open, zoomed and scrolled to stays."""

    @app.callback(
        Output(ScalarsIds.opened, "children"),
        Output(ScalarsIds.opened, "value"),
        Output(ScalarsIds.names, "data"),
        Output(ScalarsIds.note, "children"),
        Input(ScalarsIds.others, "value"),
        Input(ScalarsIds.match, "value"),
        Input(ScalarsIds.version, "data"),
        State(ScalarsIds.names, "data"),
        State(ScalarsIds.opened, "value"),
        State(ScalarsIds.run, "value"),
        prevent_initial_call=True,
    )
    def lay_out(
        others: list[str] | None,
        match: str | None,
        _: object,
        shown: list[str] | None,
        opened: list[str] | None,
        reference: str,
    ) -> tuple[object, ...]:
        known = _names(reader, runs_shown(reader, reference, others))
        groups = groups_of(known, match or "")
        names = [name for group in groups.values() for name in group]
        if names == shown:
            raise PreventUpdate
        there = groups_of(shown or ())
        still = [group for group in groups if group in (opened or ()) or group not in there]
        return wall(groups), still if still else first_groups(groups), names, _none(known, names, match or "")

    @app.callback(
        Output(ScalarsIds.legend, "children"),
        Input(ScalarsIds.others, "value"),
        State(ScalarsIds.run, "value"),
        State(ShellIds.scheme, "data"),
        prevent_initial_call=True,
    )
    def name_runs(others: list[str] | None, reference: str, scheme: str | None) -> Component:
        return run_legend(runs_shown(reader, reference, others), palette_of(scheme))


def _connect_charts(app: dash.Dash, reader: Reader) -> None:
    chart = {"type": ScalarsIds.chart, "group": MATCH, "name": MATCH}

    @app.callback(
        Output(chart, "figure"),
        Input(ScalarsIds.others, "value"),
        Input(ScalarsIds.smoothing, "value"),
        Input(ScalarsIds.over, "value"),
        Input(ScalarsIds.scale, "value"),
        Input(ScalarsIds.opened, "value"),
        Input(ScalarsIds.version, "data"),
        State(chart, "id"),
        State(chart, "figure"),
        State(ScalarsIds.run, "value"),
        State(ShellIds.scheme, "data"),
    )
    def draw(
        others: list[str] | None,
        smoothing: float | None,
        over: str,
        scale: str,
        opened: list[str] | None,
        _: object,
        name: dict[str, str],
        figure: object,
        reference: str,
        scheme: str | None,
    ) -> object:
        is_only_opened = dash.ctx.triggered_id == ScalarsIds.opened and figure != BLANK
        if name["group"] not in (opened or ()) or is_only_opened:
            raise PreventUpdate  # drawn when it is opened, and then once
        runs, weight = runs_shown(reader, reference, others), float(smoothing or 0)
        palette = palette_of(scheme)
        return scalar_chart(reader, runs, name["name"], palette, smoothing=weight, axis=over, log=scale == "log")


def versions_of(reader: Reader, runs: Sequence[Run]) -> str:
    """Return a string that changes with every change of the runs; one that is over is asked once."""
    return " ".join(reader.version(run.id) if run.state == "running" else run.state for run in runs)


def _connect_polling(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(ScalarsIds.version, "data"),
        Input(ScalarsIds.tick, "n_intervals"),
        State(ScalarsIds.others, "value"),
        State(ScalarsIds.run, "value"),
        State(ScalarsIds.version, "data"),
        prevent_initial_call=True,
    )
    def look(_: int, others: list[str] | None, reference: str, seen: str | None) -> str:
        now = versions_of(reader, runs_shown(reader, reference, others))
        if now == seen:
            raise PreventUpdate
        return now


def _connect_views(app: dash.Dash) -> None:
    """Keep named views in the browser: each is an address."""
    app.clientside_callback(
        ClientsideFunction("mindscope", "keepView"),
        Output(ScalarsIds.views, "data"),
        Output(ScalarsIds.view_name, "value"),
        Input(ScalarsIds.save, "n_clicks"),
        Input(ScalarsIds.forget, "n_clicks"),
        State(ScalarsIds.view_name, "value"),
        State(ScalarsIds.view, "value"),
        State(ScalarsIds.views, "data"),
        State(ScalarsIds.save, "id"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "namesOfViews"),
        Output(ScalarsIds.view, "data"),
        Input(ScalarsIds.views, "data"),
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "openView"),
        Output(ShellIds.url, "search", allow_duplicate=True),
        Input(ScalarsIds.view, "value"),
        State(ScalarsIds.views, "data"),
        prevent_initial_call=True,
    )


def _none(known: Sequence[str], shown: Sequence[str], match: str) -> Component | None:
    """Say why there is no chart; None when there is one."""
    if shown:
        return None
    if known:
        return empty_state("No scalar matches", f"None of {count(len(known), 'scalar')} contains `{match}`.")
    return empty_state(
        "No scalars yet", "They appear with the first step; log your own with `monitor.log(accuracy=...)`."
    )


def _controls(reader: Reader, runs: Sequence[Run], here: PageAddress) -> list[Component]:
    first, *chosen = runs
    offered = [run for run in reader.runs() if run.id != first.id and run.kind != "evaluation"]
    others = dmc.MultiSelect(
        id=ScalarsIds.others,
        data=[{"value": run.id[-ENDING:], "label": f"{run.name or run.id} · {run.id[-4:]}"} for run in offered],
        value=[run.id[-ENDING:] for run in chosen],
        placeholder="lay over runs",
        searchable=True,
        limit=300,
        size="xs",
        miw=150,
        maw=520,
        comboboxProps=AT_THE_RIGHT,
        className="many-values",
        **{"aria-label": "Runs laid over this one"},
    )
    match = dmc.TextInput(
        id=ScalarsIds.match,
        value=MATCHING.of(here),
        placeholder="filter scalars",
        size="xs",
        w=140,
        debounce=250,
        **{"aria-label": "Filter scalars"},
    )
    smoothing = dmc.Slider(
        id=ScalarsIds.smoothing,
        value=float(SMOOTHING.of(here)),
        min=0,
        max=0.99,
        step=0.01,
        size="sm",
        w=130,
        updatemode="mouseup",
        thumbLabel="Smoothing",
        persistence=False,
    )
    axes = [axis for axis in AXES if all(axis in axes_of(reader, run) for run in runs)]
    return [
        others,
        match,
        labelled("smoothing", smoothing),
        labelled(
            "over", switch(ScalarsIds.over, "Drawn over", axes, OVER.of(here) if OVER.of(here) in axes else "step")
        ),
        labelled("values", switch(ScalarsIds.scale, "Value axis", SCALE.words, SCALE.of(here))),
    ]


def _view_controls() -> list[Component]:
    name = dmc.TextInput(
        id=ScalarsIds.view_name,
        placeholder="name of this view",
        size="xs",
        w=150,
        **{"aria-label": "Name of this view"},
    )
    view = dmc.Select(
        id=ScalarsIds.view,
        data=[],
        placeholder="saved views",
        clearable=True,
        size="xs",
        w=160,
        **{"aria-label": "Saved views"},
    )
    return [
        view,
        dmc.Button("Forget", id=ScalarsIds.forget, size="xs", variant="default"),
        name,
        dmc.Button("Save view", id=ScalarsIds.save, size="xs", variant="default"),
        html.Span("kept in this browser; the address shares it", className="muted labelled"),
    ]


@page("scalars", title="Scalars", icon="scalars", connect=connect, keys=(WITH, MATCHING, SMOOTHING, OVER, SCALE, OPEN))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the scalars of a run, and of those laid over it."""
    runs = runs_shown(reader, address.run, WITH.of(address).split(","))
    run = runs[0]
    status = html.Div(run_status(run, time.time()), className="status")
    known = _names(reader, runs)
    groups = groups_of(known, MATCHING.of(address))
    names = [name for group in groups.values() for name in group]
    opened = [group for group in OPEN.of(address).split(",") if group in groups] or first_groups(groups)
    return html.Div(
        [
            run_header(run, status, run_picker(ScalarsIds.run, reader.runs(), run)),
            html.Div(_controls(reader, runs, address), className="bar"),
            html.Div(_view_controls(), className="bar"),
            html.Div(run_legend(runs, palette_of(SCHEME_SHOWN.get())), id=ScalarsIds.legend),
            html.Div(_none(known, names, MATCHING.of(address)), id=ScalarsIds.note),
            dmc.Accordion(
                wall(groups),
                id=ScalarsIds.opened,
                value=opened,
                multiple=True,
                variant="separated",
                className="wall-groups",
            ),
            control_keys(ScalarsIds.keys, _CONTROLS),
            dcc.Store(id=ScalarsIds.names, data=names),
            dcc.Store(id=ScalarsIds.views, storage_type="local"),
            *polling_parts(ScalarsIds.tick, ScalarsIds.version, versions_of(reader, runs), every_ms=_EVERY_MS),
        ]
    )
