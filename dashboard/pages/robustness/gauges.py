"""Single numbers measured of a model, each on its scale, with its unit and which way is good, as one table."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dash import html
from dash.development.base_component import Component

from ....storage import Outcome
from ...formatting import count, number, sentence
from ...queries.evaluations import number_in, texts_in

#: Ends of a scale for shares, so that small ones can be distinguished and equal ones lie under each other.
_SHARES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class GaugeScale:
    """The scale of one kind of numbers; unknown ends are NaN.

    Args:
        unit: The unit after a value; a share has none and is written in percent.
        is_signed: Whether a value is written with its sign.
    """

    low: float = math.nan
    high: float = math.nan
    unit: str = ""
    is_share: bool = False
    is_signed: bool = False

    def words(self, value: float) -> str:
        """Format the value."""
        if math.isnan(value):
            return "–"
        if self.is_share:
            return f"{100 * value:+.4g}%" if self.is_signed else f"{100 * value:.4g}%"
        return f"{number(value)} {self.unit}".strip()

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends as text, with signs if the scale goes below 0."""
        shown = replace(self, is_signed=self.low < 0, unit="")
        return shown.words(self.low), shown.words(self.high)

    def position(self, value: float) -> float | None:
        """Return the position of the value, 0 at the low end and 1 at the high end; None if it cannot be drawn."""
        at = (value - self.low) / (self.high - self.low) if self.high > self.low else math.nan
        return min(max(at, 0.0), 1.0) if math.isfinite(at) else None


def around_zero(end: float) -> GaugeScale:
    """Return the scale of a share that may be positive or negative."""
    return GaugeScale(-end, end, is_share=True, is_signed=True)


def round_end(value: float) -> float:
    """Return the nearest round end of a scale that holds the share."""
    return next((end for end in _SHARES if abs(value) <= end), 1.0 if math.isnan(value) else math.ceil(abs(value)))


#: Differences: what may fall below 0.
_SIGNED: Final = frozenset({"accuracy_variance", "query_count_variance", "success_variance"})
#: What is measured against attacks of a budget; the name of a detector may follow.
_ATTACKED: Final = ("query defence", "detector")


@dataclass(frozen=True, slots=True)
class Gauge:
    """One number.

    Args:
        good: Which values are good, and what the number means.
        beside: Other measurements of the same samples, by name.
    """

    name: str
    value: float
    scale: GaugeScale
    good: str
    beside: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GaugeGroup:
    """The numbers of one measurement, and its sample size."""

    title: str
    gauges: tuple[Gauge, ...]


def gauge_groups(outcomes: Sequence[Outcome]) -> list[GaugeGroup]:
    """Return the numbers of outcomes of the kind `metric`; those of unknown names show all their numbers, last."""
    known = list(_MAKERS)
    ordered = sorted(
        outcomes, key=lambda outcome: known.index(_family(outcome)) if _family(outcome) in known else len(known)
    )
    return [GaugeGroup(_gauge_title(outcome), _MAKERS.get(_family(outcome), _plain)(outcome)) for outcome in ordered]


def _family(outcome: Outcome) -> str:
    return next((family for family in _ATTACKED if outcome.attack.startswith(f"{family} ")), outcome.attack)


def _gauge_title(outcome: Outcome) -> str:
    name = outcome.attack.upper() if outcome.attack == "clever" else sentence(outcome.attack)
    where = f" in {outcome.norm}" if outcome.norm else ""
    budget = f", against attacks of epsilon {number(outcome.epsilon)}" if _family(outcome) in _ATTACKED else ""
    return f"{name}{where}, {count(outcome.samples, 'sample')}{budget}"


def _clever(outcome: Outcome) -> tuple[Gauge, ...]:
    beside = {name: number_in(outcome.details, name) for name in ("least", "mean")}
    cut = number(outcome.epsilon)
    good = (
        f"High: about how far the nearest input of another class is, in the median. The search ends at {cut}; there, "
        f"none was seen nearer. An estimate, no certificate.{_doubts(outcome)}"
    )
    scale = GaugeScale(0.0, outcome.epsilon)
    return (Gauge("Distance to another class", outcome.median_distance, scale, good, beside),)


def _empirical(outcome: Outcome) -> tuple[Gauge, ...]:
    by = str(outcome.details.get("attack", "the attack"))
    good = (
        f"High: the smallest change by which {by} fools the model, as a share of the input's length.{_doubts(outcome)}"
    )
    value = number_in(outcome.details, "value")
    return (Gauge("Smallest change that fools", value, GaugeScale(0.0, round_end(value), is_share=True), good),)


def _doubts(outcome: Outcome) -> str:
    names = texts_in(outcome.details, "masking")
    return f" Do not trust it: {', '.join(names)}." if names else ""


def _defence(outcome: Outcome) -> tuple[Gauge, ...]:
    stable = "Low: how far its outputs are from those without it where both are right; log 2 is as far as they can be."
    divergence = number_in(outcome.details, "output_stability")
    return (
        *_shares(
            outcome,
            ("Accuracy gained, CAV", "accuracy_variance", "Above 0: accuracy with the defence minus that without it."),
            ("Mended, CRR", "rectify_ratio", "High: answers that the defence makes right."),
            ("Spoiled, CSR", "sacrifice_ratio", "Low: answers that it makes wrong."),
            ("Confidence moved, CCV", "confidence_variance", "Low: its change where both are right."),
        ),
        Gauge("Outputs moved, COS", divergence, GaugeScale(0.0, math.log(2), "nats"), stable),
    )


def _queries(outcome: Outcome) -> tuple[Gauge, ...]:
    slower = number_in(outcome.details, "response_time_variance")
    end = round_end(slower)
    return (
        *_shares(
            outcome,
            ("Queries added, QCV", "query_count_variance", "High: more that the attack needs, of those allowed."),
            ("Success lost, ASV", "success_variance", "High: the fall of the share of attacks that succeed."),
            ("False alarms, FPR", "false_positive_rate", "Low: benign inputs that are taken for an attack."),
        ),
        Gauge("Slower, QRV", slower, around_zero(end), "Low: by how much longer a benign answer takes."),
    )


def _detector(outcome: Outcome) -> tuple[Gauge, ...]:
    auc = "High: how often an attacked input looks more suspicious than a clean one; 0.5 is guessing, below is worse."
    allowed_rate = GaugeScale(is_share=True).words(number_in(outcome.details, "allowed_false_positive_rate"))
    return (
        *_shares(
            outcome,
            ("Detected", "detection_rate", "High: adversarial inputs that set the alarm off."),
            (
                "False alarms, FPR",
                "false_positive_rate",
                f"Low: clean inputs that do; set for {allowed_rate} of others.",
            ),
        ),
        Gauge("Separation, AUC", number_in(outcome.details, "auc"), GaugeScale(0.0, 1.0), auc),
    )


def _plain(outcome: Outcome) -> tuple[Gauge, ...]:
    values = {name: number_in(outcome.details, name) for name in outcome.details}
    return tuple(
        Gauge(sentence(name), value, GaugeScale(), "") for name, value in values.items() if not math.isnan(value)
    )


def _shares(outcome: Outcome, *rows: tuple[str, str, str]) -> tuple[Gauge, ...]:
    """Put the shares of one measurement on one scale, which goes below 0 where one of them may."""
    values = {key: number_in(outcome.details, key) for _, key, _ in rows}
    end = max(map(round_end, values.values()))
    scale = around_zero(end) if any(key in _SIGNED for key in values) else GaugeScale(0.0, end, is_share=True)
    return tuple(Gauge(name, values[key], replace(scale, is_signed=key in _SIGNED), good) for name, key, good in rows)


_MAKERS: Final[dict[str, Callable[[Outcome], tuple[Gauge, ...]]]] = {
    "clever": _clever,
    "empirical robustness": _empirical,
    "defence quality": _defence,
    "query defence": _queries,
    "detector": _detector,
}


_HEAD = (("Measured", ""), ("Value", "figure"), ("On its scale", ""), ("Good is", ""))


def gauges_table(found: Sequence[GaugeGroup]) -> html.Div:
    """Build the table of numbers, each measurement under its title."""
    head = html.Tr([html.Th(name, className=kind, scope="col") for name, kind in _HEAD])
    groups = [html.Tbody([_title_row(group.title), *map(_row, group.gauges)]) for group in found]
    table = html.Table([html.Thead(head), *groups], className="table gauges")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": "single numbers"})


def _title_row(words: str) -> html.Tr:
    return html.Tr(html.Th(words, colSpan=len(_HEAD), scope="rowgroup", className="gauges-title"))


def _row(gauge: Gauge) -> html.Tr:
    value: list[str | Component] = [html.Strong(gauge.scale.words(gauge.value))]
    value += [
        html.Div(f"{name} {gauge.scale.words(beside)}", className="muted") for name, beside in gauge.beside.items()
    ]
    return html.Tr(
        [html.Td(gauge.name), html.Td(value, className="figure"), html.Td(_strip(gauge)), html.Td(gauge.good)]
    )


def _strip(gauge: Gauge) -> Component | None:
    """Draw the scale with a dot for the value and a stroke for each value beside it; None without ends."""
    scale = gauge.scale
    if math.isnan(scale.low) or math.isnan(scale.high):
        return None
    marks = [_mark("gauge-beside", scale.position(beside), name) for name, beside in gauge.beside.items()]
    marks += [_mark("gauge-zero", scale.position(0.0), "")] if scale.low < 0 else []
    marks += [_mark("gauge-dot", scale.position(gauge.value), "")]
    low, high = scale.ends
    label = f"{scale.words(gauge.value)} on a scale from {low} to {high}"
    line = html.Div([mark for mark in marks if mark is not None], className="gauge-line")
    ends = html.Div([html.Span(low), html.Span(high)], className="gauge-ends")
    return html.Div([line, ends], className="gauge", role="img", **{"aria-label": label})


def _mark(kind: str, position: float | None, title: str) -> html.Span | None:
    return (
        None if position is None else html.Span(className=kind, style={"left": f"{position:.2%}"}, title=title or None)
    )
