"""The findings of a run, grouped by root cause, earliest first, and a condition to try on its history."""

import time
from functools import partial
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ....insight import InsightError
from ....storage import Finding, InvalidName, Run, display_site
from ...address import PageAddress, QueryKey
from ...components.page_parts import coded, empty_state, notice, panel
from ...components.run_header import run_header, run_picker, run_status
from ...components.verdict_panel import account_list, verdict_panel
from ...formatting import count, number, prose, sentence
from ...headline import diagnosis_of, headline_of
from ...page_callbacks import control_keys, follow_run, keep_address
from ...page_registry import page
from ...queries.finding_queries import Replay, muted, replay_condition
from ...queries.reader import Reader
from ...queries.store_changes import mute
from ...security import may_change
from .finding_cards import EvidenceLink, FindingsIds, RootCauseGroup, evidence_address, finding_card, root_cause_groups

#: Hits listed; the rest is counted.
_LISTED = 40


def trial_panel(condition: str, example: str) -> html.Section:
    """Build the panel in which a condition is typed; its hits appear under it."""
    field = dmc.TextInput(
        id=FindingsIds.condition,
        value=condition,
        placeholder=example,
        size="xs",
        w=460,
        className="mono",
        **{"aria-label": "Condition, such as gradient/l2_norm @ decoder.* > 10 for 3 steps"},
    )
    button = dmc.Button("Replay", id=FindingsIds.replay, size="xs")
    words = html.P("Type a condition to see when the stored history would have met it.", className="muted")
    body = [
        words,
        html.Div([field, button], className="bar"),
        dcc.Loading(html.Div(id=FindingsIds.hits), delay_show=300),
    ]
    return panel("Try a threshold", body)


def hits_list(run: Run, replay: Replay) -> list[Component]:
    """List where and when the condition was met, earliest first."""
    looked = f"in {count(replay.records, 'record')}{'' if replay.is_whole else ', the newest of the run'}"
    if not replay.findings:
        return [html.P(f"Never met {looked}.", role="status")]
    rest = len(replay.findings) - _LISTED
    return [
        html.P(f"Met {count(len(replay.findings), 'time')} {looked}, first at step {replay.findings[0].first_step:,}."),
        html.Ul([_hit(run, finding) for finding in replay.findings[:_LISTED]], className="hits"),
        *([html.P(f"and {rest:,} more", className="muted")] if rest > 0 else []),
    ]


def _hit(run: Run, finding: Finding) -> html.Li:
    if finding.metric.startswith("scalar/"):
        address = PageAddress("run", run.id, step=finding.first_step)
    else:
        address = PageAddress("tensor", run.id, finding.metric, finding.site, finding.first_step)
    rank = f", rank {finding.rank}" if finding.rank else ""
    words = f" {finding.metric} {number(finding.evidence['value'])} at step {finding.first_step:,}{rank}"
    return html.Li([dcc.Link(display_site(finding.site), href=address.href, className="mono"), words])


_REFRESH_MS: Final = 2000
_FOLDED: Final = 30
TRIED = QueryKey("try")
_CONTROLS: Final = ((FindingsIds.tried, "data", TRIED),)


def findings_list(reader: Reader, run: Run) -> list[Component]:
    """Build a box for every root cause with its consequences folded under it, and at the end the muted findings."""
    found = diagnosis_of(reader, run)
    filled_address: EvidenceLink = partial(evidence_address, reader, run)
    boxes = [
        _root_box(run.id, root, number, filled_address, account_list(found, number - 1))
        for number, root in enumerate(root_cause_groups(found.findings, reader.structure(run.id)), start=1)
    ]
    hidden = muted(reader, run.id)
    shown = boxes or [html.Section(_nothing(reader, run), className="panel")]
    return [*shown, verdict_panel(found), *([_muted_box(hidden)] if hidden else [])]


def _nothing(reader: Reader, run: Run) -> Component:
    if run.last_step < 0 and run.state == "running":
        return empty_state("Nothing recorded yet", "Findings appear here as soon as a rule sees something wrong.")
    now = headline_of(reader, run)
    words = f"No rule has found anything wrong in {count(run.last_step + 1, 'step')}."
    advice = "Rules can be run again over the stored history with `mindscope diagnose`."
    if now.tone == "good":
        return empty_state(now.verdict, words, advice, icon="good")
    return empty_state(now.verdict, f"{words} That is not to say that all is well: see below.", advice)


def _root_box(
    run: str, root: RootCauseGroup, number: int, filled_address: EvidenceLink, beside: Component | None
) -> html.Section:
    card = partial(finding_card, run, filled_address=filled_address, may_mute=may_change())
    parts: list[Component] = [card(root.finding, beside=beside)]
    if root.same:
        parts.append(
            _fold(
                f"the same cause in {count(len(root.same), 'more place')}",
                [card(finding) for finding in root.same[:_FOLDED]],
                len(root.same),
            )
        )
    if root.follows:
        words = f"{count(len(root.follows), 'finding')} that may follow from it"
        parts.append(_fold(words, [card(finding) for finding in root.follows[:_FOLDED]], len(root.follows)))
    return panel(f"{number} · {sentence(root.finding.cause)}", parts)


def _fold(title: str, cards: list[html.Article], total: int) -> html.Details:
    rest = total - len(cards)
    words = f"and {count(rest, 'more')}; `mindscope diagnose` lists all"
    more = [html.P(coded(words), className="muted")] if rest > 0 else []
    return html.Details([html.Summary(title), *cards, *more], className="fold")


def _muted_box(hidden: tuple[tuple[str, str], ...]) -> html.Section:
    rows = [
        html.Div(
            [
                html.Span(f"{sentence(rule)} at ", className="muted"),
                html.Span(display_site(site), className="mono"),
                dmc.Button(
                    "Show again",
                    id={"type": FindingsIds.unmute, "rule": rule, "site": site},
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
    """Keep the list fresh, mute, replay conditions, and follow the choice of a run."""
    _connect_list(app, reader)
    _connect_trial(app, reader)
    keep_address(app, FindingsIds.keys, _CONTROLS)
    follow_run(app, FindingsIds.run)


def _connect_list(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(FindingsIds.list, "children"),
        Output(FindingsIds.status, "children"),
        Output(FindingsIds.version, "data"),
        Input(FindingsIds.tick, "n_intervals"),
        State(FindingsIds.run, "value"),
        State(FindingsIds.version, "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, reference: str, version: list[object]) -> tuple[object, ...]:
        now, run = reader.version(reference), reader.find(reference)
        shown = _shown(reader, run)
        if not version or ([now, shown] == version and run.state != "running"):
            raise PreventUpdate
        status = run_status(run, run.updated_at + reader.news_age(run))
        return findings_list(reader, run) if shown != version[1] else no_update, status, [now, shown]

    @app.callback(
        Output(FindingsIds.list, "children", allow_duplicate=True),
        Output(FindingsIds.version, "data", allow_duplicate=True),
        Input({"type": FindingsIds.mute, "at": ALL, "rule": ALL, "site": ALL}, "n_clicks"),
        Input({"type": FindingsIds.unmute, "rule": ALL, "site": ALL}, "n_clicks"),
        State(FindingsIds.run, "value"),
        prevent_initial_call=True,
    )
    def hide(*values: object) -> tuple[object, ...]:
        pressed = ctx.triggered_id
        if not pressed or not ctx.triggered[0]["value"]:
            raise PreventUpdate
        run = reader.find(str(values[-1]))
        mute(reader, run.id, pressed["rule"], pressed["site"], muted=pressed["type"] == FindingsIds.mute)
        run = reader.find(run.id)
        return findings_list(reader, run), [reader.version(run.id), _shown(reader, run)]


def _shown(reader: Reader, run: Run) -> list[object]:
    """Return what the list depends on: how many findings there are, how many are muted, and the run's state."""
    return [len(reader.findings(run.id)), len(muted(reader, run.id)), run.state]


def _connect_trial(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(FindingsIds.hits, "children"),
        Output(FindingsIds.tried, "data"),
        Input(FindingsIds.replay, "n_clicks"),
        Input(FindingsIds.condition, "n_submit"),
        State(FindingsIds.condition, "value"),
        State(FindingsIds.run, "value"),
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
    """Return an example condition for this run, about the metric of its first finding."""
    first = headline_of(reader, run).first
    if first is None or not first.metric:
        return "gradient/l2_norm @ * > 10 for 3 steps"
    if first.metric.startswith("scalar/"):
        return f"{first.metric} > 10"
    return f"{first.metric} @ {first.site or '*'} > 0"


@page("findings", title="Findings", icon="findings", connect=connect, keys=(TRIED,))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the findings of one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), id=FindingsIds.status, className="status")
    return html.Div(
        [
            run_header(run, status, run_picker(FindingsIds.run, reader.runs(), run)),
            html.Div(findings_list(reader, run), id=FindingsIds.list, className="stack above"),
            trial_panel(TRIED.of(address), _example(reader, run)),
            control_keys(FindingsIds.keys, _CONTROLS),
            dcc.Store(id=FindingsIds.tried, data=TRIED.of(address)),
            dcc.Store(id=FindingsIds.version, data=[reader.version(run.id), _shown(reader, run)]),
            dcc.Interval(id=FindingsIds.tick, interval=_REFRESH_MS),
        ]
    )
