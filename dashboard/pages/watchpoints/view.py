"""What of the page follows the training: cards, conditions, hits, tensors and the other trainings."""

import time

import dash
from dash import Input, Output, State
from dash.exceptions import PreventUpdate

from ....insight import InsightError
from ....storage import Finding, InvalidName, Run
from ...components import notice, run_status
from ...components.watching import attached_table, conditions_table, halt_cards, hits_table, shown_table
from ...data import Reader
from ...data.watched import Halt, Standing, asked_for, attached, halt_of, hits_of, refusal, standings
from ...security import may_change
from ...words import prose
from .ids import FOLLOWING, Id


def following_parts(reader: Reader, run: Run) -> list[object]:
    """What follows the training, in the order of `FOLLOWING`."""
    halt, hits = halt_of(reader, run), hits_of(reader, run)
    return [
        *_conditions(reader, run, halt, hits),
        hits_table(run, hits),
        shown_table(halt.state.tensors),
        attached_table(attached(reader)),
    ]


def _conditions(reader: Reader, run: Run, halt: Halt, hits: tuple[Finding, ...]) -> tuple[object, object]:
    """Cards and conditions; where somebody has set what is no condition, the words that say so."""
    found: tuple[Standing, ...] = ()
    try:
        found = standings(reader, run)
        table = conditions_table(run, found, Id.remove, may_change=may_change() and run.state == "running")
    except (InvalidName, InsightError) as error:
        table = notice(f"What this run is to be watched for is not understood. {prose(str(error))}")
    refused = refusal(reader, run)
    words = [notice(f"The training has refused what was asked of it last. {prose(refused)}")] if refused else []
    return halt_cards(run, halt, found, hits), [*words, table]


def seen_now(reader: Reader, run: Run) -> list[object]:
    """What the page depends on besides the running trainings: it is laid out anew when this has changed."""
    halt = halt_of(reader, run)
    state = halt.state
    return [
        run.state,
        state.state,
        state.step if state.state == "paused" else run.last_step,
        state.obeyed,
        halt.is_pending,
        asked_for(reader, run),
        len(hits_of(reader, run)),
        [[one.id, other.state.state] for one, other in attached(reader)],
    ]


def connect_view(app: dash.Dash, reader: Reader) -> None:
    """Lays out anew what follows the training when it has gone on."""

    @app.callback(
        *(Output(name, "children") for name in FOLLOWING),
        Output(Id.status, "children"),
        Output(Id.seen, "data"),
        Input(Id.tick, "n_intervals"),
        State(Id.run, "value"),
        State(Id.seen, "data"),
        prevent_initial_call=True,
    )
    def follow(_: int, reference: str, seen: list[object]) -> tuple[object, ...]:
        run = reader.find(reference)
        now = seen_now(reader, run)
        if now == seen:
            raise PreventUpdate
        return *following_parts(reader, run), run_status(run, time.time()), now
