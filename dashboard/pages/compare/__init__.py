"""Two runs: where they part first, in what they differ, and any metric of both over one axis."""

import time

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component

from ....storage import ROOT_SITE, Run, RunNotFound, display_site
from ...address import Address
from ...components import empty_state, graph, panel, run_header, run_link, run_picker, run_status
from ...components.choices import choose, labelled, site_choices, site_of, switch, with_chosen
from ...components.comparison import differences_table, verdict_cards
from ...controls import control_keys, follow_run, keep_address
from ...data import Reader
from ...data.axes import axes_of
from ...data.pairs import (
    common_metrics,
    comparison,
    difference_matrix,
)
from ...figures import NamedHeat, heat_of, heat_stack
from ...ids import Shell
from ...page import page
from ...places import no_metric
from ...theme import palette_of
from .ids import ALONG, CONTROLS, OTHER, TOLERANCE, Id
from .pair import Pair, difference_note, overlay, pair_of, tolerance_of


def connect(app: dash.Dash, reader: Reader) -> None:
    """Compares, draws both runs, and keeps the address."""
    _connect_verdict(app, reader)
    _connect_pictures(app, reader)
    keep_address(app, Id.keys, CONTROLS)
    follow_run(app, Id.run)


def _connect_verdict(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.verdict, "children"),
        Output(Id.differences, "children"),
        Input(Id.other, "value"),
        State(Id.run, "value"),
    )
    def judge(other: str | None, reference: str) -> tuple[object, ...]:
        pair = pair_of(reader, reader.find(reference), other)
        if pair is None:
            return [], []
        found = comparison(reader, pair.first, pair.second)
        return verdict_cards(pair.first, found), differences_table(found.differences, pair.first, pair.second)


def _connect_pictures(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.lines, "figure"),
        Output(Id.map, "figure"),
        Output(Id.map, "style"),
        Output(Id.note, "children"),
        Output(Id.site, "data"),
        Input(Id.other, "value"),
        Input(Id.metric, "value"),
        Input(Id.site, "value"),
        Input(Id.along, "value"),
        Input(Id.tolerance, "value"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(
        other: str | None,
        metric: str | None,
        choice: str | None,
        axis: str,
        tolerance: str | None,
        scheme: str | None,
        reference: str,
    ) -> tuple[object, ...]:
        pair, palette, name = pair_of(reader, reader.find(reference), other), palette_of(scheme), metric or ""
        if pair is None:
            return dash.no_update, dash.no_update, {"display": "none"}, None, []
        if why := no_metric(name):
            return dash.no_update, dash.no_update, {"display": "none"}, why, []
        sites = reader.sites(pair.first.id, name)
        site = site_of(choice)
        site = next(iter(sites), ROOT_SITE) if site is None else site
        lines = overlay(reader, pair, name, site, axis, palette)
        if name.startswith("scalar/"):
            return lines, dash.no_update, {"display": "none"}, None, site_choices(sites, site)
        heat = heat_of(difference_matrix(reader, pair.first, pair.second, name), "raw")
        picture = heat_stack([NamedHeat(f"{name}, relative difference", heat)], palette)
        note = difference_note(reader, pair, name, tolerance_of(tolerance))
        return lines, picture, {"height": f"{picture.layout.height}px"}, note, site_choices(sites, site)


def _controls(reader: Reader, pair: Pair, here: Address) -> list[Component]:
    metrics = common_metrics(reader, pair.first, pair.second)
    metric = here.metric or next((name for name in ("scalar/loss", *metrics) if name in metrics), "")
    chosen = None if here.site is None else display_site(here.site)
    axes = [axis for axis in axes_of(reader, pair.first) if axis in axes_of(reader, pair.second)]
    tolerance = dmc.TextInput(
        id=Id.tolerance,
        value=TOLERANCE.of(here),
        debounce=400,
        size="xs",
        w=90,
        leftSection="±",
        **{"aria-label": "Relative tolerance"},
    )
    return [
        choose(Id.metric, "Metric", with_chosen(metrics, metric), metric or None, 220),
        choose(
            Id.site,
            "Site",
            site_choices(reader.sites(pair.first.id, metric), here.site),
            chosen,
            200,
            clearable=True,
            placeholder="site",
        ),
        labelled("over", switch(Id.along, "Drawn over", with_chosen(axes, ALONG.of(here)), ALONG.of(here))),
        tolerance,
    ]


def _way_back(run: Run) -> Component:
    return run_link("Compare with the run before it", Address("compare", run=run.id).href)


@page("compare", title="Compare", icon="compare", connect=connect, keys=(OTHER, ALONG, TOLERANCE))
def layout(reader: Reader, address: Address) -> Component:
    """Two runs beside each other."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    head = run_header(run, status, run_picker(Id.run, reader.runs(), run))
    try:
        pair = pair_of(reader, run, OTHER.of(address))
    except RunNotFound as error:
        note = empty_state("No such run to compare with", str(error), _way_back(run))
        return html.Div([head, html.Section(note, className="panel")])
    if pair is None:
        note = empty_state(
            "Nothing to compare with",
            "This store holds one training. Start another and it appears here, or compare across stores with "
            "`mindscope compare A B --other-store URL`.",
        )
        return html.Div([head, html.Section(note, className="panel")])
    other = run_picker(Id.other, reader.runs(), pair.second, label="Compared with")
    pickers = [run_picker(Id.run, reader.runs(), run), labelled("against", other)]
    body = [
        graph(Id.lines, "the metric of both runs over one axis", 300),
        html.Div(id=Id.note, className="muted", role="status"),
        graph(Id.map, "layer by step: how far the two lie apart"),
    ]
    return html.Div(
        [
            run_header(run, status, html.Div(pickers, className="page-head-controls")),
            dcc.Loading(html.Div(id=Id.verdict, className="cards"), delay_show=300),
            panel("Both runs", body, _controls(reader, pair, address)),
            panel("In what they differ", dcc.Loading(html.Div(id=Id.differences), delay_show=300)),
            control_keys(Id.keys, CONTROLS),
        ]
    )
