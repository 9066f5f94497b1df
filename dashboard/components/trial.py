"""A threshold of a person's own, tried on the stored history."""

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ...storage import Finding, Run, display_site
from ..address import Address
from ..data import Replay
from ..ids import Findings as Id
from ..words import count, number
from .panel import panel

#: Hits listed; the rest is counted.
_LISTED = 40


def trial_panel(condition: str, example: str) -> html.Section:
    """Where a condition is typed; its hits appear under it."""
    field = dmc.TextInput(
        id=Id.condition,
        value=condition,
        placeholder=example,
        size="xs",
        w=460,
        className="mono",
        **{"aria-label": "Condition, such as gradient/l2_norm @ decoder.* > 10 for 3 steps"},
    )
    button = dmc.Button("Replay", id=Id.replay, size="xs")
    words = html.P("Change the threshold and see when it would have been met in the stored history.", className="muted")
    body = [words, html.Div([field, button], className="bar"), dcc.Loading(html.Div(id=Id.hits), delay_show=300)]
    return panel("Try a threshold", body)


def hits_list(run: Run, replay: Replay) -> list[Component]:
    """Where and when the condition was met, earliest first."""
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
        place = Address("run", run.id, step=finding.first_step)
    else:
        place = Address("tensor", run.id, finding.metric, finding.site, finding.first_step)
    rank = f", rank {finding.rank}" if finding.rank else ""
    words = f" {finding.metric} {number(finding.evidence['value'])} at step {finding.first_step:,}{rank}"
    return html.Li([dcc.Link(display_site(finding.site), href=place.href, className="mono"), words])
