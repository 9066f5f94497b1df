"""Everything that is wrong with a run, grouped by root cause, earliest first."""

import time
from typing import Final

import dash
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ...storage import Finding, Run
from ..address import Address
from ..components import coded, empty_state, finding_card, panel, run_header, run_picker, run_status
from ..data import Reader
from ..headline import headline
from ..ids import Findings as Id
from ..ids import Shell
from ..page import page
from ..roots import Root, roots_of
from ..words import count, sentence

_REFRESH_MS: Final = 2000
_FOLDED: Final = 30


def findings_list(reader: Reader, run: Run) -> list[Component]:
    """One box for every root cause, what follows from it folded under it."""
    roots = roots_of(reader.findings(run.id))
    if roots:
        return [_root_box(run.id, root, number) for number, root in enumerate(roots, start=1)]
    if run.last_step < 0:
        note = empty_state("Nothing recorded yet", "Findings appear here as soon as a rule sees something wrong.")
    else:
        now = headline(run, ())
        note = empty_state(
            "Nothing wrong found",
            f"No rule has fired in {count(run.last_step + 1, 'step')}." if now.tone == "good" else run.error or "",
            "Rules can be run again over the stored history with `mindscope diagnose`.",
            icon="good",
        )
    return [html.Section(note, className="panel")]


def _root_box(run: str, root: Root, number: int) -> html.Section:
    parts: list[Component] = [finding_card(run, root.finding, is_root=True)]
    if root.same:
        parts.append(_fold(f"the same cause in {count(len(root.same), 'more place')}", run, root.same))
    if root.follows:
        parts.append(_fold(f"{count(len(root.follows), 'finding')} that may follow from it", run, root.follows))
    title = f"{number} · {sentence(root.finding.cause)}"
    return panel(title, parts)


def _fold(title: str, run: str, findings: tuple[Finding, ...]) -> html.Details:
    cards = [finding_card(run, finding) for finding in findings[:_FOLDED]]
    rest = len(findings) - len(cards)
    words = f"and {count(rest, 'more')}; `mindscope diagnose` lists all"
    more = [html.P(coded(words), className="muted")] if rest > 0 else []
    return html.Details([html.Summary(title), *cards, *more], className="fold")


def connect(app: dash.Dash, reader: Reader) -> None:
    """Keeps the list fresh and follows the choice of a run."""

    @app.callback(
        Output(Id.list, "children"),
        Output(Id.status, "children"),
        Output(Id.version, "data"),
        Input(Id.tick, "n_intervals"),
        State(Id.run, "value"),
        State(Id.version, "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, reference: str, version: list[object]) -> tuple[object, ...]:
        now = reader.version(reference)
        if not version or now == version[0]:
            raise PreventUpdate
        run = reader.find(reference)
        amount = len(reader.findings(run.id))
        has_changed = amount != version[1]
        shown = findings_list(reader, run) if has_changed else no_update
        return shown, run_status(run, time.time()), [now, amount]

    app.clientside_callback(
        ClientsideFunction("mindscope", "chooseRun"),
        Output(Shell.url, "search", allow_duplicate=True),
        Input(Id.run, "value"),
        State(Shell.shown, "data"),
        prevent_initial_call=True,
    )


@page("findings", title="Findings", icon="findings", connect=connect)
def layout(reader: Reader, address: Address) -> Component:
    """The findings of one run."""
    run = reader.find(address.run)
    seen = [reader.version(run.id), len(reader.findings(run.id))]
    status = html.Div(run_status(run, time.time()), id=Id.status, className="status")
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run)),
            html.Div(findings_list(reader, run), id=Id.list, className="stack"),
            dcc.Store(id=Id.version, data=seen),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
