"""From outcomes to figures: what was seen, where it was placed, how it was named, and how sure that is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from .outcome import QUESTION, Alarm, Outcome
from .table import Case

_Z = 1.959964  # of a two-sided interval of 95 %


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many.

    Args:
        low: Lower end of the Wilson interval at 95 %, `high` the upper one.
    """

    hits: int
    of: int

    @property
    def value(self) -> float:
        """NaN of nothing."""
        return self.hits / self.of if self.of else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval at 95 %.

        Reference:
            Wilson 1927, "Probable inference, the law of succession, and statistical inference".
        """
        if not self.of:
            return (0.0, 1.0)
        n, p = self.of, self.value
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z * sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
        return (max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half)))


@dataclass(frozen=True, slots=True)
class Judged:
    """One faulty run against its truth and its healthy twin.

    Args:
        is_seen: Any alarm at or after the onset.
        is_new: Any that the twin does not raise.
        is_placed: The first root cause names the right site and rank; None where no single one is at fault.
        is_named: The first root cause is right; `is_near` one of the first three.
        delay: Steps from the onset to the first new alarm; None without one.
        groups: Root causes that were named.
    """

    case: Case
    outcome: Outcome
    is_seen: bool
    is_new: bool
    is_placed: bool | None
    is_named: bool
    is_near: bool
    delay: int | None
    groups: int


def judge(case: Case, outcome: Outcome, twin: Outcome | None) -> Judged:
    """The run against what is true of it."""
    known = {(alarm.rule, alarm.site, alarm.rank) for alarm in twin.alarms} if twin else set()
    seen = [alarm for alarm in outcome.alarms if alarm.step >= outcome.onset]
    new = [alarm for alarm in seen if (alarm.rule, alarm.site, alarm.rank) not in known]
    first = outcome.roots[0] if outcome.roots else None
    return Judged(
        case=case,
        outcome=outcome,
        is_seen=bool(seen),
        is_new=bool(new),
        is_placed=_placed(outcome, first),
        is_named=first is not None and first.cause in case.causes,
        is_near=any(root.cause in case.causes for root in outcome.roots[:3]),
        delay=min((alarm.step - outcome.onset for alarm in new), default=None),
        groups=len(outcome.roots),
    )


def _placed(outcome: Outcome, root: Alarm | None) -> bool | None:
    if not outcome.sites and outcome.rank is None:
        return None
    if root is None:
        return False
    at_site = not outcome.sites or any(_is_at(root.site, site) for site in outcome.sites)
    return at_site and outcome.rank in (None, root.rank)


def _is_at(found: str, true: str) -> bool:
    """Whether a finding's site is the module at fault, or a part of it."""
    return found == true or found.startswith(f"{true}.")


def share(of: Iterable[Judged], claim: Callable[[Judged], bool | None]) -> Share:
    """How many of those that the claim can be made of bear it out."""
    claims = [claim(one) for one in of]
    made = [one for one in claims if one is not None]
    return Share(sum(made), len(made))


def delays(of: Iterable[Judged]) -> list[int]:
    """All of them, ascending."""
    return sorted(one.delay for one in of if one.delay is not None)


def percentile(values: Sequence[int], part: float) -> float:
    """The smallest value that this part of them does not exceed; NaN of nothing."""
    if not values:
        return float("nan")
    return float(values[min(len(values) - 1, max(0, -int(-part * len(values) // 1) - 1))])


def warned(outcomes: Iterable[Outcome]) -> Share:
    """How many runs raised any alarm; a question is none."""
    found = [any(alarm.severity != QUESTION for alarm in outcome.alarms) for outcome in outcomes]
    return Share(sum(found), len(found))


def by_name(missed: Iterable[Judged]) -> Mapping[str, list[int]]:
    """Seeds by the name of the case."""
    names: dict[str, list[int]] = {}
    for one in missed:
        names.setdefault(one.case.name, []).append(one.outcome.seed)
    return dict(sorted(names.items()))
