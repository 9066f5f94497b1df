"""What was measured of a model in single numbers, each on its scale, with its unit and which way is good."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ...storage import Outcome
from ..words import count, number, sentence
from .evaluations import number_in
from .scale import Scale, around_zero, round_end

#: Differences: what may fall below 0.
_SIGNED: Final = frozenset({"accuracy_variance", "query_count_variance", "success_variance"})
#: What is measured against attacks of a budget; the name of a detector may follow.
_ATTACKED: Final = ("query defence", "detector")


@dataclass(frozen=True, slots=True)
class Gauge:
    """One number.

    Args:
        good: Which values are good, and what the number is.
        beside: What else was measured of the same samples, by name.
    """

    name: str
    value: float
    scale: Scale
    good: str
    beside: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gauged:
    """What one measurement found, and from how much."""

    title: str
    gauges: tuple[Gauge, ...]


def gauged(outcomes: Sequence[Outcome]) -> list[Gauged]:
    """The numbers of outcomes of the kind `metric`; one of an unknown name shows whatever numbers it has, last."""
    known = list(_MAKERS)
    ordered = sorted(outcomes, key=lambda one: known.index(_family(one)) if _family(one) in known else len(known))
    return [Gauged(_title(one), _MAKERS.get(_family(one), _plain)(one)) for one in ordered]


def _family(one: Outcome) -> str:
    return next((family for family in _ATTACKED if one.attack.startswith(f"{family} ")), one.attack)


def _title(one: Outcome) -> str:
    name = one.attack.upper() if one.attack == "clever" else sentence(one.attack)
    where = f" in {one.norm}" if one.norm else ""
    budget = f", against attacks of epsilon {number(one.epsilon)}" if _family(one) in _ATTACKED else ""
    return f"{name}{where}, {count(one.samples, 'sample')}{budget}"


def _clever(one: Outcome) -> tuple[Gauge, ...]:
    beside = {name: number_in(one.details, name) for name in ("least", "mean")}
    cut = number(one.epsilon)
    good = (
        f"High: about how far the nearest input of another class is, in the median. The search ends at {cut}; there, "
        "none was seen nearer. An estimate, no certificate."
    )
    scale = Scale(0.0, one.epsilon)
    return (Gauge("Distance to another class", one.median_distance, scale, good, beside),)


def _empirical(one: Outcome) -> tuple[Gauge, ...]:
    by = str(one.details.get("attack", "the attack"))
    good = f"High: the smallest change by which {by} fools the model, as a share of the input's length."
    value = number_in(one.details, "value")
    return (Gauge("Smallest change that fools", value, Scale(0.0, round_end(value), is_share=True), good),)


def _defence(one: Outcome) -> tuple[Gauge, ...]:
    stable = "Low: how far its outputs are from those without it where both are right; log 2 is as far as they can be."
    divergence = number_in(one.details, "output_stability")
    return (
        *_shares(
            one,
            ("Accuracy gained, CAV", "accuracy_variance", "Above 0: accuracy with the defence minus that without it."),
            ("Mended, CRR", "rectify_ratio", "High: answers that the defence makes right."),
            ("Spoiled, CSR", "sacrifice_ratio", "Low: answers that it makes wrong."),
            ("Confidence moved, CCV", "confidence_variance", "Low: its change where both are right."),
        ),
        Gauge("Outputs moved, COS", divergence, Scale(0.0, math.log(2), "nats"), stable),
    )


def _queries(one: Outcome) -> tuple[Gauge, ...]:
    slower = number_in(one.details, "response_time_variance")
    end = round_end(slower)
    return (
        *_shares(
            one,
            ("Queries added, QCV", "query_count_variance", "High: more that the attack needs, of those allowed."),
            ("Success lost, ASV", "success_variance", "High: the fall of the share of attacks that succeed."),
            ("False alarms, FPR", "false_positive_rate", "Low: benign inputs that are taken for an attack."),
        ),
        Gauge("Slower, QRV", slower, around_zero(end), "Low: by how much longer a benign answer takes."),
    )


def _detector(one: Outcome) -> tuple[Gauge, ...]:
    auc = "High: how often an attacked input looks more suspicious than a clean one; 0.5 is guessing, below is worse."
    asked = Scale(is_share=True).words(number_in(one.details, "allowed_false_positive_rate"))
    return (
        *_shares(
            one,
            ("Detected", "detection_rate", "High: adversarial inputs that set the alarm off."),
            ("False alarms, FPR", "false_positive_rate", f"Low: clean inputs that do; set for {asked} of others."),
        ),
        Gauge("Told apart, AUC", number_in(one.details, "auc"), Scale(0.0, 1.0), auc),
    )


def _plain(one: Outcome) -> tuple[Gauge, ...]:
    values = {name: number_in(one.details, name) for name in one.details}
    return tuple(Gauge(sentence(name), value, Scale(), "") for name, value in values.items() if not math.isnan(value))


def _shares(one: Outcome, *rows: tuple[str, str, str]) -> tuple[Gauge, ...]:
    """Shares of one measurement on one scale, which goes below 0 where one of them may."""
    values = {key: number_in(one.details, key) for _, key, _ in rows}
    end = max(map(round_end, values.values()))
    scale = around_zero(end) if any(key in _SIGNED for key in values) else Scale(0.0, end, is_share=True)
    return tuple(Gauge(name, values[key], replace(scale, is_signed=key in _SIGNED), good) for name, key, good in rows)


_MAKERS: Final[dict[str, Callable[[Outcome], tuple[Gauge, ...]]]] = {
    "clever": _clever,
    "empirical robustness": _empirical,
    "defence quality": _defence,
    "query defence": _queries,
    "detector": _detector,
}
