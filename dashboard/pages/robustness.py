"""How a model holds while somebody attacks it, whether to believe that, and what else was measured of it."""

import time
from typing import Final

import dash
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component

from ...storage import Outcome
from ..address import Address, Key
from ..components import empty_state, graph, panel, run_header, run_picker, run_status
from ..components.attacked import attacks_table, metrics_of, robust_cards, sources_table, verdict
from ..components.choices import choose, labelled, switch, with_chosen
from ..components.gallery import gallery
from ..components.measured import measured_panels
from ..controls import control_keys, follow_run, keep_address
from ..data import Reader
from ..data.evaluations import WORST_CASE, Evaluations, evaluations
from ..data.examples import examples_of
from ..figures.radar import Spokes, radar_figure
from ..figures.robustness import AttackLine, attack_lines, robustness_figure
from ..ids import Robustness as Id
from ..ids import Shell
from ..page import page
from ..theme import Palette, palette_of
from ..words import number

_ALL: Final = "all attacks"
NORM, ATTACK = Key("norm"), Key("attack", _ALL)
EPSILON = Key("epsilon", pattern=r"\d{1,9}(\.\d{1,12})?(e-?\d{1,3})?", example="0.03")
_CONTROLS: Final = ((Id.norm, "value", NORM), (Id.attack, "value", ATTACK), (Id.epsilon, "value", EPSILON))
#: More attacks than this in one radar cannot be told apart.
_MOST_SPOKES: Final = 6


def robustness_panels(
    found: Evaluations, palette: Palette, *, norm: str = "", attack: str = "", epsilon: str = ""
) -> list[Component]:
    """Everything that was measured; what a choice does not say, or says of nothing measured, is chosen here."""
    rest = [*measured_panels(found, palette), panel("Where this comes from", sources_table(found))]
    norms = found.norms
    if not norms:
        return rest
    norm = norm if norm in norms else norms[0]
    budget = budget_of(found, norm, epsilon)
    chosen = attack if attack in {one.attack for one in found.of("attack", norm)} else ""
    return [
        html.Div(robust_cards(found, norm, budget), className="cards"),
        _accuracy(found, norm, budget, chosen, palette),
        panel("Can this be believed?", verdict(found, norm, budget)),
        _attacks(found, norm, budget, chosen, palette),
        _examples(found, norm, budget, chosen),
        *rest,
    ]


def budget_of(found: Evaluations, norm: str, said: str) -> float:
    """The budget that is looked at: what was said if it was measured, else the smallest that shows examples."""
    attacks = [one for one in (*found.of("attack", norm), *found.of(WORST_CASE, norm)) if one.epsilon > 0]
    budgets = sorted({one.epsilon for one in attacks or found.of("certificate", norm)})
    if said and float(said) in budgets:
        return float(said)
    shown = [one.epsilon for one in attacks if examples_of(one)]
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
    """Every attack at the budget in numbers, and what else was measured of it as a radar."""
    table = attacks_table(found, norm, budget, chosen)
    here = [one for one in found.of("attack", norm) if one.epsilon == budget]
    spokes = [Spokes(one.attack, metrics_of(one)) for one in here if metrics_of(one)]
    spokes.sort(key=lambda one: (one.name != chosen, one.name))
    title = f"Attacks at epsilon {number(budget)}"
    if not spokes:
        return panel(title, table)
    label = "metrics of the attacks, each spoke from zero to the largest among them"
    radar = graph("robustness-radar", label, 320, radar_figure(spokes[:_MOST_SPOKES], palette))
    return panel(title, html.Div([table, radar], className="two"))


def _examples(found: Evaluations, norm: str, budget: float, chosen: str) -> html.Section:
    showing = [one for one in found.of("attack", norm) if examples_of(one) and chosen in ("", one.attack)]
    here = next((one for one in showing if one.epsilon == budget), None)
    if here is not None:
        title = f"Examples by {here.attack} at epsilon {number(budget)}"
        return panel(title, gallery(examples_of(here)))
    return panel("Examples", _no_examples(showing, chosen))


def _no_examples(showing: list[Outcome], chosen: str) -> Component:
    if showing:
        near = ", ".join(f"{one.attack} at {number(one.epsilon)}" for one in showing[:6])
        return empty_state("None kept at this budget", f"There are some of {near}.")
    of = f" of {chosen}" if chosen else ""
    return empty_state(
        f"No examples{of} were kept",
        "An evaluation of pictures keeps a few of each attack and budget with the outcomes.",
    )


def connect(app: dash.Dash, reader: Reader) -> None:
    """Draws the evaluations and follows the choices."""

    @app.callback(
        Output(Id.body, "children"),
        Input(Id.norm, "value"),
        Input(Id.attack, "value"),
        Input(Id.epsilon, "value"),
        State(Shell.scheme, "data"),
        State(Id.run, "value"),
    )
    def draw(
        norm: str | None, attack: str | None, epsilon: str | None, scheme: str | None, reference: str
    ) -> list[Component]:
        found = evaluations(reader, reader.find(reference).id)
        if not found.pairs:
            return [html.Section(_not_attacked(), className="panel")]
        chosen = "" if attack in (None, _ALL) else str(attack)
        return robustness_panels(found, palette_of(scheme), norm=norm or "", attack=chosen, epsilon=epsilon or "")

    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)


def _not_attacked() -> html.Div:
    return empty_state(
        "Not attacked yet",
        "Measure how the model holds and the outcomes appear here:",
        html.Code("evaluate(wrap(model), x, y, epsilons=(0, 0.01, 0.03, 0.1), store=store, parent=run.id)"),
        "or type `mindscope armour evaluate`.",
    )


def _controls(found: Evaluations, address: Address) -> list[Component]:
    attacks = [*dict.fromkeys(one.attack for one in found.of("attack"))]
    measured = (*found.of("attack"), *found.of(WORST_CASE), *found.of("certificate"))
    budgets = [f"{epsilon:.12g}" for epsilon in sorted({one.epsilon for one in measured if one.epsilon > 0})]
    norm, attack, epsilon = (key.of(address) for key in (NORM, ATTACK, EPSILON))
    norms = list(found.norms)
    return [
        labelled("norm", switch(Id.norm, "Norm", norms or [""], norm if norm in norms else (norms or [""])[0])),
        choose(Id.attack, "Attack", with_chosen([_ALL, *attacks], attack), attack, 200),
        choose(
            Id.epsilon,
            "Epsilon",
            with_chosen(budgets, epsilon),
            epsilon or None,
            130,
            clearable=True,
            placeholder="epsilon",
        ),
    ]


@page("robustness", title="Robustness", icon="robustness", connect=connect, keys=(NORM, ATTACK, EPSILON))
def layout(reader: Reader, address: Address) -> Component:
    """The evaluations of one run."""
    run = reader.find(address.run)
    found = evaluations(reader, run.id)
    status = html.Div(run_status(run, time.time()), className="status")
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run)),
            html.Div(_controls(found, address), className="bar", style={} if found.norms else {"display": "none"}),
            dcc.Loading(html.Div(id=Id.body, className="stack"), delay_show=300),
            control_keys(Id.keys, _CONTROLS),
        ]
    )
