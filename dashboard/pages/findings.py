"""Everything that is wrong with a run, grouped by root cause, earliest first."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ...insight import RULES, InsightError
from ...insight.account import account_of
from ...storage import Finding, InvalidName, Run, display_site
from ..address import Address, Key
from ..components import coded, empty_state, finding_card, notice, panel, run_header, run_picker, run_status
from ..components.finding_card import PlaceOf
from ..components.trial import hits_list, trial_panel
from ..controls import control_keys, follow_run, keep_address
from ..data import Reader, change_before, mute, muted, replay_condition, rules_run
from ..evidence import place_of_number
from ..headline import headline, headline_of
from ..ids import Findings as Id
from ..page import page
from ..roots import Root, roots_of
from ..security import may_change
from ..words import count, prose, sentence

_REFRESH_MS: Final = 2000
_FOLDED: Final = 30
TRIED = Key("try")
_CONTROLS: Final = ((Id.tried, "data", TRIED),)


def findings_list(reader: Reader, run: Run) -> list[Component]:
    """One box for every root cause, what follows from it folded under it, and at the end what was muted."""
    findings = reader.findings(run.id)
    place_of: PlaceOf = partial(place_of_number, reader, run)
    boxes = [
        _root_box(run.id, root, number, place_of, _beside(reader, run, root.finding))
        for number, root in enumerate(roots_of(findings, reader.structure(run.id)), start=1)
    ]
    hidden = muted(reader, run.id)
    shown = boxes or [html.Section(_nothing(run), className="panel")]
    return [*shown, _muted_box(hidden)] if hidden else list(shown)


def _nothing(run: Run) -> Component:
    if run.last_step < 0:
        return empty_state("Nothing recorded yet", "Findings appear here as soon as a rule sees something wrong.")
    now = headline(run, ())
    return empty_state(
        "Nothing wrong found",
        f"No rule has fired in {count(run.last_step + 1, 'step')}." if now.tone == "good" else run.error or "",
        "Rules can be run again over the stored history with `mindscope diagnose`.",
        icon="good",
    )


def _root_box(run: str, root: Root, number: int, place_of: PlaceOf, beside: Component) -> html.Section:
    card = partial(finding_card, run, place_of=place_of, may_mute=may_change())
    parts: list[Component] = [card(root.finding, beside=beside)]
    if root.same:
        parts.append(
            _fold(
                f"the same cause in {count(len(root.same), 'more place')}",
                [card(one) for one in root.same[:_FOLDED]],
                len(root.same),
            )
        )
    if root.follows:
        words = f"{count(len(root.follows), 'finding')} that may follow from it"
        parts.append(_fold(words, [card(one) for one in root.follows[:_FOLDED]], len(root.follows)))
    return panel(f"{number} · {sentence(root.finding.cause)}", parts)


def _fold(title: str, cards: list[html.Article], total: int) -> html.Details:
    rest = total - len(cards)
    words = f"and {count(rest, 'more')}; `mindscope diagnose` lists all"
    more = [html.P(coded(words), className="muted")] if rest > 0 else []
    return html.Details([html.Summary(title), *cards, *more], className="fold")


def _beside(reader: Reader, run: Run, finding: Finding) -> Component:
    """What changed in the model just before, what it may have followed from and does not, what nobody could tell."""
    change = change_before(reader, run, finding)
    account = account_of(finding, run.id, findings=reader.findings(run.id), rules_run=rules_run(reader, run))
    hidden = {RULES[rule].cause for rule, _ in muted(reader, run.id) if rule in RULES}  # found, and only not shown
    lines = [
        html.P([html.Strong("Modules changed. "), f"{change}."]) if change else None,
        _causes("Ruled out", [cause for cause in account.ruled_out if cause not in hidden]),
        _causes("Not checked, for what it takes was not recorded", account.not_checked),
    ]
    return html.Div([line for line in lines if line is not None], className="ruled-out")


def _causes(words: str, causes: Sequence[str]) -> html.P | None:
    if not causes:
        return None
    return html.P([html.Strong(f"{words}. "), ", ".join(sentence(cause) for cause in causes) + "."])


def _muted_box(hidden: tuple[tuple[str, str], ...]) -> html.Section:
    rows = [
        html.Div(
            [
                html.Span(f"{sentence(rule)} at ", className="muted"),
                html.Span(display_site(site), className="mono"),
                dmc.Button(
                    "Show again",
                    id={"type": Id.unmute, "rule": rule, "site": site},
                    size="compact-xs",
                    variant="default",
                    disabled=not may_change(),
                ),
            ],
            className="bar",
        )
        for rule, site in hidden
    ]
    return panel(f"Muted ({len(hidden)})", rows)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Keeps the list fresh, mutes, replays conditions, and follows the choice of a run."""
    _connect_list(app, reader)
    _connect_trial(app, reader)
    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)


def _connect_list(app: dash.Dash, reader: Reader) -> None:
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
        shown = _shown(reader, run)
        return (
            findings_list(reader, run) if shown != version[1] else no_update,
            run_status(run, time.time()),
            [now, shown],
        )

    @app.callback(
        Output(Id.list, "children", allow_duplicate=True),
        Output(Id.version, "data", allow_duplicate=True),
        Input({"type": Id.mute, "at": ALL, "rule": ALL, "site": ALL}, "n_clicks"),
        Input({"type": Id.unmute, "rule": ALL, "site": ALL}, "n_clicks"),
        State(Id.run, "value"),
        prevent_initial_call=True,
    )
    def hide(*said: Any) -> tuple[object, ...]:
        pressed = ctx.triggered_id
        if not pressed or not ctx.triggered[0]["value"]:
            raise PreventUpdate
        run = reader.find(said[-1])
        mute(reader, run.id, pressed["rule"], pressed["site"], muted=pressed["type"] == Id.mute)
        run = reader.find(run.id)
        return findings_list(reader, run), [reader.version(run.id), _shown(reader, run)]


def _shown(reader: Reader, run: Run) -> list[int]:
    """What the list depends on: how much was found and how much of it is muted."""
    return [len(reader.findings(run.id)), len(muted(reader, run.id))]


def _connect_trial(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.hits, "children"),
        Output(Id.tried, "data"),
        Input(Id.replay, "n_clicks"),
        Input(Id.condition, "n_submit"),
        State(Id.condition, "value"),
        State(Id.run, "value"),
    )
    def replay(_: int | None, __: int | None, condition: str | None, reference: str) -> tuple[object, str]:
        if not condition or not condition.strip():
            return None, ""
        run = reader.find(reference)
        try:
            return hits_list(run, replay_condition(reader, run, condition)), condition
        except (InvalidName, InsightError) as error:
            return notice(prose(str(error))), condition


def _example(reader: Reader, run: Run) -> str:
    """A condition that could be asked of this run: about what its first finding speaks of."""
    first = headline_of(reader, run).first
    if first is None or not first.metric:
        return "gradient/l2_norm @ * > 10 for 3 steps"
    if first.metric.startswith("scalar/"):
        return f"{first.metric} > 10"
    return f"{first.metric} @ {first.site or '*'} > 0"


@page("findings", title="Findings", icon="findings", connect=connect, keys=(TRIED,))
def layout(reader: Reader, address: Address) -> Component:
    """The findings of one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), id=Id.status, className="status")
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run)),
            html.Div(findings_list(reader, run), id=Id.list, className="stack above"),
            trial_panel(TRIED.of(address), _example(reader, run)),
            control_keys(Id.keys, _CONTROLS),
            dcc.Store(id=Id.tried, data=TRIED.of(address)),
            dcc.Store(id=Id.version, data=[reader.version(run.id), _shown(reader, run)]),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
