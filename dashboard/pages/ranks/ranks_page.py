"""The ranks of a run: who holds up the others, rank by step, who waited for whom, and what every collective moves."""

import time
from collections.abc import Sequence
from typing import Final

import dash
from dash import ClientsideFunction, Input, Output, State, html
from dash.development.base_component import Component

from ....storage import Run, display_site
from ...address import PageAddress, QueryKey
from ...components.form_controls import choose, labelled, site_choices, site_of, step_input, switch, with_chosen
from ...components.hang_report import connect_hang_report, hang_section
from ...components.page_parts import empty_state, graph, panel
from ...components.run_header import run_header, run_picker, run_status
from ...components.shell import ShellIds
from ...figures.heatmap_figure import NamedHeatmap, heat_of, heat_stack
from ...figures.pace_figure import RankPace, pace_figure, pace_height, paces_of
from ...figures.series_figure import overlay_figure
from ...headline import metric_error
from ...page_callbacks import METRIC, SITE, STEP, connect_polling, control_keys, follow_run, keep_address, polling_parts
from ...page_registry import page
from ...queries.rank_queries import CALLS, CollectiveCost, collective_costs, step_seconds
from ...queries.rank_view import RankView, rank_view
from ...queries.reader import Reader
from ...queries.step_waits import step_waits
from ...theme import palette_of
from .rank_figures import traffic_figure, waits_figure, waits_words
from .rank_maps import BY_RANK, known_metrics, known_sites, rank_map, rank_traffic, row_choices, usual_metric
from .rank_parts import collectives_table, rank_cards, topology_table, verdict_parts
from .topology_panel import BLOCKS_BY, CELLS, TOPOLOGY_CONTROLS, connect_topology, topology_panel

VIEW = QueryKey("view", "raw", ("deviation", "raw"))
RANK = QueryKey("rank", pattern=r"\d{1,9}", example="3")
ROWS = QueryKey("rows", pattern=r"[^\0]{1,80}", example="host")
_HIDDEN: Final = {"display": "none"}


class RanksIds:
    """Ids of the components of this page."""

    run: Final = "ranks-run"
    keys: Final = "ranks-keys"
    verdict: Final = "ranks-verdict"
    metric: Final = "ranks-metric"
    site: Final = "ranks-site"
    rows: Final = "ranks-rows"
    view: Final = "ranks-view"
    rank: Final = "ranks-rank"
    heat: Final = "ranks-heat"
    lines: Final = "ranks-lines"
    note: Final = "ranks-note"
    pace: Final = "ranks-pace"
    step: Final = "ranks-step"
    waits: Final = "ranks-waits"
    waits_note: Final = "ranks-waits-note"
    traffic: Final = "ranks-traffic"
    traffic_note: Final = "ranks-traffic-note"
    tick: Final = "ranks-tick"
    version: Final = "ranks-version"


CONTROLS: Final = (
    (RanksIds.metric, "value", METRIC),
    (RanksIds.site, "value", SITE),
    (RanksIds.rows, "value", ROWS),
    (RanksIds.view, "value", VIEW),
    (RanksIds.rank, "value", RANK),
    (RanksIds.step, "value", STEP),
    *TOPOLOGY_CONTROLS,
)


def _paces(reader: Reader, run: Run, parts: Sequence[CollectiveCost]) -> tuple[RankPace, ...]:
    waits = {rank: sum(part.wait_seconds for part in parts if part.rank == rank) for rank in run.ranks}
    return paces_of(step_seconds(reader, run), waits)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draw the bars, the map and the lines, the time line and the traffic, and follow the choice of a rank."""
    _connect_answer(app, reader)
    _connect_maps(app, reader)
    _connect_exchange(app, reader)
    connect_hang_report(app, reader, run=RanksIds.run, tick=RanksIds.tick)
    connect_topology(app, reader, run=RanksIds.run, tick=RanksIds.tick)
    app.clientside_callback(
        ClientsideFunction("mindscope", "openRank"),
        Output(RanksIds.rank, "value"),
        Input(RanksIds.heat, "clickData"),
        prevent_initial_call=True,
    )
    connect_polling(app, reader, tick=RanksIds.tick, version=RanksIds.version, run=RanksIds.run)
    keep_address(app, RanksIds.keys, CONTROLS)
    follow_run(app, RanksIds.run)


def _connect_answer(app: dash.Dash, reader: Reader) -> None:
    """Keep the first sentence up to date, and draw the bars of work and waiting."""

    @app.callback(
        Output(RanksIds.verdict, "children"),
        Input(RanksIds.version, "data"),
        State(RanksIds.run, "value"),
        prevent_initial_call=True,
    )
    def answer(_: str, reference: str) -> list[Component]:
        return verdict_parts(rank_view(reader, reader.find(reference)))

    @app.callback(Output(RanksIds.pace, "figure"), Input(RanksIds.run, "value"), State(ShellIds.scheme, "data"))
    def draw_pace(reference: str, scheme: str | None) -> object:
        run = rank_view(reader, reader.find(reference)).run
        return pace_figure(_paces(reader, run, collective_costs(reader, run)), palette_of(scheme))


def _connect_maps(app: dash.Dash, reader: Reader) -> None:
    """Draw the map and the lines of the chosen metric."""

    @app.callback(
        Output(RanksIds.heat, "figure"),
        Output(RanksIds.heat, "style"),
        Output(RanksIds.lines, "figure"),
        Output(RanksIds.site, "data"),
        Output(RanksIds.note, "children"),
        Input(RanksIds.metric, "value"),
        Input(RanksIds.site, "value"),
        Input(RanksIds.rows, "value"),
        Input(RanksIds.view, "value"),
        Input(RanksIds.rank, "value"),
        Input(RanksIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(RanksIds.run, "value"),
    )
    def draw(
        metric: str | None,
        choice: str | None,
        rows: str | None,
        view: str,
        rank: str | None,
        _: str,
        scheme: str | None,
        reference: str,
    ) -> tuple[object, ...]:
        shown, palette = rank_view(reader, reader.find(reference)), palette_of(scheme)
        name, site = metric or "", site_of(choice) or ""
        if why := metric_error(name):
            return dash.no_update, _HIDDEN, dash.no_update, [], why
        found = rank_map(reader, shown, name, site, rows or BY_RANK)
        heat = heat_stack(
            [NamedHeatmap(name, heat_of(found.matrix, "deviation" if view == "deviation" else "raw"))], palette
        )
        return (
            heat,
            {"height": f"{heat.layout.height}px"},
            overlay_figure(found.lines, palette, title=name, chosen=f"rank {rank}"),
            site_choices(known_sites(reader, shown, name), site),
            found.note or None,
        )


def _connect_exchange(app: dash.Dash, reader: Reader) -> None:
    """Draw who waited for whom in the chosen step, and who gives how much to whom."""

    @app.callback(
        Output(RanksIds.waits, "figure"),
        Output(RanksIds.waits, "style"),
        Output(RanksIds.waits_note, "children"),
        Input(RanksIds.step, "value"),
        Input(RanksIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(RanksIds.run, "value"),
    )
    def draw_waits(step: int | str | None, _: str, scheme: str | None, reference: str) -> tuple[object, ...]:
        shown = rank_view(reader, reader.find(reference))
        waits = step_waits(reader, shown.run, shown.topology, step if isinstance(step, int) else None)
        if waits is None:
            words = "Collectives of at least two ranks at this step are needed; choose another step."
            return dash.no_update, _HIDDEN, empty_state("No waiting recorded here", words)
        figure = waits_figure(waits, palette_of(scheme))
        return figure, {"height": f"{figure.layout.height}px"}, html.P(waits_words(waits), className="muted")

    @app.callback(
        Output(RanksIds.traffic, "figure"),
        Output(RanksIds.traffic, "style"),
        Output(RanksIds.traffic_note, "children"),
        Input(RanksIds.run, "value"),
        State(ShellIds.scheme, "data"),
    )
    def draw_traffic(reference: str, scheme: str | None) -> tuple[object, ...]:
        shown = rank_view(reader, reader.find(reference))
        costs = () if shown.is_wide else collective_costs(reader, shown.run)
        found = rank_traffic(reader, shown, costs)
        if found is None or not found.sent_bytes.any():
            return dash.no_update, _HIDDEN, empty_state("No exchange between ranks recorded")
        figure = traffic_figure(found, palette_of(scheme))
        return (
            figure,
            {"height": f"{figure.layout.height}px"},
            html.P(_traffic_words(found.left_out), className="muted"),
        )


def _traffic_words(left_out: tuple[str, ...]) -> str:
    words = (
        "In a typical step: what ranks send to each other, and what they hand to collectives, as ring algorithms would "
        "spread it among the group."
    )
    return f"{words} Left out: {', '.join(left_out)}, of which the other side is not recorded." if left_out else words


def _maps(reader: Reader, view: RankView, here: PageAddress) -> html.Section:
    known = known_metrics(reader, view)
    metric = here.metric or usual_metric(known, view)
    sites = known_sites(reader, view, metric)
    site = here.site if here.site is not None else next(iter(sites), "")
    rows = row_choices(view)
    controls = [
        choose(RanksIds.metric, "Metric", with_chosen(known, metric), metric or None, 240),
        choose(RanksIds.site, "Site", site_choices(sites, site), display_site(site), 200),
        choose(RanksIds.rows, "Rows", with_chosen(rows, ROWS.of(here)), ROWS.of(here) or next(iter(rows), None), 110),
        labelled("colours", switch(RanksIds.view, "Colours show", VIEW.words, VIEW.of(here))),
        choose(
            RanksIds.rank,
            "Rank",
            [f"{rank}" for rank in view.run.ranks],
            RANK.of(here) or None,
            100,
            clearable=True,
            placeholder="rank",
        ),
    ]
    body = [
        graph(RanksIds.heat, "rank by step; a click on a row chooses its rank"),
        html.Div(id=RanksIds.note, className="muted"),
        graph(RanksIds.lines, "one line for every rank, or for quantiles over all of them, over the steps", 300),
    ]
    return panel("Rank × step", body, controls)


def _waits(here: PageAddress) -> html.Section:
    body = [
        graph(RanksIds.waits, "who waited for whom in one step: a row for every rank"),
        html.Div(id=RanksIds.waits_note),
    ]
    return panel("Who waited for whom", body, [step_input(RanksIds.step, here.step)])


def _traffic() -> html.Section:
    body = [
        graph(RanksIds.traffic, "who gives how many bytes to whom: a row for who gives, a column for who receives"),
        html.Div(id=RanksIds.traffic_note),
    ]
    return panel("Communication", body)


@page("ranks", title="Ranks", icon="ranks", connect=connect, keys=(VIEW, RANK, ROWS, CELLS, BLOCKS_BY))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the ranks of one run: first who it is, since when and what it costs."""
    found = reader.find(address.run)
    status = html.Div(run_status(found, time.time()), className="status")
    view = rank_view(reader, found)
    parts = collective_costs(reader, view.run)
    paces = _paces(reader, view.run, parts)
    some = f"{len(view.run.ranks)} of {view.count:,} ranks" if view.is_wide else "all ranks"
    bars = graph(RanksIds.pace, "how long each rank works and waits in a step", pace_height(len(view.run.ranks)))
    title = html.Span(
        ["Collectives", html.Span(f"of a typical step; the first {CALLS} calls of {some}", className="muted")]
    )
    return html.Div(
        [
            run_header(found, status, run_picker(RanksIds.run, reader.runs(), found)),
            html.Div(verdict_parts(view), id=RanksIds.verdict, **{"aria-live": "polite"}),
            hang_section(reader, found),
            topology_panel(view, address),
            _maps(reader, view, address),
            _waits(address),
            panel(
                html.Span(["Work and waiting", html.Span(some, className="muted")]), [rank_cards(paces, parts), bars]
            ),
            panel("Topology", topology_table(reader, view)),
            _traffic(),
            panel(title, collectives_table(found.id, parts)),
            control_keys(RanksIds.keys, CONTROLS),
            *polling_parts(RanksIds.tick, RanksIds.version, reader.version(found.id)),
        ]
    )
