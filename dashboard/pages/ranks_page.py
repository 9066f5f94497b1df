"""The ranks of a run: rank by step, which is slowest, which waits, and what every collective moves."""

import time
from collections.abc import Sequence
from math import isfinite
from typing import Final

import dash
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component
from rich.filesize import decimal

from ...storage import Run, display_site
from ..address import PageAddress, QueryKey
from ..components.form_controls import choose, labelled, site_choices, site_of, switch, with_chosen
from ..components.page_parts import card, empty_state, graph, panel
from ..components.run_header import run_header, run_picker, run_status
from ..components.shell import ShellIds
from ..figures.heatmap_figure import NamedHeatmap, heat_of, heat_stack
from ..figures.pace_figure import RankPace, pace_figure, pace_height, paces_of, skew_s, slowest
from ..figures.series_figure import Line, overlay_figure
from ..formatting import count, number
from ..headline import metric_error
from ..page_callbacks import METRIC, SITE, connect_polling, control_keys, follow_run, keep_address, polling_parts
from ..page_registry import page
from ..queries.rank_queries import (
    CALLS,
    CollectiveCost,
    collective_costs,
    rank_matrix,
    rank_metrics,
    rank_series,
    rank_sites,
    step_seconds,
)
from ..queries.reader import Reader
from ..theme import palette_of

VIEW = QueryKey("view", "raw", ("deviation", "raw"))
RANK = QueryKey("rank", pattern=r"\d{1,9}", example="3")


class RanksIds:
    """Ids of the components of this page."""

    run: Final = "ranks-run"
    keys: Final = "ranks-keys"
    metric: Final = "ranks-metric"
    site: Final = "ranks-site"
    view: Final = "ranks-view"
    rank: Final = "ranks-rank"
    heat: Final = "ranks-heat"
    lines: Final = "ranks-lines"
    note: Final = "ranks-note"
    pace: Final = "ranks-pace"
    tick: Final = "ranks-tick"
    version: Final = "ranks-version"


CONTROLS: Final = (
    (RanksIds.metric, "value", METRIC),
    (RanksIds.site, "value", SITE),
    (RanksIds.view, "value", VIEW),
    (RanksIds.rank, "value", RANK),
)


def rank_cards(paces: Sequence[RankPace], parts: Sequence[CollectiveCost]) -> html.Div:
    """Build four cards: slowest rank, skew, most waiting, bytes moved."""
    return html.Div([_slowest(paces), _skew(paces), _waiting(paces, parts), _moved(parts)], className="cards")


def _slowest(paces: Sequence[RankPace]) -> html.Div:
    last = slowest(paces)
    if last is None:
        return card("Slowest rank", "–", "a single rank has nothing to wait for")
    return card("Slowest rank", f"rank {last.rank}", f"works {number(last.work_s, 3)} s of a step")


def _skew(paces: Sequence[RankPace]) -> html.Div:
    value = f"{number(skew_s(paces), 3)} s" if len(paces) > 1 else "–"
    return card("Skew", value, "between the longest and the shortest work of a step")


def _waiting(paces: Sequence[RankPace], parts: Sequence[CollectiveCost]) -> html.Div:
    if not parts or not paces:
        return card("Waits most", "–", "no communication was recorded")
    most = max(paces, key=lambda pace: pace.wait_s)
    return card("Waits most", f"rank {most.rank}", f"{number(most.wait_s, 3)} s of {number(most.step_s, 3)} s")


def _moved(parts: Sequence[CollectiveCost]) -> html.Div:
    if not parts:
        return card("Moved in a step", "–", "only collectives of torch.distributed are recorded")
    each = sum(part.moved_bytes for part in parts) / len({part.rank for part in parts})
    sites = len({part.site for part in parts})
    return card("Moved in a step", size_words(each), f"by every rank, in {count(sites, 'collective')}")


def size_words(amount: float) -> str:
    """Format an amount of bytes."""
    return decimal(int(amount)) if isfinite(amount) else "not recorded"


def collectives_table(run: str, parts: Sequence[CollectiveCost]) -> Component:
    """Build a table with one row for every collective of every rank, linked to that rank."""
    if not parts:
        return empty_state(
            "No communication recorded",
            "Collectives are recorded of processes that talk through torch.distributed. What DDP's own reducer sends "
            "is not a call that can be seen; `gradient/unreduced` beside `gradient` shows what it did.",
        )
    columns = ("Operation", "Group", "Rank", "Calls", "Bytes a step", "Seconds", "Waiting")
    rows = [
        html.Tr(
            [
                html.Td(part.site.partition("/")[0]),
                html.Td(part.site.partition("/")[2]),
                html.Td(
                    dcc.Link(f"{part.rank}", href=PageAddress("ranks", run=run).having(rank=f"{part.rank}").href),
                    className="figure",
                ),
                html.Td(f"{part.calls}", className="figure"),
                html.Td(size_words(part.moved_bytes), className="figure"),
                html.Td(number(part.seconds), className="figure"),
                html.Td(number(part.wait_seconds), className="figure"),
            ]
        )
        for part in parts
    ]
    head = html.Tr([html.Th(name, className="figure" if at > 1 else "") for at, name in enumerate(columns)])
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="table")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": "collectives"})


_PREFERRED: Final = ("communication/wait_seconds", "scalar/step_seconds", "scalar/loss")


def _metric_and_site(reader: Reader, run: Run, here: PageAddress) -> tuple[str, str]:
    """Return the metric and site to show, with defaults where the address leaves them open."""
    known = rank_metrics(reader, run)
    metric = here.metric or next((name for name in (*_PREFERRED, *known) if name in known), "")
    sites = rank_sites(reader, run, metric)
    return metric, here.site if here.site is not None else next(iter(sites), "")


def _paces(reader: Reader, run: Run, parts: Sequence[CollectiveCost]) -> tuple[RankPace, ...]:
    waits = {rank: sum(part.wait_seconds for part in parts if part.rank == rank) for rank in run.ranks}
    return paces_of(step_seconds(reader, run), waits)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draw the bars, the map and the lines, and follow the choice of a rank."""

    @app.callback(Output(RanksIds.pace, "figure"), Input(RanksIds.run, "value"), State(ShellIds.scheme, "data"))
    def draw_pace(reference: str, scheme: str | None) -> object:
        run = reader.find(reference)
        return pace_figure(_paces(reader, run, collective_costs(reader, run)), palette_of(scheme))

    @app.callback(
        Output(RanksIds.heat, "figure"),
        Output(RanksIds.heat, "style"),
        Output(RanksIds.lines, "figure"),
        Output(RanksIds.site, "data"),
        Output(RanksIds.note, "children"),
        Input(RanksIds.metric, "value"),
        Input(RanksIds.site, "value"),
        Input(RanksIds.view, "value"),
        Input(RanksIds.rank, "value"),
        Input(RanksIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(RanksIds.run, "value"),
    )
    def draw(
        metric: str | None, choice: str | None, view: str, rank: str | None, _: str, scheme: str | None, reference: str
    ) -> tuple[object, ...]:
        run, palette = reader.find(reference), palette_of(scheme)
        name, site = metric or "", site_of(choice) or ""
        if why := metric_error(name):
            return dash.no_update, {"display": "none"}, dash.no_update, [], why
        series = rank_series(reader, run, name, site)
        found = heat_of(rank_matrix(series, name), "deviation" if view == "deviation" else "raw")
        heat = heat_stack([NamedHeatmap(name, found)], palette)
        lines = [
            Line(f"rank {of}", rank_values.steps, rank_values.steps.astype(float), rank_values.values)
            for of, rank_values in series.items()
        ]
        silent = [f"{of}" for of, rank_values in series.items() if not rank_values.total]
        note = f"not recorded by rank {', '.join(silent[:12])}" if silent else None
        return (
            heat,
            {"height": f"{heat.layout.height}px"},
            overlay_figure(lines, palette, title=name, chosen=f"rank {rank}"),
            site_choices(rank_sites(reader, run, name), site),
            note,
        )

    app.clientside_callback(
        ClientsideFunction("mindscope", "openRank"),
        Output(RanksIds.rank, "value"),
        Input(RanksIds.heat, "clickData"),
        prevent_initial_call=True,
    )
    connect_polling(app, reader, tick=RanksIds.tick, version=RanksIds.version, run=RanksIds.run)
    keep_address(app, RanksIds.keys, CONTROLS)
    follow_run(app, RanksIds.run)


def _maps(reader: Reader, run: Run, here: PageAddress) -> html.Section:
    metric, site = _metric_and_site(reader, run, here)
    controls = [
        choose(RanksIds.metric, "Metric", with_chosen(rank_metrics(reader, run), metric), metric or None, 240),
        choose(RanksIds.site, "Site", site_choices(rank_sites(reader, run, metric), site), display_site(site), 200),
        labelled("colours", switch(RanksIds.view, "Colours show", VIEW.words, VIEW.of(here))),
        choose(
            RanksIds.rank,
            "Rank",
            [f"{rank}" for rank in run.ranks],
            RANK.of(here) or None,
            100,
            clearable=True,
            placeholder="rank",
        ),
    ]
    body = [
        graph(RanksIds.heat, "rank by step; a click on a row chooses its rank"),
        html.Div(id=RanksIds.note, className="muted"),
        graph(RanksIds.lines, "one line for every rank over the steps", 300),
    ]
    return panel("Rank × step", body, controls)


@page("ranks", title="Ranks", icon="ranks", connect=connect, keys=(VIEW, RANK))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the ranks of one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    parts = collective_costs(reader, run)
    paces = _paces(reader, run, parts)
    bars = graph(RanksIds.pace, "how long each rank works and waits in a step", pace_height(len(run.ranks)))
    title = html.Span(
        ["Collectives", html.Span(f"of a typical step; the first {CALLS} calls of each rank", className="muted")]
    )
    return html.Div(
        [
            run_header(run, status, run_picker(RanksIds.run, reader.runs(), run)),
            rank_cards(paces, parts),
            panel("Work and waiting", bars),
            _maps(reader, run, address),
            panel(title, collectives_table(run.id, parts)),
            control_keys(RanksIds.keys, CONTROLS),
            *polling_parts(RanksIds.tick, RanksIds.version, reader.version(run.id)),
        ]
    )
