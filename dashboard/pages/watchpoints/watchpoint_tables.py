"""The tables of the watchpoints page: conditions, their hits, the tensors shown, and running trainings."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ....storage import Finding, Run, display_site
from ...address import PageAddress
from ...components.page_parts import card, empty_state, severity_badge
from ...components.tables import listing
from ...formatting import count, number, prose
from ...queries.watchpoint_queries import TrainingStatus, WatchpointStatus

#: Hits and tensors that are listed; the others are counted.
_LISTED: Final = 60
_VALUES: Final = 6

# What a training shows of a tensor, as JSON: unlike values under fixed keys.
ShownTensors = Mapping[str, Any]


def status_cards(
    run: Run, halt: TrainingStatus, watchpoint_statuses: Sequence[WatchpointStatus], hits: Sequence[Finding]
) -> list[html.Div]:
    """Build three cards: the training's state, its watchpoints, and their hits."""
    return [_stands(run, halt), _watched(watchpoint_statuses), _met(hits)]


def _stands(run: Run, halt: TrainingStatus) -> html.Div:
    if run.state != "running":
        return card("Training", run.state_words.capitalize(), f"after {count(run.last_step + 1, 'step')}")
    state = halt.state
    pending = "a command waits for the end of the step" if halt.is_pending else ""
    if state.state == "paused":
        return card("Training", f"Paused after step {state.step:,}", pending or prose(state.why), "watch")
    return card("Training", "Running", pending or f"step {run.last_step:,} is the last recorded", "good")


def _watched(watchpoint_statuses: Sequence[WatchpointStatus]) -> html.Div:
    waiting = sum(not status.is_in_force for status in watchpoint_statuses)
    if not watchpoint_statuses:
        note = "add a condition below"
    elif waiting:
        note = f"{waiting} not yet applied by the training"
    else:
        halting = sum(status.watchpoint.pauses for status in watchpoint_statuses)
        note = f"the training pauses at {halting} of them" if halting else "the training pauses at none of them"
    return card("Watchpoints", f"{len(watchpoint_statuses)}", note)


def _met(hits: Sequence[Finding]) -> html.Div:
    if not hits:
        return card("Hits", "None", "no watchpoint has been met")
    first = hits[0]
    return card(
        "Hits", count(len(hits), "hit"), f"first at step {first.first_step:,}, {display_site(first.site)}", "watch"
    )


def conditions_table(
    run: Run, watchpoint_statuses: Sequence[WatchpointStatus], remove: str, *, may_change: bool
) -> Component:
    """List every watchpoint; its condition links to a replay over the history."""
    if not watchpoint_statuses:
        return empty_state(
            "No watchpoint yet",
            "Write a condition above, as `gradient/l2_norm @ decoder.* > 10 for 3 steps` or `nan @ *`; "
            "a running training applies it at its next step.",
        )
    rows = [
        (
            dcc.Link(
                status.watchpoint.condition.text,
                href=PageAddress("findings", run.id).having(**{"try": status.watchpoint.condition.text}).href,
                className="mono",
                title="replay it on the stored history",
            ),
            "" if status.watchpoint.name == status.watchpoint.condition.text else status.watchpoint.name,
            severity_badge(status.watchpoint.severity),
            "pauses" if status.watchpoint.pauses else "records",
            "in force" if status.is_in_force else "requested",
            f"{len(status.hits):,}",
            f"{status.hits[0].first_step:,}" if status.hits else "–",
            _remove(status, remove, may_change=may_change),
        )
        for status in watchpoint_statuses
    ]
    columns = ("Condition", "Name", "Severity", "The training", "State", "Hits", "First at step", "Remove")
    return listing("watchpoints", columns, rows, ("Hits", "First at step"))


def _remove(status: WatchpointStatus, kind: str, *, may_change: bool) -> Component:
    name = status.watchpoint.name
    return dmc.Button(
        "Remove",
        id={"type": kind, "name": name},
        size="compact-xs",
        variant="default",
        disabled=not may_change,
        **{"aria-label": f"Remove the watchpoint {name}"},
    )


def hits_table(run: Run, hits: Sequence[Finding]) -> Component:
    """List when and where conditions were met, earliest first."""
    if not hits:
        return empty_state("No hits yet", "Every step that meets a condition is listed here with a link to its tensor.")
    rows = [
        (
            f"{hit.first_step:,}",
            dcc.Link(display_site(hit.site), href=_tensor_address(run, hit).href, className="mono"),
            html.Span(hit.metric, className="mono"),
            number(hit.evidence.get("value", float("nan"))),
            f"{hit.rank}",
            hit.rule.partition("/")[2],
        )
        for hit in hits[:_LISTED]
    ]
    table = listing("hits", ("Step", "Site", "Metric", "Value", "Rank", "Watchpoint"), rows, ("Step", "Value", "Rank"))
    rest = len(hits) - _LISTED
    return html.Div([table, html.P(f"and {rest:,} more", className="muted")]) if rest > 0 else table


def _tensor_address(run: Run, hit: Finding) -> PageAddress:
    page = "run" if hit.metric.startswith("scalar/") else "tensor"
    return PageAddress(page, run.id, hit.metric, hit.site, hit.first_step)


def shown_table(tensors: ShownTensors) -> Component | None:
    """List the tensors that the training was asked to show; None when it was asked for none."""
    if not tensors:
        return None
    if "error" in tensors:
        return html.P(prose(str(tensors["error"])), role="status")
    known = {site: tensor for site, tensor in tensors.items() if isinstance(tensor, Mapping)}
    rows = [
        (
            html.Span(site, className="mono"),
            f"{tensor.get('dtype', '')} {tuple(tensor.get('shape', ()))}",
            *(_number(tensor, name) for name in _NUMBERS),
            html.Span(
                " ".join(number(float(value), 3) for value in tensor.get("values", ())[:_VALUES]), className="mono"
            ),
        )
        for site, tensor in list(known.items())[:_LISTED]
    ]
    columns = ("Site", "Tensor", "Min", "Max", "Mean", "Std", "NaN", "Inf", "First values")
    return listing("tensors", columns, rows, columns[2:8])


_NUMBERS: Final = ("min", "max", "mean", "std", "nans", "infs")


def _number(tensor: ShownTensors, name: str) -> str:
    value = tensor.get(name)
    return number(float(value)) if isinstance(value, int | float) else "–"


def trainings_table(runs: Sequence[tuple[Run, TrainingStatus]]) -> Component:
    """List every running training and its state."""
    if not runs:
        return empty_state("No training is running", "Start one with `ms.watch`, or type `mindscope demo`.")
    rows = [
        (
            dcc.Link(run.name or run.id, href=PageAddress("watchpoints", run.id).href),
            halt.state.state,
            f"{max(run.last_step, halt.state.step):,}",
            prose(halt.state.why) if halt.state.why else "",
        )
        for run, halt in runs
    ]
    return listing("running trainings", ("Run", "State", "Last step", "Why it waits"), rows, ("Last step",))
