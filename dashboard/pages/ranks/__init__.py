"""The ranks of a run: rank x step, who is slowest, who waits, and what every collective moves."""

import time
from collections.abc import Sequence
from typing import Final

import dash
from dash import ClientsideFunction, Input, Output, State, html
from dash.development.base_component import Component

from ....storage import Run, display_site
from ...address import Address
from ...beat import beat, connect_beat
from ...components import graph, panel, run_header, run_picker, run_status
from ...components.choices import choose, labelled, site_choices, site_of, switch, with_chosen
from ...controls import control_keys, follow_run, keep_address
from ...data import Reader
from ...data.ranks import (
    CALLS,
    Share,
    rank_matrix,
    rank_metrics,
    rank_series,
    rank_sites,
    shares,
    step_seconds,
)
from ...figures import NamedHeat, heat_of, heat_stack
from ...figures.overlay import Line, overlay_figure
from ...figures.ranks import Pace, pace_figure, pace_height, paces_of
from ...ids import Shell
from ...page import page
from ...places import no_metric
from ...theme import palette_of
from .cards import rank_cards
from .collectives import collectives_table
from .ids import CONTROLS, RANK, VIEW, Id

_PREFERRED: Final = ("communication/wait_seconds", "scalar/step_seconds", "scalar/loss")


def _place(reader: Reader, run: Run, here: Address) -> tuple[str, str]:
    """Metric and site that are looked at, the usual where the address leaves them open."""
    known = rank_metrics(reader, run)
    metric = here.metric or next((name for name in (*_PREFERRED, *known) if name in known), "")
    sites = rank_sites(reader, run, metric)
    return metric, here.site if here.site is not None else next(iter(sites), "")


def _paces(reader: Reader, run: Run, parts: Sequence[Share]) -> tuple[Pace, ...]:
    waits = {rank: sum(part.wait_seconds for part in parts if part.rank == rank) for rank in run.ranks}
    return paces_of(step_seconds(reader, run), waits)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draws the bars, the map and the lines, and follows the choice of a rank."""

    @app.callback(Output(Id.pace, "figure"), Input(Id.run, "value"), State(Shell.scheme, "data"))
    def draw_pace(reference: str, scheme: str | None) -> object:
        run = reader.find(reference)
        return pace_figure(_paces(reader, run, shares(reader, run)), palette_of(scheme))

    @app.callback(
        Output(Id.heat, "figure"),
        Output(Id.heat, "style"),
        Output(Id.lines, "figure"),
        Output(Id.site, "data"),
        Output(Id.note, "children"),
        Input(Id.metric, "value"),
        Input(Id.site, "value"),
        Input(Id.view, "value"),
        Input(Id.rank, "value"),
        Input(Id.version, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(
        metric: str | None, choice: str | None, view: str, rank: str | None, _: str, scheme: str | None, reference: str
    ) -> tuple[object, ...]:
        run, palette = reader.find(reference), palette_of(scheme)
        name, site = metric or "", site_of(choice) or ""
        if why := no_metric(name):
            return dash.no_update, {"display": "none"}, dash.no_update, [], why
        series = rank_series(reader, run, name, site)
        found = heat_of(rank_matrix(series, name), "deviation" if view == "deviation" else "raw")
        heat = heat_stack([NamedHeat(name, found)], palette)
        lines = [Line(f"rank {of}", one.steps, one.steps.astype(float), one.values) for of, one in series.items()]
        silent = [f"{of}" for of, one in series.items() if not one.total]
        note = f"nothing of it was recorded by rank {', '.join(silent[:12])}" if silent else None
        return (
            heat,
            {"height": f"{heat.layout.height}px"},
            overlay_figure(lines, palette, title=name, chosen=f"rank {rank}"),
            site_choices(rank_sites(reader, run, name), site),
            note,
        )

    app.clientside_callback(
        ClientsideFunction("mindscope", "openRank"),
        Output(Id.rank, "value"),
        Input(Id.heat, "clickData"),
        prevent_initial_call=True,
    )
    connect_beat(app, reader, tick=Id.tick, version=Id.version, run=Id.run)
    keep_address(app, Id.keys, CONTROLS)
    follow_run(app, Id.run)


def _maps(reader: Reader, run: Run, here: Address) -> html.Section:
    metric, site = _place(reader, run, here)
    controls = [
        choose(Id.metric, "Metric", with_chosen(rank_metrics(reader, run), metric), metric or None, 240),
        choose(Id.site, "Site", site_choices(rank_sites(reader, run, metric), site), display_site(site), 200),
        labelled("colours", switch(Id.view, "Colours show", VIEW.words, VIEW.of(here))),
        choose(
            Id.rank,
            "Rank",
            [f"{rank}" for rank in run.ranks],
            RANK.of(here) or None,
            100,
            clearable=True,
            placeholder="rank",
        ),
    ]
    body = [
        graph(Id.heat, "rank by step; a click on a row chooses its rank"),
        html.Div(id=Id.note, className="muted"),
        graph(Id.lines, "one line for every rank over the steps", 300),
    ]
    return panel("Rank × step", body, controls)


@page("ranks", title="Ranks", icon="ranks", connect=connect, keys=(VIEW, RANK))
def layout(reader: Reader, address: Address) -> Component:
    """The ranks of one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    parts = shares(reader, run)
    paces = _paces(reader, run, parts)
    bars = graph(Id.pace, "how long each rank works and waits in a step", pace_height(len(run.ranks)))
    title = html.Span(
        ["Collectives", html.Span(f"of a typical step; the first {CALLS} calls of each rank", className="muted")]
    )
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run)),
            rank_cards(paces, parts),
            panel("Work and waiting", bars),
            _maps(reader, run, address),
            panel(title, collectives_table(run.id, parts)),
            control_keys(Id.keys, CONTROLS),
            *beat(Id.tick, Id.version, reader.version(run.id)),
        ]
    )
