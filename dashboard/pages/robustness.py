"""How accurate the model stays while somebody attacks it."""

import time

import dash
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ...storage import Outcome, Run
from ..address import Address
from ..components import empty_state, graph, panel, run_header, run_picker, run_status
from ..data import Reader
from ..figures import attack_lines, robustness_figure
from ..ids import Robustness as Id
from ..ids import Shell
from ..page import page
from ..theme import Palette, palette_of
from ..words import count, number

_COLUMNS = ("Attack", "Norm", "Epsilon", "Accuracy", "Samples", "Median distance")


def evaluation_panel(run: Run, outcomes: tuple[Outcome, ...], palette: Palette) -> html.Section:
    """One evaluation: accuracy against epsilon, and the numbers under it."""
    lines = attack_lines(outcomes)
    picture = graph(
        f"robustness-{run.id}",
        "accuracy against epsilon, one line for every attack",
        380,
        robustness_figure(lines, palette),
    )
    samples = max(outcome.samples for outcome in outcomes)
    title = html.Span([run.name or run.id, html.Span(f"up to {count(samples, 'sample')}", className="muted")])
    return panel(title, [picture, _table(outcomes)])


def _table(outcomes: tuple[Outcome, ...]) -> html.Div:
    rows = [
        html.Tr(
            [
                html.Td(outcome.attack),
                html.Td(outcome.norm),
                html.Td(number(outcome.epsilon), className="figure"),
                html.Td(f"{outcome.accuracy:.1%}", className="figure"),
                html.Td(f"{outcome.samples:,}", className="figure"),
                html.Td(_distance(outcome), className="figure"),
            ]
        )
        for outcome in outcomes
    ]
    head = html.Tr([html.Th(name, className="figure" if index > 1 else "") for index, name in enumerate(_COLUMNS)])
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="table")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": "outcomes"})


def _distance(outcome: Outcome) -> str:
    return "none found" if outcome.median_distance != outcome.median_distance else number(outcome.median_distance)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draws the evaluations and follows the choice of a run."""

    @app.callback(Output(Id.body, "children"), Input(Id.run, "value"), State(Shell.scheme, "data"))
    def draw(reference: str, scheme: str | None) -> list[Component]:
        evaluations = reader.outcomes(reader.find(reference).id)
        palette = palette_of(scheme)
        if not evaluations:
            return [html.Section(_not_attacked(), className="panel")]
        return [evaluation_panel(run, outcomes, palette) for run, outcomes in evaluations]

    app.clientside_callback(
        ClientsideFunction("mindscope", "chooseRun"),
        Output(Shell.url, "search", allow_duplicate=True),
        Input(Id.run, "value"),
        State(Shell.shown, "data"),
        prevent_initial_call=True,
    )


def _not_attacked() -> html.Div:
    return empty_state(
        "Not attacked yet",
        "Measure how the model holds and the outcomes appear here:",
        html.Code("evaluate(wrap(model), x, y, epsilons=(0, 0.01, 0.03, 0.1), store=store, parent=run.id)"),
    )


@page("robustness", title="Robustness", icon="robustness", connect=connect)
def layout(reader: Reader, address: Address) -> Component:
    """The evaluations of one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run)),
            dcc.Loading(html.Div(id=Id.body, className="stack"), delay_show=300),
        ]
    )
