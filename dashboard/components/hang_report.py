"""The hang report of a run: who hangs, since when, waiting for what, and what every rank's main thread is in."""

import time
from typing import Final

import dash
from dash import Input, Output, html
from dash.development.base_component import Component

from ...insight.hangs.hang_report import HangReport, call_words, several
from ...storage import Run
from ..formatting import number
from ..queries.rank_cells import hang_now
from ..queries.reader import Reader
from .page_parts import panel

__all__ = ["connect_hang_report", "hang_section"]

_PLACE: Final = "ranks-hang"
_MOST_ROWS: Final = 64
#: Ranks from which on the table is folded, so that the picture of the job stays on the first screen.
_MANY: Final = 9
_TITLES: Final = {"hang": "Hang", "failed": "A collective failed", "slow": "Waiting, no hang"}


def hang_section(reader: Reader, run: Run) -> html.Div:
    """Build the place of the report; it is empty while no rank waits for another."""
    return html.Div(_shown(reader, run), id=_PLACE)


def connect_hang_report(app: dash.Dash, reader: Reader, *, run: str, tick: str) -> None:
    """Show the report anew at every tick: while a training hangs, its version does not change.

    Args:
        run: Id of the component that holds the run.
        tick: Id of the interval.
    """

    @app.callback(Output(_PLACE, "children"), Input(tick, "n_intervals"), Input(run, "value"))
    def show(_: int, reference: str) -> object:
        return _shown(reader, reader.find(reference))


def _shown(reader: Reader, run: Run) -> list[Component]:
    if len(run.ranks) < 2:
        return []
    report, _ = hang_now(reader, run)
    return [] if report.state == "none" else [hang_panel(report, time.time())]


def hang_panel(report: HangReport, now: float) -> html.Section:
    """Build the panel of a report.

    Args:
        now: In seconds since 1970.
    """
    since = time.strftime("%H:%M:%S", time.localtime(now - report.waited_s))
    who = f"{several(report.culprits)}: {report.kind.replace('_', ' ')}" if report.culprits else "no rank is named"
    title = html.Span(
        [
            f"{_TITLES.get(report.state, report.state)} · {who}",
            html.Span(f"step {report.step}, since {since}, for {number(report.waited_s)} s", className="muted"),
        ]
    )
    body: list[Component] = [html.P(report.words)]
    if report.advice:
        body.append(html.P(f"What to do: {report.advice}.", className="muted"))
    return panel(title, [*body, _table(report)])


def _table(report: HangReport) -> Component:
    """Build a row for each rank: whether it waits or is missing, in what, and its innermost lines."""
    waiting = {
        one.rank: f"waits in {call_words(one.operation, one.group)}, call {one.number}" for one in report.waiting
    }
    missing = {one.rank: one.words for one in report.missing}
    ranks = sorted({*waiting, *missing, *report.stacks})
    rows = [
        html.Tr(
            [
                html.Td(f"{rank}", className="figure"),
                html.Td(missing.get(rank) or waiting.get(rank) or "goes on"),
                html.Td(" < ".join(report.stacks.get(rank, ())) or "–"),
            ]
        )
        for rank in ranks[:_MOST_ROWS]
    ]
    names = ("What it does", "Main thread, innermost first")
    head = html.Tr([html.Th("Rank", className="figure"), *map(html.Th, names)])
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="table")
    framed = html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": "ranks of the hang"})
    return html.Details(
        [html.Summary(f"What each of {len(ranks)} ranks does"), framed], open=len(ranks) < _MANY, className="fold"
    )
