"""What executable checks have verified on this run: claims that hold, and claims with a counterexample."""

from collections.abc import Iterator
from dataclasses import replace

from ...storage import Event, Finding, Severity
from ..context.step_context import StepContext
from ..event_fields import as_number, number

__all__ = ["at_two_occasions", "refutation", "refuted", "refuted_twice", "refuting_event"]


#: The occasion at which layers that begin at zero have moved.
_SECOND = 2


def refuted(context: StepContext, *checks: str, occasion: int = 1) -> Iterator[Event]:
    """Yield the events of these checks that hold a counterexample, each with the first step of its claim's.

    Where every look contradicts a claim, its findings have one first step, so that the last replaces the others.

    Args:
        checks: Names of checks; the event `check` in docs/scalars.md lists them.
        occasion: The first occasion that counts. Layers that begin at zero hide what is behind them at the first one.
    """
    for event in context.events("check"):
        is_broken = event.data.get("check") in checks and event.data.get("outcome") == "broken"
        if is_broken and number(event, "occasion") >= occasion:
            yield replace(event, step=context.claims.since(event, occasion))


def refuted_twice(context: StepContext, before: set[tuple[str, str, str]], *checks: str) -> Iterator[Event]:
    """Yield the events of these checks that hold a counterexample at the first two occasions.

    Args:
        before: Claims that the first occasion has contradicted; extended.
    """
    for event in refuted(context, *checks):
        claim = (str(event.data.get("check")), event.site, str(event.data.get("subject")))
        if number(event, "occasion") < _SECOND:
            before.add(claim)
        elif claim in before:
            yield event


def refutation(
    context: StepContext,
    event: Event,
    *,
    consequence: str,
    advice: str,
    metric: str = "activation/mean",
    severity: Severity = "error",
    confidence: float = 1.0,
) -> Finding:
    """Return the finding of a broken claim: the counterexample, word for word, then what follows from it.

    Args:
        consequence: What the training loses by it.
    """
    measured = event.data.get("numbers")
    evidence = {name: as_number(value) for name, value in measured.items()} if isinstance(measured, dict) else {}
    evidence = {name: value for name, value in evidence.items() if value == value}
    return context.finding(
        _site_of(event),
        metric,
        evidence or {"occasion": number(event, "occasion")},
        severity=severity,
        first_step=event.step,
        position=0,
        explanation=f"{event.data.get('counterexample')}; {consequence}",
        advice=advice,
        confidence=confidence,
    )


def _site_of(event: Event) -> str:
    """Return the module at fault that the check names, or the network that it tried."""
    where = str(event.data.get("where", ""))
    return f"{event.site}.{where}" if event.site and where else where or event.site


def refuting_event(
    check: str, counterexample: str, *, occasion: int = 2, outcome: str = "broken", **numbers: float
) -> Event:
    """Return an event as the probe records it, for the examples of rules."""
    data = {"check": check, "outcome": outcome, "claim": "", "counterexample": counterexample, "subject": "x"}
    return Event("check", 0, data={**data, "occasion": occasion, "numbers": dict(numbers)})


def at_two_occasions(event: Event) -> tuple[Event, Event]:
    """Return this event of a check at the first two occasions, for the examples of rules."""
    first, second = (replace(event, step=step, data={**event.data, "occasion": step + 1}) for step in range(_SECOND))
    return first, second
