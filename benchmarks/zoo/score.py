"""From cases to figures: what was seen, how it was named and placed, and what healthy runs were told."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from statistics import median

from mindscope.insight.rule_confidence import abroad

from ..faults.outcome import Alarm
from ..faults.score import Share
from ..mutations import OPERATORS
from .case import Case

_BINS = 10


@dataclass(frozen=True, slots=True)
class Judged:
    """One fault and what was said of it.

    Args:
        is_seen: Any alarm at all; `is_new` any that the healthy program at the same seed does not raise.
        is_named: The first root cause is the right word; None where no word fits. `is_near`: one of the first three.
        is_placed: The first root cause is at the module at fault; None where no single one is.
    """

    case: Case
    is_seen: bool
    is_new: bool
    is_named: bool | None
    is_near: bool | None
    is_placed: bool | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A root cause that was named in one run, and whether it was the right word."""

    rule: str
    family: str
    confidence: float
    is_right: bool


def judge(case: Case, twin: Case | None) -> Judged:
    """Compare what was said of a fault with the truth and with what was said of the healthy program."""
    known = {(alarm.rule, alarm.site) for alarm in twin.watched.alarms} if twin else set()
    alarms, roots = case.watched.alarms, case.watched.roots
    named = [root.cause for root in roots]
    return Judged(
        case=case,
        is_seen=bool(alarms),
        is_new=any((alarm.rule, alarm.site) not in known for alarm in alarms),
        is_named=None if case.cause is None else named[:1] == [case.cause],
        is_near=None if case.cause is None else case.cause in named[:3],
        is_placed=bool(roots) and is_at(roots[0].site, case.attribute) if case.attribute else None,
    )


def is_at(site: str, attribute: str) -> bool:
    """Return whether a site is at or in the module that is kept under an attribute, `fc1` or `mlp.2`."""
    return f".{attribute}." in f".{site}."


def is_told_of_another(case: Case) -> bool:
    """Return whether a mutant is warned of, and never of what was planted: the mistake is there, harmful or not."""
    told = {alarm.cause for alarm in case.watched.alarms}
    return bool(told) and OPERATORS[case.operator].cause not in told


def judge_all(cases: Sequence[Case]) -> list[Judged]:
    """Judge the faults among the cases, each beside the healthy run of its program."""
    twins = {(case.entry.name, case.seed): case for case in cases if not case.operator}
    return [judge(case, twins.get((case.entry.name, case.seed))) for case in cases if case.is_fault]


def share(claims: Sequence[bool | None]) -> Share:
    """Return how many of those that can be judged are true."""
    made = [claim for claim in claims if claim is not None]
    return Share(sum(made), len(made))


def claims(cases: Sequence[Case]) -> list[Claim]:
    """Return every root cause that was named, and whether it is the word for the fault; on a healthy run none is.

    Faults without a word do not count.
    """
    return [
        Claim(root.rule, case.entry.family, root.confidence, case.is_fault and root.cause == case.cause)
        for case in cases
        if not case.is_fault or case.cause is not None
        for root in case.watched.roots
    ]


def calibration_error(made: Sequence[Claim]) -> float:
    """Return the expected calibration error of the root causes; NaN without any.

    Reference:
        Naeini et al. 2015, "Obtaining well calibrated probabilities using Bayesian binning", ten equal bins.
    """
    error = 0.0
    for number in range(_BINS):
        inside = [claim for claim in made if min(int(claim.confidence * _BINS), _BINS - 1) == number]
        error += abs(sum(claim.confidence for claim in inside) - sum(claim.is_right for claim in inside))
    return error / len(made) if made else float("nan")


def by_other_families(made: Sequence[Claim]) -> list[Claim]:
    """Return the claims with the confidence that they would have by the record of the other families alone."""
    found = []
    for claim in made:
        record = record_of([other for other in made if other.family != claim.family])
        confidence = 1.0 if claim.confidence >= 1 else abroad(claim.rule, record)
        found.append(replace(claim, confidence=confidence))
    return found


def record_of(made: Sequence[Claim]) -> dict[str, tuple[int, int]]:
    """Return, by rule, how many of its root causes were right, and how many it named; verified statements left out."""
    named = Counter(claim.rule for claim in made if claim.confidence < 1)
    right = Counter(claim.rule for claim in made if claim.confidence < 1 and claim.is_right)
    return {rule: (right[rule], named[rule]) for rule in sorted(named)}


def false_alarms(healthy: Sequence[Case]) -> dict[str, list[str]]:
    """Return, by rule, the healthy runs that it accused, a name for each seed; the worst rule first."""
    runs: dict[str, list[str]] = {}
    for case in healthy:
        for rule in sorted({alarm.rule for alarm in case.watched.alarms}):
            runs.setdefault(rule, []).append(case.name)
    return dict(sorted(runs.items(), key=lambda item: -len(item[1])))


def notices(cases: Sequence[Case]) -> dict[str, list[int]]:
    """Return, by rule, in how many faults and in how many healthy runs it said something below a warning.

    What a rule asks of faults, and hardly ever of healthy runs, it could say.
    """
    found: dict[str, list[int]] = {}
    for case in cases:
        for rule in {alarm.rule for alarm in case.watched.notices}:
            found.setdefault(rule, [0, 0])[not case.is_fault] += 1
    return dict(sorted(found.items()))


def costs(healthy: Sequence[Case]) -> dict[tuple[str, str], float]:
    """Return CPU and wall time with the monitor over those without, and the memory that it adds, by name and unit."""
    if not healthy:
        return {}
    cpu = [case.watched.cost.cpu_s / case.plain.cpu_s for case in healthy]
    wall = [case.watched.cost.wall_s / case.plain.wall_s for case in healthy]
    memory = [case.watched.cost.memory_mb - case.plain.memory_mb for case in healthy]
    return {
        ("CPU time, median", "watched/bare"): median(cpu),
        ("CPU time, worst", "watched/bare"): max(cpu),
        ("wall time, median", "watched/bare"): median(wall),
        ("wall time, worst", "watched/bare"): max(wall),
        ("memory, median", "MB more"): median(memory),
        ("memory, worst", "MB more"): max(memory),
    }


def identical(cases: Iterable[Case]) -> list[bool]:
    """Return whether the monitor changed no digit of the result, for the runs whose bare result is of this machine.

    One that is kept with the sources may be of another machine, which rounds differently; its cost is NaN.
    """
    return [case.watched.cost.result == case.plain.result for case in cases if not isnan(case.plain.cpu_s)]


def words(alarms: Sequence[Alarm]) -> list[str]:
    """Return what was said, a line each, for a person."""
    return [f"{alarm.severity} {alarm.cause} at {alarm.site or 'the run'}: {alarm.explanation}" for alarm in alarms]
