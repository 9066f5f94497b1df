"""The accuracy of a model under attack, whether to trust it, and other measurements."""

import time
from typing import Final

import dash
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component

from ....storage import Outcome
from ...address import PageAddress, QueryKey
from ...components.form_controls import choose, labelled, switch, with_chosen
from ...components.page_parts import empty_state, graph, panel
from ...components.run_header import run_header, run_picker, run_status
from ...components.shell import ShellIds
from ...figures.robustness_figure import AttackLine, attack_lines, robustness_figure
from ...formatting import number
from ...page_callbacks import control_keys, follow_run, keep_address
from ...page_registry import page
from ...queries.evaluations import WORST_CASE, Evaluations, evaluations, examples_of
from ...queries.reader import Reader
from ...theme import Palette, palette_of
from .attack_panels import (
    RadarSeries,
    attacks_table,
    gallery,
    metrics_of,
    radar_figure,
    robust_cards,
    sources_table,
    verdict,
)
from .measurement_panels import measured_panels


class RobustnessIds:
    """What attacks did to a run's model."""

    run: Final = "robustness-run"
    keys: Final = "robustness-keys"
    norm: Final = "robustness-norm"
    attack: Final = "robustness-attack"
    epsilon: Final = "robustness-epsilon"
    body: Final = "robustness-body"


_ALL: Final = "all attacks"
NORM, ATTACK = QueryKey("norm"), QueryKey("attack", _ALL)
EPSILON = QueryKey("epsilon", pattern=r"\d{1,9}(\.\d{1,12})?(e-?\d{1,3})?", example="0.03")
_CONTROLS: Final = (
    (RobustnessIds.norm, "value", NORM),
    (RobustnessIds.attack, "value", ATTACK),
    (RobustnessIds.epsilon, "value", EPSILON),
)
#: More attacks than this in one radar cannot be distinguished.
_MOST_SPOKES: Final = 6


def robustness_panels(
    found: Evaluations, palette: Palette, *, norm: str = "", attack: str = "", epsilon: str = ""
) -> list[Component]:
    """Build panels of everything measured; choices that are missing or match nothing get a default."""
    rest = [*measured_panels(found, palette), panel("Sources", sources_table(found))]
    norms = found.norms
    if not norms:
        return rest
    norm = norm if norm in norms else norms[0]
    budget = budget_of(found, norm, epsilon)
    chosen = attack if attack in {outcome.attack for outcome in found.of("attack", norm)} else ""
    return [
        html.Div(robust_cards(found, norm, budget), className="cards"),
        _accuracy(found, norm, budget, chosen, palette),
        panel("Can this be trusted?", verdict(found, norm, budget)),
        _attacks(found, norm, budget, chosen, palette),
        _examples(found, norm, budget, chosen),
        *rest,
    ]


def budget_of(found: Evaluations, norm: str, requested: str) -> float:
    """Return the requested budget if it was measured, else the smallest that has examples."""
    attacks = [outcome for outcome in (*found.of("attack", norm), *found.of(WORST_CASE, norm)) if outcome.epsilon > 0]
    budgets = sorted({outcome.epsilon for outcome in attacks or found.of("certificate", norm)})
    if requested and float(requested) in budgets:
        return float(requested)
    shown = [outcome.epsilon for outcome in attacks if examples_of(outcome)]
    return min(shown, default=budgets[-1] if budgets else 0.0)


def _lines(found: Evaluations, norm: str) -> list[AttackLine]:
    return [
        *attack_lines(found.of("certificate", norm), "certificate"),
        *attack_lines(found.of("attack", norm)),
        *attack_lines(found.of(WORST_CASE, norm), "worst-case"),
    ]


def _accuracy(found: Evaluations, norm: str, budget: float, chosen: str, palette: Palette) -> html.Section:
    drawn = robustness_figure(
        _lines(found, norm), palette, chosen=f"{chosen} ({norm})" if chosen else None, epsilon=budget
    )
    label = "accuracy against epsilon, one line for every attack, the certified bound below them"
    return panel(f"Accuracy against epsilon, {norm}", graph("robustness-lines", label, 380, drawn))


def _attacks(found: Evaluations, norm: str, budget: float, chosen: str, palette: Palette) -> html.Section:
    """Show every attack at the budget in numbers, and its other metrics as a radar."""
    table = attacks_table(found, norm, budget, chosen)
    here = [outcome for outcome in found.of("attack", norm) if outcome.epsilon == budget]
    spokes = [RadarSeries(outcome.attack, metrics_of(outcome)) for outcome in here if metrics_of(outcome)]
    spokes.sort(key=lambda spoke: (spoke.name != chosen, spoke.name))
    title = f"Attacks at epsilon {number(budget)}"
    if not spokes:
        return panel(title, table)
    label = "metrics of the attacks, each spoke from zero to the largest among them"
    radar = graph("robustness-radar", label, 320, radar_figure(spokes[:_MOST_SPOKES], palette))
    return panel(title, html.Div([table, radar], className="two"))


def _examples(found: Evaluations, norm: str, budget: float, chosen: str) -> html.Section:
    showing = [
        outcome for outcome in found.of("attack", norm) if examples_of(outcome) and chosen in ("", outcome.attack)
    ]
    here = next((outcome for outcome in showing if outcome.epsilon == budget), None)
    if here is not None:
        title = f"Examples by {here.attack} at epsilon {number(budget)}"
        return panel(title, gallery(examples_of(here)))
    return panel("Examples", _no_examples(showing, chosen))


def _no_examples(showing: list[Outcome], chosen: str) -> Component:
    if showing:
        near = ", ".join(f"{outcome.attack} at {number(outcome.epsilon)}" for outcome in showing[:6])
        return empty_state("No examples at this budget", f"Examples exist of {near}.")
    of = f" of {chosen}" if chosen else ""
    return empty_state(
        f"No examples{of} were stored",
        "An evaluation of images stores a few for each attack and budget.",
    )


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draw the evaluations and follow the choices."""

    @app.callback(
        Output(RobustnessIds.body, "children"),
        Input(RobustnessIds.norm, "value"),
        Input(RobustnessIds.attack, "value"),
        Input(RobustnessIds.epsilon, "value"),
        State(ShellIds.scheme, "data"),
        State(RobustnessIds.run, "value"),
    )
    def draw(
        norm: str | None, attack: str | None, epsilon: str | None, scheme: str | None, reference: str
    ) -> list[Component]:
        found = evaluations(reader, reader.find(reference).id)
        if not found.pairs:
            return [html.Section(_not_attacked(), className="panel")]
        chosen = "" if attack in (None, _ALL) else str(attack)
        return robustness_panels(found, palette_of(scheme), norm=norm or "", attack=chosen, epsilon=epsilon or "")

    keep_address(app, RobustnessIds.keys, _CONTROLS)
    follow_run(app, RobustnessIds.run)


def _not_attacked() -> html.Div:
    return empty_state(
        "Not attacked yet",
        "Attack the model and the outcomes appear here:",
        html.Code("evaluate(wrap(model), x, y, epsilons=(0, 0.01, 0.03, 0.1), store=store, parent=run.id)"),
        "or type `mindscope armour evaluate`.",
    )


def _controls(found: Evaluations, address: PageAddress) -> list[Component]:
    attacks = [*dict.fromkeys(outcome.attack for outcome in found.of("attack"))]
    measured = (*found.of("attack"), *found.of(WORST_CASE), *found.of("certificate"))
    budgets = [
        f"{epsilon:.12g}" for epsilon in sorted({outcome.epsilon for outcome in measured if outcome.epsilon > 0})
    ]
    norm, attack, epsilon = (key.of(address) for key in (NORM, ATTACK, EPSILON))
    norms = list(found.norms)
    return [
        labelled(
            "norm", switch(RobustnessIds.norm, "Norm", norms or [""], norm if norm in norms else (norms or [""])[0])
        ),
        choose(RobustnessIds.attack, "Attack", with_chosen([_ALL, *attacks], attack), attack, 200),
        choose(
            RobustnessIds.epsilon,
            "Epsilon",
            with_chosen(budgets, epsilon),
            epsilon or None,
            130,
            clearable=True,
            placeholder="epsilon",
        ),
    ]


@page("robustness", title="Robustness", icon="robustness", connect=connect, keys=(NORM, ATTACK, EPSILON))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the evaluations of one run."""
    run = reader.find(address.run)
    found = evaluations(reader, run.id)
    status = html.Div(run_status(run, time.time()), className="status")
    return html.Div(
        [
            run_header(run, status, run_picker(RobustnessIds.run, reader.runs(), run)),
            html.Div(_controls(found, address), className="bar", style={} if found.norms else {"display": "none"}),
            dcc.Loading(html.Div(id=RobustnessIds.body, className="stack"), delay_show=300),
            control_keys(RobustnessIds.keys, _CONTROLS),
        ]
    )
