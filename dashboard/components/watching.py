"""The tables of the page of watchpoints: conditions, what met them, the tensors that were shown, running trainings."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ...storage import Finding, Run, display_site
from ..address import Address
from ..data.watched import Halt, Standing
from ..words import count, number, prose
from .badges import severity_badge
from .cards import card
from .empty_state import empty_state
from .listing import listing

#: Hits and tensors that are listed; the others are counted.
_LISTED: Final = 60
_VALUES: Final = 6

# What a training shows of a tensor, as JSON: unlike values under fixed keys.
Shown = Mapping[str, Any]


def halt_cards(run: Run, halt: Halt, standings: Sequence[Standing], hits: Sequence[Finding]) -> list[html.Div]:
    """The three things that a person asks first: does it stand, what is it watched for, and was that met."""
    return [_stands(run, halt), _watched(standings), _met(hits)]


def _stands(run: Run, halt: Halt) -> html.Div:
    if run.state != "running":
        return card("Training", run.state.capitalize(), f"after {count(run.last_step + 1, 'step')}")
    state = halt.state
    pending = "a command waits for the end of its step" if halt.is_pending else ""
    if state.state == "paused":
        return card("Training", f"Paused after step {state.step:,}", pending or prose(state.why), "watch")
    return card("Training", "Running", pending or f"step {run.last_step:,} is the last that was written", "good")


def _watched(standings: Sequence[Standing]) -> html.Div:
    waiting = sum(not one.is_in_force for one in standings)
    if not standings:
        note = "add a condition below"
    elif waiting:
        note = f"{waiting} not taken over by the training yet"
    else:
        halting = sum(one.watchpoint.pauses for one in standings)
        note = f"the training halts at {halting} of them" if halting else "the training halts at none of them"
    return card("Watchpoints", f"{len(standings)}", note)


def _met(hits: Sequence[Finding]) -> html.Div:
    if not hits:
        return card("Hits", "None", "no watchpoint has been met")
    first = hits[0]
    return card(
        "Hits", count(len(hits), "hit"), f"first at step {first.first_step:,}, {display_site(first.site)}", "watch"
    )


def conditions_table(run: Run, standings: Sequence[Standing], remove: str, *, may_change: bool) -> Component:
    """One row for every watchpoint; its condition leads to the history that it is tried on."""
    if not standings:
        return empty_state(
            "No watchpoint yet",
            "Write a condition above, as `gradient/l2_norm @ decoder.* > 10 for 3 steps` or `nan @ *`; "
            "a running training takes it over at its next step.",
        )
    rows = [
        (
            dcc.Link(
                one.watchpoint.condition.text,
                href=Address("findings", run.id).having(**{"try": one.watchpoint.condition.text}).href,
                className="mono",
                title="try it on the stored history",
            ),
            "" if one.watchpoint.name == one.watchpoint.condition.text else one.watchpoint.name,
            severity_badge(one.watchpoint.severity),
            "halts" if one.watchpoint.pauses else "notes",
            "in force" if one.is_in_force else "asked for",
            f"{len(one.hits):,}",
            f"{one.hits[0].first_step:,}" if one.hits else "–",
            _remove(one, remove, may_change=may_change),
        )
        for one in standings
    ]
    columns = ("Condition", "Name", "Severity", "The training", "State", "Hits", "First at step", "Remove")
    return listing("watchpoints", columns, rows, ("Hits", "First at step"))


def _remove(one: Standing, kind: str, *, may_change: bool) -> Component:
    name = one.watchpoint.name
    return dmc.Button(
        "Remove",
        id={"type": kind, "name": name},
        size="compact-xs",
        variant="default",
        disabled=not may_change,
        **{"aria-label": f"Remove the watchpoint {name}"},
    )


def hits_table(run: Run, hits: Sequence[Finding]) -> Component:
    """When and where conditions were met, earliest first."""
    if not hits:
        return empty_state(
            "Nothing met yet", "Every step that meets a condition stands here, with the way to its tensor."
        )
    rows = [
        (
            f"{hit.first_step:,}",
            dcc.Link(display_site(hit.site), href=_place(run, hit).href, className="mono"),
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


def _place(run: Run, hit: Finding) -> Address:
    page = "run" if hit.metric.startswith("scalar/") else "tensor"
    return Address(page, run.id, hit.metric, hit.site, hit.first_step)


def shown_table(tensors: Shown) -> Component | None:
    """The tensors that the training was asked to show; None when it was asked for none."""
    if not tensors:
        return None
    if "error" in tensors:
        return html.P(prose(str(tensors["error"])), role="status")
    known = {site: one for site, one in tensors.items() if isinstance(one, Mapping)}
    rows = [
        (
            html.Span(site, className="mono"),
            f"{one.get('dtype', '')} {tuple(one.get('shape', ()))}",
            *(_number(one, name) for name in _NUMBERS),
            html.Span(" ".join(number(float(value), 3) for value in one.get("values", ())[:_VALUES]), className="mono"),
        )
        for site, one in list(known.items())[:_LISTED]
    ]
    columns = ("Site", "Tensor", "Min", "Max", "Mean", "Std", "NaN", "Inf", "First values")
    return listing("tensors", columns, rows, columns[2:8])


_NUMBERS: Final = ("min", "max", "mean", "std", "nans", "infs")


def _number(one: Shown, name: str) -> str:
    value = one.get(name)
    return number(float(value)) if isinstance(value, int | float) else "–"


def attached_table(runs: Sequence[tuple[Run, Halt]]) -> Component:
    """Every training that is running, and where it stands."""
    if not runs:
        return empty_state("No training is running", "Start one with `ms.watch`, or type `mindscope demo`.")
    rows = [
        (
            dcc.Link(run.name or run.id, href=Address("watchpoints", run.id).href),
            halt.state.state,
            f"{max(run.last_step, halt.state.step):,}",
            prose(halt.state.why) if halt.state.why else "",
        )
        for run, halt in runs
    ]
    return listing("running trainings", ("Run", "State", "Last step", "Why it waits"), rows, ("Last step",))
