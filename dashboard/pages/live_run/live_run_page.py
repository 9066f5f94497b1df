"""One run, live: what is wrong first, the curve, layer by step, and the tensor behind any cell."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ....storage import Run
from ...address import SPAN, PageAddress, span_of
from ...components.form_controls import site_choices, site_of, with_chosen
from ...components.page_parts import empty_state, notice
from ...components.run_header import headline_cards, run_header, run_picker, run_status
from ...components.shell import ShellIds
from ...components.tensor_detail import tensor_panel
from ...components.verdict_panel import verdict_panel
from ...figures.curve_figure import Points, points_of
from ...headline import boxed_address, default_maps, diagnosis_of, headline_of, tensor_of
from ...page_callbacks import control_keys, follow_run, keep_address
from ...page_registry import page
from ...queries.reader import Reader
from ...queries.result_queries import learner_scalars, main_loss
from ...run_figures import curve_name, missing_metric, run_curve_figure, run_heatmap_figure, steps_shown
from ...theme import SCHEME_SHOWN, palette_of
from .live_run_panels import (
    CONTROLS,
    MAPS,
    SCALAR,
    SCALE,
    VIEW,
    LiveRunIds,
    curve_panel,
    evaluation,
    heat_panel,
    tensor_bar,
)

#: Points appended to a curve before it is redrawn with fewer ones.
_APPENDED: Final = 1500
#: Polls between two redraws of the heat map and the detail, while the run is written.
_SLOW_EVERY: Final = 3
_TAIL: Final = 500


@dataclass(frozen=True, slots=True)
class Cursor:
    """The state of a run that the browser shows.

    Args:
        version: The run's version then.
        state: Its state then: a run whose process is gone changes no more, and is crashed all the same.
        step: The newest step of the curve; -1 before the first.
        findings: How many findings were marked.
        appended: Points added to the curve since it was drawn.
        polls: Polls that found something new.
        end: The last step of the axis.
    """

    version: str = ""
    state: str = ""
    step: int = -1
    findings: int = 0
    appended: int = 0
    polls: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class LiveUpdate:
    """The result of one poll.

    Args:
        tail: Points to append to the curve; None if it is unchanged or must be redrawn.
        redraw: Whether the curve must be redrawn.
        is_slow_due: Whether the slower figures are due as well.
    """

    cursor: Cursor
    tail: Points | None
    redraw: bool
    is_slow_due: bool


def cursor_now(reader: Reader, run: Run) -> Cursor:
    """Return the cursor of a page that is being laid out."""
    findings = len(reader.findings(run.id))
    end = steps_shown(reader, run.id)[1]
    return Cursor(version=reader.version(run.id), state=run.state, step=run.last_step, findings=findings, end=end)


def poll(reader: Reader, run: Run, scalar: str, seen: Cursor, *, log: bool) -> LiveUpdate | None:
    """Return what has changed since `seen`; None if nothing has."""
    version = reader.version(run.id)
    if version == seen.version and run.state == seen.state:
        return None
    findings = len(reader.findings(run.id))
    new = reader.scalar(run.id, scalar, first=seen.step + 1, limit=_TAIL)
    points = points_of(new.steps, new.values, log=log)
    step = max((seen.step, *points.x[-1:]))
    appended = seen.appended + len(points.x)
    end = steps_shown(reader, run.id)[1]
    has_news = bool(points.mark_x) or findings != seen.findings or end != seen.end
    is_redrawn = has_news or appended > _APPENDED or new.total > len(points.x)
    polls = seen.polls + 1
    cursor = Cursor(
        version=version,
        state=run.state,
        step=step,
        findings=findings,
        appended=0 if is_redrawn else appended,
        polls=polls,
        end=end,
    )
    due = is_redrawn or run.state != "running" or polls % _SLOW_EVERY == 1
    return LiveUpdate(cursor, None if is_redrawn or not points.x else points, is_redrawn, due)


def to_json(cursor: Cursor) -> dict[str, int | str]:
    """Convert the cursor to what travels through the browser."""
    return asdict(cursor)


def from_json(data: object) -> Cursor:
    """Parse the cursor that came back; anything else gives a fresh one."""
    if not isinstance(data, dict) or set(data) != set(Cursor.__slots__):
        return Cursor()
    texts, numbers = (data.pop("version"), data.pop("state")), data
    is_ours = all(isinstance(text, str) for text in texts) and all(isinstance(value, int) for value in numbers.values())
    return Cursor(*texts, **numbers) if is_ours else Cursor()


def connect_following(app: dash.Dash, reader: Reader) -> None:
    """Keep the page of a running run up to date unless it is paused."""

    @app.callback(
        Output(LiveRunIds.cursor, "data"),
        Output(LiveRunIds.tail, "data"),
        Output(LiveRunIds.redraw, "data"),
        Output(LiveRunIds.slow_tick, "data"),
        Output(LiveRunIds.cards, "children"),
        Output(LiveRunIds.verdict, "children"),
        Output(LiveRunIds.status, "children"),
        Output(LiveRunIds.follow, "style"),
        Input(LiveRunIds.tick, "n_intervals"),
        State(LiveRunIds.cursor, "data"),
        State(LiveRunIds.run, "value"),
        State(LiveRunIds.scalar, "value"),
        State(LiveRunIds.scale, "value"),
        State(LiveRunIds.span, "data"),
        prevent_initial_call=True,
    )
    def tick(count: int, data: object, reference: str, scalar: str, scale: str, span: str | None) -> tuple[object, ...]:
        """Answer in a few bytes when the run has not changed, in a few kilobytes when it has."""
        seen = from_json(data)
        run = reader.find(reference)
        news = poll(reader, run, scalar, seen, log=scale == "log")
        if news is None and run.state != "running":
            raise PreventUpdate
        status = status_of(reader, run)
        if news is None:  # the time since the last news goes on
            return (*[no_update] * 6, status, no_update)
        findings = reader.findings(run.id)
        is_of_learners = scalar == "loss" and bool(learner_scalars(reader, run.id))
        tail = (
            {"name": curve_name(scalar, scale, span_of(span)), "x": news.tail.x, "y": news.tail.y}
            if news.tail and not is_of_learners
            else no_update
        )
        return (
            to_json(news.cursor),
            tail,
            count if news.redraw or (news.is_slow_due and is_of_learners) else no_update,
            count if news.is_slow_due else no_update,
            headline_cards(run, headline_of(reader, run), len(findings), main_loss(reader, run)),
            [verdict_panel(diagnosis_of(reader, run))] if news.is_slow_due else no_update,
            status,
            follow_style(run),
        )

    app.clientside_callback(
        ClientsideFunction("mindscope", "extendCurve"),
        Output(LiveRunIds.curve, "extendData"),
        Input(LiveRunIds.tail, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "paused"),
        Output(LiveRunIds.tick, "disabled"),
        Input(LiveRunIds.follow, "checked"),
        prevent_initial_call=True,
    )


def status_of(reader: Reader, run: Run) -> list[Component]:
    """Return the line about a run's state, by the clock that saw it change; before it, what is wrong with the store."""
    trouble = reader.trouble() if run.state == "running" else ""
    words = run_status(run, run.updated_at + reader.news_age(run), reader.training_kind(run.id))
    return [*([notice(trouble)] if trouble else []), *words]


def follow_style(run: Run) -> dict[str, str]:
    """Return the style of the Follow switch: hidden when the run is over."""
    return {} if run.state == "running" else {"display": "none"}


#: Seconds for which visitors share a map: less than the three seconds after which it is due again.
_SHARED_S: Final = 0.5


def connect_curve(app: dash.Dash, reader: Reader) -> None:
    """Redraw the curve when another one is chosen or it has grown too long."""

    @app.callback(
        Output(LiveRunIds.curve, "figure"),
        Output(LiveRunIds.scalar, "data"),
        Input(LiveRunIds.scalar, "value"),
        Input(LiveRunIds.scale, "value"),
        Input(LiveRunIds.span, "data"),
        Input(LiveRunIds.redraw, "data"),
        State(ShellIds.scheme, "data"),
        State(LiveRunIds.run, "value"),
        prevent_initial_call=True,
    )
    def draw(
        scalar: str, scale: str, span: str | None, _: int, scheme: str | None, run: str
    ) -> tuple[object, list[str]]:
        figure = run_curve_figure(reader, run, scalar, scale, palette_of(scheme), span_of(span))
        return figure, with_chosen(reader.scalars(run), scalar)


def connect_heat(app: dash.Dash, reader: Reader) -> None:
    """Draw the maps."""

    @app.callback(
        Output(LiveRunIds.heat, "figure"),
        Output(LiveRunIds.heat, "style"),
        Output(LiveRunIds.heat_note, "children"),
        Output(LiveRunIds.maps, "data"),
        Output(LiveRunIds.metric, "data"),
        Input(LiveRunIds.maps, "value"),
        Input(LiveRunIds.view, "value"),
        Input(LiveRunIds.span, "data"),
        Input(LiveRunIds.slow_tick, "data"),
        State(LiveRunIds.site, "value"),
        State(LiveRunIds.step, "value"),
        State(ShellIds.scheme, "data"),
        State(LiveRunIds.run, "value"),
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
        wanted = maps or default_maps(tuple(metrics))[:1]
        note = next((why for metric in wanted or [""] if (why := missing_metric(reader, run, metric))), None)
        if note:
            return no_update, {"display": "none"}, empty_state(*note), with_chosen(metrics, *wanted), metrics
        site = site_of(choice)
        selected = (site, step) if site is not None and isinstance(step, int) else None
        draw_now = partial(
            run_heatmap_figure, reader, run, wanted, view, palette_of(scheme), selected=selected, span=span_of(span)
        )
        is_written = reader.find(run).state == "running"
        key = ("heat", run, tuple(wanted), view, scheme, selected, span)
        figure = reader.shared(key, draw_now, for_s=_SHARED_S) if is_written else draw_now()
        return figure, {"height": f"{figure.layout.height}px"}, None, metrics, metrics


def connect_detail(app: dash.Dash, reader: Reader) -> None:
    """Show the chosen tensor, else the one behind the first anomaly."""

    @app.callback(
        Output(LiveRunIds.detail, "children"),
        Output(LiveRunIds.site, "data"),
        Input(LiveRunIds.metric, "value"),
        Input(LiveRunIds.site, "value"),
        Input(LiveRunIds.step, "value"),
        Input(LiveRunIds.slow_tick, "data"),
        State(ShellIds.scheme, "data"),
        State(LiveRunIds.run, "value"),
    )
    def draw(
        metric: str | None, choice: str | None, step: object, _: int, scheme: str | None, reference: str
    ) -> tuple[list[Component], list[str]]:
        run, site = reader.find(reference), site_of(choice)
        at = step if isinstance(step, int) else None
        first = headline_of(reader, run).first
        site_options = site_choices(reader.sites(run.id, metric or ""), site)
        if site is None and first is not None:
            (metric, site), at = tensor_of(reader, run, first), first.first_step
        if site is None or not metric:
            return [], site_options
        return [tensor_panel(reader, run, metric, site, at, palette_of(scheme))], site_options


def connect_browser(app: dash.Dash) -> None:
    """Connect what the browser does by itself: frame and open a cell, and keep the zoomed range."""
    app.clientside_callback(
        ClientsideFunction("mindscope", "frameCell"),
        Input(LiveRunIds.site, "value"),
        Input(LiveRunIds.step, "value"),
        State(LiveRunIds.heat_name, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "alignAxes"),
        Input(LiveRunIds.curve, "figure"),
        Input(LiveRunIds.heat, "figure"),
        State(LiveRunIds.curve, "id"),
        State(LiveRunIds.heat, "id"),
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "openCell"),
        Output(LiveRunIds.metric, "value"),
        Output(LiveRunIds.site, "value"),
        Output(LiveRunIds.step, "value"),
        Input(LiveRunIds.heat, "clickData"),
        State(LiveRunIds.heat_name, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "zoomed"),
        Output(LiveRunIds.span, "data"),
        Input(LiveRunIds.curve, "relayoutData"),
        Input(LiveRunIds.heat, "relayoutData"),
        State(LiveRunIds.span, "data"),
        prevent_initial_call=True,
    )


_REFRESH_MS: Final = 1000


def connect(app: dash.Dash, reader: Reader) -> None:
    """Connect the callbacks of the page: one poll per tick, three figures, and the address."""
    connect_following(app, reader)
    connect_curve(app, reader)
    connect_heat(app, reader)
    connect_detail(app, reader)
    connect_browser(app)
    keep_address(app, LiveRunIds.keys, CONTROLS)
    follow_run(app, LiveRunIds.run)


@page("run", title="Live run", icon="run", connect=connect, keys=(SCALAR, SCALE, MAPS, VIEW, SPAN))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the page of one run."""
    run = reader.find(address.run)
    if run.kind == "evaluation":
        return evaluation(reader, run)
    seen = cursor_now(reader, run)
    here = boxed_address(reader, run, address)
    status = html.Div(status_of(reader, run), id=LiveRunIds.status, className="status")
    follow = dmc.Switch(
        id=LiveRunIds.follow, checked=True, label="Follow", size="xs", labelPosition="left", style=follow_style(run)
    )
    findings = reader.findings(run.id)
    return html.Div(
        [
            run_header(run, status, run_picker(LiveRunIds.run, reader.runs(), run), [follow]),
            html.Div(
                headline_cards(run, headline_of(reader, run), len(findings), main_loss(reader, run)),
                id=LiveRunIds.cards,
                className="cards",
            ),
            curve_panel(reader, run, here, palette_of(SCHEME_SHOWN.get())),
            heat_panel(reader, run, here),
            tensor_bar(reader, run, here),
            html.Div(id=LiveRunIds.detail, className="detail"),
            html.Div([verdict_panel(diagnosis_of(reader, run))], id=LiveRunIds.verdict),
            control_keys(LiveRunIds.keys, CONTROLS),
            dcc.Store(id=LiveRunIds.span, data=SPAN.of(here)),
            dcc.Store(id=LiveRunIds.heat_name, data=LiveRunIds.heat),
            dcc.Store(id=LiveRunIds.cursor, data=to_json(seen)),
            dcc.Store(id=LiveRunIds.tail),
            dcc.Store(id=LiveRunIds.redraw, data=0),
            dcc.Store(id=LiveRunIds.slow_tick, data=0),
            dcc.Interval(id=LiveRunIds.tick, interval=_REFRESH_MS),
        ]
    )
