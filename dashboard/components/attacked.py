"""What attacks did to a model: four cards, the verdict on hidden gradients in words, every attack at one budget."""

import math
from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from ...storage import Outcome
from ..data.evaluations import WORST_CASE, Evaluations, number_in, part_in
from ..words import count, number, prose
from .cards import card
from .rows import rows_table


def robust_cards(found: Evaluations, norm: str, epsilon: float) -> list[html.Div]:
    """Clean accuracy, what is left at the budget, what is certain there, and whether to believe it."""
    clean, worst = at_budget(found, norm, 0.0), at_budget(found, norm, epsilon)
    certain = certified(found, norm, epsilon)
    left = card("Clean", "–", "no evaluation without an attack")
    if clean is not None:
        left = card("Clean", f"{clean.accuracy:.1%}", f"of {count(clean.samples, 'sample')}")
    held = card(f"Left at ε {number(epsilon)}", "–", "nothing was attacked at this budget")
    if worst is not None:
        tone = "bad" if clean is not None and worst.accuracy < clean.accuracy / 2 else ""
        held = card(f"Left at ε {number(epsilon)}", f"{worst.accuracy:.1%}", _by(worst), tone)
    sure = card(f"Certain at ε {number(epsilon)}", "–", "no certificate reaches this budget")
    if certain is not None:
        sure = card(f"Certain at ε {number(epsilon)}", f"{certain.accuracy:.1%}", certain.attack)
    return [left, held, sure, _belief(found, norm)]


def at_budget(found: Evaluations, norm: str, epsilon: float) -> Outcome | None:
    """The worst case at a budget; where it was not summed up, the attack that left the least."""
    worst = [one for one in found.of(WORST_CASE, norm) if one.epsilon == epsilon]
    alone = [one for one in found.of("attack", norm) if one.epsilon == epsilon]
    return min(worst or alone, key=lambda one: one.accuracy, default=None)


def certified(found: Evaluations, norm: str, epsilon: float) -> Outcome | None:
    """The strongest certificate that holds at a budget: one of a larger budget holds at a smaller as well."""
    holding = [one for one in found.of("certificate", norm) if one.epsilon >= epsilon]
    return max(holding, key=lambda one: one.accuracy, default=None)


def _by(worst: Outcome) -> str:
    names = worst.details.get("attacks")
    if isinstance(names, list | tuple) and names:
        return f"worst of {count(len(names), 'attack')} for each sample"
    return f"by {worst.attack}, worst of those that ran"


def _judged(found: Evaluations, norm: str) -> Outcome | None:
    """The outcome that holds the verdict on hidden gradients: that of the largest budget which has one."""
    return next((one for one in reversed(found.of(WORST_CASE, norm)) if "masking" in one.details), None)


def _belief(found: Evaluations, norm: str) -> html.Div:
    judged = _judged(found, norm)
    if judged is None:
        return card("Verdict", "Not judged", "a complete evaluation says whether gradients are hidden", "quiet")
    doubts = _doubts(judged)
    if doubts:
        return card("Verdict", "Do not trust it", f"{count(len(doubts), 'sign')} that gradients are hidden", "bad")
    return card("Verdict", "Credible", "no sign that gradients are hidden", "good")


def _doubts(judged: Outcome) -> Sequence[Mapping[str, object]]:
    verdict = judged.details.get("verdict")
    said = [one for one in verdict if isinstance(one, Mapping)] if isinstance(verdict, list | tuple) else []
    names = judged.details.get("masking")
    return said or [{"name": name} for name in (names if isinstance(names, list | tuple) else ())]


def verdict(found: Evaluations, norm: str, epsilon: float) -> list[Component]:
    """Whether the robust accuracy can be believed, sentence by sentence."""
    judged = _judged(found, norm)
    if judged is None:
        words = "Nobody has looked for hidden gradients: let the whole suite run, it does so at its end."
        return [html.P(words, className="finding-text"), *_compared(found, norm, epsilon)]
    doubts = _doubts(judged)
    if not doubts:
        words = (
            "No sign that gradients are hidden: the attacks that use them are at least as strong as those that do not."
        )
        return [html.P(words, className="finding-text"), *_compared(found, norm, epsilon)]
    return [*(_doubt(one) for one in doubts), *_compared(found, norm, epsilon)]


def _doubt(one: Mapping[str, object]) -> html.Div:
    value = number_in(one, "value")
    head = [html.Span(str(one.get("name", "")), className="finding-title")]
    head += [] if math.isnan(value) else [html.Span(number(value), className="finding-since mono")]
    words = html.P(prose(str(one.get("explanation", "the store says no more"))), className="finding-text")
    return html.Div([html.Div(head, className="finding-head"), words], className="finding")


def _compared(found: Evaluations, norm: str, epsilon: float) -> list[Component]:
    """How far plain PGD alone would have flattered, and whether a certificate contradicts the attacks."""
    worst, sure = at_budget(found, norm, epsilon), certified(found, norm, epsilon)
    said = []
    if worst is not None and (gap := number_in(worst.details, "gap")) > 0:
        said.append(
            f"PGD of 40 steps alone would leave {worst.accuracy + gap:.1%} at epsilon {number(epsilon)}, "
            f"{gap * 100:.1f} points more than the worst case."
        )
    if worst is not None and sure is not None and sure.accuracy > worst.accuracy:
        said.append(
            f"{sure.attack} certifies {sure.accuracy:.1%} where the attacks leave {worst.accuracy:.1%}: "
            f"they were measured on other samples or another model."
        )
    return [html.P(words, className="finding-text") for words in said]


def attacks_table(found: Evaluations, norm: str, epsilon: float, chosen: str) -> Component:
    """Every attack at one budget, the strongest first."""
    here = [one for one in (*found.of(WORST_CASE, norm), *found.of("attack", norm)) if one.epsilon == epsilon]
    ordered = sorted(here, key=lambda one: (one.accuracy, one.attack != WORST_CASE, one.attack))
    head = ("Attack", "Accuracy", "Median distance", "Queries", "Gradient calls", "Samples")
    return rows_table(head, [_row(one, one.attack == chosen) for one in ordered], f"attacks at epsilon {epsilon:g}")


def _row(one: Outcome, is_chosen: bool) -> Sequence[str | Component]:
    distance = number(one.median_distance) if math.isfinite(one.median_distance) else "none found"
    spent = [_spent(number_in(one.details, name)) for name in ("queries", "gradient_calls")]
    name = html.Strong(one.attack) if is_chosen else one.attack
    return (name, f"{one.accuracy:.1%}", distance, *spent, f"{one.samples:,}")


def _spent(amount: float) -> str:
    return "–" if math.isnan(amount) else f"{amount:,.0f}"


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """What was measured of an attack beside its success, by the names of the radar."""
    metrics = part_in(outcome.details, "metrics")
    return {name: number_in(metrics, name) for name in metrics}


def sources_table(found: Evaluations) -> Component:
    """The runs that hold the outcomes, and what repeats each of them."""
    runs = {run.id: run for run, _ in found.pairs}
    rows = []
    for run in runs.values():
        mine = [one for source, one in found.pairs if source.id == run.id]
        seeds = sorted({number(seed) for one in mine if not math.isnan(seed := number_in(one.details, "seed"))})
        samples = max(one.samples for one in mine)
        rows.append((run.name or run.id, run.state, f"{len(mine):,}", f"{samples:,}", ", ".join(seeds) or "–"))
    return rows_table(("Evaluation", "State", "Outcomes", "Samples, at most", "Seeds"), rows, "evaluations", words=2)
