"""The profile of a run: where the time of steps and the memory go, who is waited for, and what to do about it."""

import time
from collections.abc import Sequence
from typing import Any, Final

import dash
import dash_ag_grid
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ...insight.profile import MemoryUse, Operator, Profile
from ...storage import Run
from ..address import Address, Key
from ..beat import connect_beat
from ..components import empty_state, graph, notice, panel, run_header, run_picker, run_status
from ..components.choices import choose, line_input
from ..components.grid_theme import GRID_THEME
from ..components.profiling import advice_list, collectives_table, profile_cards, ranks_table
from ..controls import control_keys, follow_run, keep_address
from ..data import Reader
from ..data.timing import StepCourse, profile_of, step_course
from ..figures.profile import inside_figure, memory_figure, parts_figure, parts_height, split_figure
from ..figures.ranks import Pace, pace_figure, pace_height
from ..ids import Shell
from ..page import page
from ..spans import SPAN, Span, span_of
from ..theme import Palette, palette_of
from ..timelines import serve_timelines, timeline_link
from ..words import count

RANK = Key("rank", pattern=r"\d{1,9}", example="3")
#: A profile of a hundred thousand steps takes half a second; so often it costs a few percent of a core.
_REFRESH_MS: Final = 10_000
_HIDDEN: Final = {"display": "none"}
#: Ranks whose bars are drawn, the slowest first.
_PACES: Final = 24

# A row of the grid is JSON: unlike values under fixed keys.
Row = dict[str, Any]


class Id:
    """What stands on this page."""

    run: Final = "profile-run"
    keys: Final = "profile-keys"
    tick: Final = "profile-tick"
    version: Final = "profile-version"
    span: Final = "profile-span"
    rank: Final = "profile-rank"
    trace: Final = "profile-trace"
    note: Final = "profile-note"
    cards: Final = "profile-cards"
    split: Final = "profile-split"
    split_note: Final = "profile-split-note"
    advice: Final = "profile-advice"
    operators: Final = "profile-operators"
    operators_note: Final = "profile-operators-note"
    memory: Final = "profile-memory"
    memory_note: Final = "profile-memory-note"
    ranks: Final = "profile-ranks"


_CONTROLS: Final = ((Id.span, "value", SPAN), (Id.rank, "value", RANK))
#: All that is drawn anew together: they share one profile.
_DRAWN: Final = (
    (Id.note, "children"),
    (Id.cards, "children"),
    (Id.advice, "children"),
    (Id.ranks, "children"),
    (Id.trace, "href"),
    (Id.split, "figure"),
    (Id.split, "style"),
    (Id.split_note, "children"),
    (Id.memory, "figure"),
    (Id.memory, "style"),
    (Id.memory_note, "children"),
    (Id.operators, "rowData"),
    (Id.operators, "style"),
    (Id.operators_note, "children"),
)

_MS: Final = {"function": "params.value === null ? '' : d3.format(',.3~f')(params.value)"}
_COLUMNS: Final[list[Row]] = [
    {"field": "name", "headerName": "Operator", "flex": 2, "minWidth": 180, "filter": True, "tooltipField": "name"},
    {"field": "phase", "headerName": "Phase", "width": 110, "filter": True},
    {"field": "calls", "headerName": "Calls a step", "width": 110, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "own", "headerName": "Own ms", "width": 110, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "whole", "headerName": "With callees ms", "width": 130, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "share", "headerName": "Share %", "width": 100, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "kilobytes", "headerName": "Allocated kB", "width": 130, "type": "rightAligned", "valueFormatter": _MS},
]


def operator_rows(operators: Sequence[Operator]) -> list[Row]:
    """The operators of a mean step, the longest first."""
    return [
        {
            "name": one.name,
            "phase": one.phase,
            "calls": one.calls,
            "own": one.self_s * 1e3,
            "whole": one.seconds * 1e3,
            "share": one.share * 100,
            "kilobytes": one.size_bytes / 1e3,
        }
        for one in operators
    ]


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draws everything anew when the run, the rank or the stretch of steps has changed; serves the timeline."""

    @app.callback(
        *(Output(*one) for one in _DRAWN),
        Input(Id.span, "value"),
        Input(Id.rank, "value"),
        Input(Id.version, "data"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(text: str | None, rank: str | None, _: str, scheme: str | None, reference: str) -> tuple[object, ...]:
        run, palette, span = reader.find(reference), palette_of(scheme), span_of(text)
        found, number = profile_of(reader, run, span), rank_of(run, rank)
        split = next(one for one in found.splits if one.rank == number)
        use = next(one for one in found.memory if one.rank == number)
        return (
            _told(text, rank, run),
            profile_cards(run, split, use),
            advice_list(found.advice, found.missing),
            _ranks(run, found, palette),
            timeline_link(run.id, text),
            *_split(step_course(reader, run, rank=number, span=span), palette, span),
            *_memory(found, use, palette),
            *_operators(found),
        )

    app.clientside_callback(
        ClientsideFunction("mindscope", "zoomed"),
        Output(Id.span, "value"),
        Input(Id.split, "relayoutData"),
        Input(Id.memory, "relayoutData"),
        State(Id.span, "value"),
        prevent_initial_call=True,
    )
    connect_beat(app, reader, tick=Id.tick, version=Id.version, run=Id.run)
    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)
    serve_timelines(app.server, reader)


def rank_of(run: Run, said: str | None) -> int:
    """The rank that is looked at: the one that was chosen, the lowest where none or an unknown one was."""
    chosen = int(said) if said and said.isdigit() else -1
    return chosen if chosen in run.ranks else min(run.ranks, default=0)


def _told(text: str | None, rank: str | None, run: Run) -> Component | None:
    """Words about a choice that cannot be followed."""
    if text and span_of(text) is None:
        return notice(f"{text[:40]!r} is no stretch of steps; write one as 120-480. All steps are shown.")
    if rank and rank_of(run, rank) != int(rank):
        return notice(f"This run has no rank {rank}; rank {rank_of(run, rank)} is shown.")
    return None


def _split(course: StepCourse, palette: Palette, span: Span | None) -> tuple[object, object, object]:
    if not len(course.steps):
        advice = "Turn on the subjects `step_seconds` and `time` in the monitor's configuration, or choose other steps."
        return dash.no_update, _HIDDEN, empty_state("No step was timed here", advice)
    columns = (course.steps.tolist(), course.ends.tolist(), course.parts, course.inside, course.longest)
    figure = split_figure(*columns, palette)
    figure.update_layout(xaxis={"range": list(span) if span else None})
    note = None
    if set(course.parts) == {"step"}:
        note = html.P("The split of steps was not recorded: the subject `time` is off.", className="muted")
    return figure, {"height": "340px"}, note


def _ranks(run: Run, found: Profile, palette: Palette) -> list[Component]:
    """Who is waited for, and what collectives cost; nothing for one rank alone."""
    shown: list[Component] = []
    if found.ranks:
        paces = sorted(
            (Pace(one.rank, one.step_s, one.wait_s) for one in found.ranks[:_PACES]), key=lambda one: one.rank
        )
        bars = graph(
            "profile-pace", "work and waiting of every rank", pace_height(len(paces)), pace_figure(paces, palette)
        )
        shown.append(panel("Stragglers", [bars, ranks_table(run, found.ranks)]))
    if found.collectives:
        shown.append(panel("Collectives", collectives_table(found)))
    return shown


def _memory(found: Profile, use: MemoryUse, palette: Palette) -> tuple[object, object, object]:
    parts = _parts(found, use, palette)
    if not use.steps:
        advice = "Turn on the subject `memory` in the monitor's configuration."
        return dash.no_update, _HIDDEN, [empty_state("No memory recorded here", advice), *parts]
    return memory_figure(use, palette), {"height": "260px"}, parts


def _parts(found: Profile, use: MemoryUse, palette: Palette) -> list[Component]:
    """What memory is made of where it is highest, and the course of it inside one step."""
    pictures = []
    if use.parts:
        label = "what takes memory at its peak; hatched where it follows from shapes"
        bars = graph("profile-parts", label, parts_height(len(use.parts)), parts_figure(use.parts, palette))
        pictures.append(html.Div([html.H3("At the peak of a step", className="part-title"), bars]))
    if found.profiled:
        looked = max(found.profiled, key=lambda one: one.peak_bytes)
        course = graph("profile-inside", "bytes allocated in the course of a step", 260, inside_figure(looked, palette))
        pictures.append(html.Div([html.H3(f"Inside step {looked.step:,}", className="part-title"), course]))
    return [html.Div(pictures, className="two even" if len(pictures) == 2 else "")] if pictures else []


def _operators(found: Profile) -> tuple[object, object, object]:
    if not found.operators:
        advice = "Look into the first steps with `subjects: {operator: {first: 3}}` in the configuration."
        return [], _HIDDEN, empty_state("No step was looked at from inside", advice)
    words = f"{count(len(found.operators), 'operator')} of {count(len(found.profiled), 'step')}"
    height = f"{min(420, 60 + 32 * len(found.operators))}px"
    return operator_rows(found.operators), {"height": height}, html.P(words, className="muted")


def _controls(run: Run, here: Address) -> list[Component]:
    steps = line_input(Id.span, "Steps, as 120-480", SPAN.of(here), 130, placeholder="all steps")
    ranks = [f"{rank}" for rank in run.ranks]
    rank = choose(Id.rank, "Rank", ranks, RANK.of(here) or None, 90, clearable=True, placeholder="rank")
    return [steps, rank]


def _grid() -> html.Div:
    grid = dash_ag_grid.AgGrid(
        id=Id.operators,
        columnDefs=_COLUMNS,
        rowData=[],
        defaultColDef={"sortable": True, "resizable": True, "cellDataType": False},
        dashGridOptions={"rowHeight": 32, "headerHeight": 34, "animateRows": False, "theme": GRID_THEME},
        className="runs-grid",
        style=_HIDDEN,
    )
    return html.Div([grid, html.Div(id=Id.operators_note)])


@page("profile", title="Profile", icon="profile", connect=connect, keys=(SPAN, RANK))
def layout(reader: Reader, address: Address) -> Component:
    """Where the time and the memory of one run go."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    trace = html.A("Chrome trace", id=Id.trace, href=timeline_link(run.id, SPAN.of(address)), className="button")
    split = graph(Id.split, "seconds of a step by phase over the steps; drag over it to choose a stretch", 340)
    memory = graph(Id.memory, "memory over the steps", 260)
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run), [trace]),
            html.Div(id=Id.note),
            html.Div(id=Id.cards, className="cards"),
            panel(
                "Where the time of a step goes",
                [dcc.Loading(split, delay_show=400), html.Div(id=Id.split_note)],
                _controls(run, address),
            ),
            panel("What to do", html.Div(id=Id.advice)),
            html.Div(id=Id.ranks),
            panel("Operators", _grid()),
            panel("Memory", [memory, html.Div(id=Id.memory_note)]),
            control_keys(Id.keys, _CONTROLS),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
            dcc.Store(id=Id.version, data=reader.version(run.id)),
        ]
    )
