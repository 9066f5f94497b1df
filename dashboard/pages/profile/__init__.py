"""The profile of a run: where the time of steps and the memory go, who is waited for, and what to do about it."""

import time
from typing import Final

import dash
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ....storage import Run
from ...address import Address
from ...beat import connect_beat
from ...components import graph, panel, run_header, run_picker, run_status
from ...components.choices import choose, line_input
from ...components.profiling import advice_list, profile_cards
from ...controls import control_keys, follow_run, keep_address
from ...data import Reader
from ...data.timing import profile_of, step_course
from ...ids import Shell
from ...page import page
from ...spans import SPAN, span_of
from ...theme import palette_of
from ...timelines import serve_timelines, timeline_link
from .ids import CONTROLS, RANK, Id
from .memory import memory_of
from .operators import operators_grid, operators_of
from .steps import rank_of, ranks_of, split_of, unfollowed

#: A profile of a hundred thousand steps takes half a second; so often it costs a few percent of a core.
_REFRESH_MS: Final = 10_000
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
            unfollowed(text, rank, run),
            profile_cards(run, split, use),
            advice_list(found.advice, found.missing),
            ranks_of(run, found, palette),
            timeline_link(run.id, text),
            *split_of(step_course(reader, run, rank=number, span=span), palette, span),
            *memory_of(found, use, palette),
            *operators_of(found),
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
    keep_address(app, Id.keys, CONTROLS)
    follow_run(app, Id.run)
    serve_timelines(app.server, reader)


def _controls(run: Run, here: Address) -> list[Component]:
    steps = line_input(Id.span, "Steps, as 120-480", SPAN.of(here), 130, placeholder="all steps")
    ranks = [f"{rank}" for rank in run.ranks]
    rank = choose(Id.rank, "Rank", ranks, RANK.of(here) or None, 90, clearable=True, placeholder="rank")
    return [steps, rank]


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
            panel("Operators", operators_grid()),
            panel("Memory", [memory, html.Div(id=Id.memory_note)]),
            control_keys(Id.keys, CONTROLS),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
            dcc.Store(id=Id.version, data=reader.version(run.id)),
        ]
    )
