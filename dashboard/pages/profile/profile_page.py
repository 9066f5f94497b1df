"""The profile of a run: the time of steps, memory, waiting ranks, and advice."""

import time
from collections.abc import Sequence
from typing import Final

import dash
import dash_ag_grid
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ....insight.profile import MemoryUse, Operator, Profile
from ....storage import Run
from ...address import SPAN, PageAddress, QueryKey, Span, span_of
from ...components.form_controls import choose, line_input
from ...components.page_parts import empty_state, graph, notice, panel
from ...components.run_header import run_header, run_picker, run_status
from ...components.shell import ShellIds
from ...components.tables import GRID_THEME, GridRow
from ...downloads import serve_timelines, timeline_link
from ...figures.pace_figure import RankPace, pace_figure, pace_height
from ...formatting import count
from ...page_callbacks import connect_polling, control_keys, follow_run, keep_address
from ...page_registry import page
from ...queries.reader import Reader
from ...queries.timing_queries import StepTimeline, profile_of, step_timeline
from ...theme import Palette, palette_of
from .profile_figures import inside_figure, memory_figure, parts_figure, parts_height, split_figure
from .profile_tables import advice_list, collectives_table, profile_cards, ranks_table

RANK = QueryKey("rank", pattern=r"\d{1,9}", example="3")
HIDDEN: Final = {"display": "none"}


class ProfileIds:
    """Ids of the components of this page."""

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


CONTROLS: Final = ((ProfileIds.span, "value", SPAN), (ProfileIds.rank, "value", RANK))


#: Ranks whose bars are drawn, the slowest first.
_PACES: Final = 24


def chosen_rank(run: Run, chosen_text: str | None) -> int:
    """Return the chosen rank, the lowest one where none or an unknown one was chosen."""
    chosen = int(chosen_text) if chosen_text and chosen_text.isdigit() else -1
    return chosen if chosen in run.ranks else run.first_rank


def choice_error(text: str | None, rank: str | None, run: Run) -> Component | None:
    """Return an error message for an invalid rank or range of steps."""
    if text and span_of(text) is None:
        return notice(f"{text[:40]!r} is not a range of steps; write one as 120-480. All steps are shown.")
    if rank and chosen_rank(run, rank) != int(rank):
        return notice(f"This run has no rank {rank}; rank {chosen_rank(run, rank)} is shown.")
    return None


def split_parts(course: StepTimeline, palette: Palette, span: Span | None) -> tuple[object, object, object]:
    """Return figure, style and note of the time of steps by phase."""
    if not len(course.steps):
        advice = "Turn on the subjects `step_seconds` and `time` in the monitor's configuration, or choose other steps."
        return dash.no_update, HIDDEN, empty_state("No step was timed here", advice)
    columns = (course.steps.tolist(), course.ends.tolist(), course.parts, course.inside, course.longest)
    figure = split_figure(*columns, palette)
    figure.update_layout(xaxis={"range": list(span) if span else None})
    note = None
    if set(course.parts) == {"step"}:
        note = html.P("The split of steps was not recorded: the subject `time` is off.", className="muted")
    return figure, {"height": "340px"}, note


def ranks_panels(run: Run, found: Profile, palette: Palette) -> list[Component]:
    """Show which rank the others wait for, and what collectives cost; empty for a single rank."""
    shown: list[Component] = []
    if found.ranks:
        paces = sorted(
            (RankPace(rank_time.rank, rank_time.step_s, rank_time.wait_s) for rank_time in found.ranks[:_PACES]),
            key=lambda pace: pace.rank,
        )
        bars = graph(
            "profile-pace", "work and waiting of every rank", pace_height(len(paces)), pace_figure(paces, palette)
        )
        shown.append(panel("Stragglers", [bars, ranks_table(run, found.ranks)]))
    if found.collectives:
        shown.append(panel("Collectives", collectives_table(found)))
    return shown


def memory_parts(found: Profile, use: MemoryUse, palette: Palette) -> tuple[object, object, object]:
    """Return figure, style and the parts below of the memory over the steps."""
    parts = _made_of(found, use, palette)
    if not use.steps:
        advice = "Turn on the subject `memory` in the monitor's configuration."
        return dash.no_update, HIDDEN, [empty_state("No memory recorded here", advice), *parts]
    return memory_figure(use, palette), {"height": "260px"}, parts


def _made_of(found: Profile, use: MemoryUse, palette: Palette) -> list[Component]:
    """Draw what memory is made of at its peak, and its course inside one step."""
    figures = []
    if use.parts:
        label = "what takes memory at its peak; hatched where it follows from shapes"
        bars = graph("profile-parts", label, parts_height(len(use.parts)), parts_figure(use.parts, palette))
        figures.append(html.Div([html.H3("At the peak of a step", className="part-title"), bars]))
    if found.profiled:
        looked = max(found.profiled, key=lambda profiled: profiled.peak_bytes)
        course = graph("profile-inside", "bytes allocated in the course of a step", 260, inside_figure(looked, palette))
        figures.append(html.Div([html.H3(f"Inside step {looked.step:,}", className="part-title"), course]))
    return [html.Div(figures, className="two even" if len(figures) == 2 else "")] if figures else []


_MS: Final = {"function": "params.value === null ? '' : d3.format(',.3~f')(params.value)"}
_COLUMNS: Final[list[GridRow]] = [
    {"field": "name", "headerName": "Operator", "flex": 2, "minWidth": 180, "filter": True, "tooltipField": "name"},
    {"field": "phase", "headerName": "Phase", "width": 110, "filter": True},
    {"field": "calls", "headerName": "Calls a step", "width": 110, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "own", "headerName": "Own ms", "width": 110, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "whole", "headerName": "With callees ms", "width": 130, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "share", "headerName": "Share %", "width": 100, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "kilobytes", "headerName": "Allocated kB", "width": 130, "type": "rightAligned", "valueFormatter": _MS},
]


def operator_rows(operators: Sequence[Operator]) -> list[GridRow]:
    """Return the operators of a mean step, the longest first."""
    return [
        {
            "name": operator.name,
            "phase": operator.phase,
            "calls": operator.calls,
            "own": operator.self_s * 1e3,
            "whole": operator.seconds * 1e3,
            "share": operator.share * 100,
            "kilobytes": operator.size_bytes / 1e3,
        }
        for operator in operators
    ]


def operators_parts(found: Profile) -> tuple[object, object, object]:
    """Return rows, style and note of the table."""
    if not found.operators:
        advice = "Profile the first steps with `subjects: {operator: {first: 3}}` in the configuration."
        return [], HIDDEN, empty_state("No step was profiled", advice)
    words = f"{count(len(found.operators), 'operator')} of {count(len(found.profiled), 'step')}"
    height = f"{min(420, 60 + 32 * len(found.operators))}px"
    return operator_rows(found.operators), {"height": height}, html.P(words, className="muted")


def operators_grid() -> html.Div:
    """Build the table, hidden until it has rows."""
    grid = dash_ag_grid.AgGrid(
        id=ProfileIds.operators,
        columnDefs=_COLUMNS,
        rowData=[],
        defaultColDef={"sortable": True, "resizable": True, "cellDataType": False},
        dashGridOptions={"rowHeight": 32, "headerHeight": 34, "animateRows": False, "theme": GRID_THEME},
        className="runs-grid",
        style=HIDDEN,
    )
    return html.Div([grid, html.Div(id=ProfileIds.operators_note)])


#: A profile of a hundred thousand steps takes half a second; so often it costs a few percent of a core.
_REFRESH_MS: Final = 10_000
#: The outputs that are redrawn together: they share one profile.
_DRAWN: Final = (
    (ProfileIds.note, "children"),
    (ProfileIds.cards, "children"),
    (ProfileIds.advice, "children"),
    (ProfileIds.ranks, "children"),
    (ProfileIds.trace, "href"),
    (ProfileIds.split, "figure"),
    (ProfileIds.split, "style"),
    (ProfileIds.split_note, "children"),
    (ProfileIds.memory, "figure"),
    (ProfileIds.memory, "style"),
    (ProfileIds.memory_note, "children"),
    (ProfileIds.operators, "rowData"),
    (ProfileIds.operators, "style"),
    (ProfileIds.operators_note, "children"),
)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Redraw everything when the run, the rank or the range of steps has changed; serve the timeline."""

    @app.callback(
        *(Output(*drawn) for drawn in _DRAWN),
        Input(ProfileIds.span, "value"),
        Input(ProfileIds.rank, "value"),
        Input(ProfileIds.version, "data"),
        State(ShellIds.scheme, "data"),
        State(ProfileIds.run, "value"),
    )
    def draw(text: str | None, rank: str | None, _: str, scheme: str | None, reference: str) -> tuple[object, ...]:
        run, palette, span = reader.find(reference), palette_of(scheme), span_of(text)
        found, number = profile_of(reader, run, span), chosen_rank(run, rank)
        split = next(step_split for step_split in found.splits if step_split.rank == number)
        use = next(usage for usage in found.memory if usage.rank == number)
        return (
            choice_error(text, rank, run),
            profile_cards(run, split, use),
            advice_list(found.advice, found.missing),
            ranks_panels(run, found, palette),
            timeline_link(run.id, text),
            *split_parts(step_timeline(reader, run, rank=number, span=span), palette, span),
            *memory_parts(found, use, palette),
            *operators_parts(found),
        )

    app.clientside_callback(
        ClientsideFunction("mindscope", "zoomed"),
        Output(ProfileIds.span, "value"),
        Input(ProfileIds.split, "relayoutData"),
        Input(ProfileIds.memory, "relayoutData"),
        State(ProfileIds.span, "value"),
        prevent_initial_call=True,
    )
    connect_polling(app, reader, tick=ProfileIds.tick, version=ProfileIds.version, run=ProfileIds.run)
    keep_address(app, ProfileIds.keys, CONTROLS)
    follow_run(app, ProfileIds.run)
    serve_timelines(app.server, reader)


def _controls(run: Run, here: PageAddress) -> list[Component]:
    steps = line_input(ProfileIds.span, "Steps, as 120-480", SPAN.of(here), 130, placeholder="all steps")
    ranks = [f"{rank}" for rank in run.ranks]
    rank = choose(ProfileIds.rank, "Rank", ranks, RANK.of(here) or None, 90, clearable=True, placeholder="rank")
    return [steps, rank]


@page("profile", title="Profile", icon="profile", connect=connect, keys=(SPAN, RANK))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out where the time and the memory of one run go."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    trace = html.A(
        "Chrome trace", id=ProfileIds.trace, href=timeline_link(run.id, SPAN.of(address)), className="button"
    )
    split = graph(ProfileIds.split, "seconds of a step by phase over the steps; drag to choose a range", 340)
    memory = graph(ProfileIds.memory, "memory over the steps", 260)
    return html.Div(
        [
            run_header(run, status, run_picker(ProfileIds.run, reader.runs(), run), [trace]),
            html.Div(id=ProfileIds.note),
            html.Div(id=ProfileIds.cards, className="cards"),
            panel(
                "Where the time of a step goes",
                [dcc.Loading(split, delay_show=400), html.Div(id=ProfileIds.split_note)],
                _controls(run, address),
            ),
            panel("What to do", html.Div(id=ProfileIds.advice)),
            html.Div(id=ProfileIds.ranks),
            panel("Operators", operators_grid()),
            panel("Memory", [memory, html.Div(id=ProfileIds.memory_note)]),
            control_keys(ProfileIds.keys, CONTROLS),
            dcc.Interval(id=ProfileIds.tick, interval=_REFRESH_MS),
            dcc.Store(id=ProfileIds.version, data=reader.version(run.id)),
        ]
    )
