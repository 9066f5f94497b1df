"""Compares a run with one that went well: finds where its numbers leave the good run's course.

A rule knows only what no training should do. A good run knows what this training does, so that far less than what a
rule must see is enough: its numbers are compared, in the median over a few steps, as a factor.
"""

import math
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from ...storage import Finding, Run, Store, Structure, display_site
from ..diagnosis import concluded, diagnose
from ..diagnosis_report import Diagnosis
from ..rule import OPTIMIZER
from ..unknown_cause import UNKNOWN
from ..verdict import is_question, stored_facts
from .pairing import Alignment, ComparedStep, TensorPair, align, by_step, tensors
from .same_start import parting

__all__ = ["RULE", "WINDOW", "Departure", "departures", "diagnose_against"]

#: Steps of the median by which a number is judged, and steps to wait for other departures after the first.
WINDOW = 15
#: By subject and statistic, the factor beyond which a number has left the good run's. Measured: the numbers of 41 pairs
#: of seeds of one training, in eleven families (dense, convolutional, recurrent, attention, experts, policies,
#: adversaries; torch and engine), differed by at most 1.06, 2.3, 1.3, 5.6 and 2.6, in this order; these are at least
#: the power of 1.4 of that. A gradient differs by up to 87, and so tells nothing.
_LIMITS = {
    ("batch", "l2_norm"): 1.5,
    ("scalar", "loss"): 3.2,
    ("weight", "l2_norm"): 1.5,
    ("activation", "l2_norm"): 12.0,
    ("update", "ratio_to_weight"): 4.0,
}
#: Standard deviations by which the norm of few random elements may differ, in units of its own, one over the root of
#: their number: a matrix of twelve elements was 1.6 times another seed's.
_OF_FEW = 4.0
#: Of these only matrices are compared: a norm of few elements may be anything; that of one bias differed twelvefold.
_OF_MATRICES = frozenset({"weight", "update"})
#: What is below this share of the good run's first value counts as that much: a converged loss may be any small number.
#: Of two seeds of a mixture density network, one had 3.4 times the loss of the other at a tenth of the first one.
_FLOOR, _LOSS_FLOOR = 0.01, 0.1
#: Share of its first loss below which the good run's updates tell nothing: as the gradients vanish, those of an
#: optimizer like Adam were 20 times as large with another seed, at other steps.
_CONVERGED = 0.2


@dataclass(frozen=True, slots=True)
class Departure:
    """A number that has left the good run's course.

    Args:
        site: As the run names it; empty for the loss.
        step: At which it was sure.
        first_step: Since when.
        value: Median of the run's over the window.
        expected: The good run's.
        factor: Between the two, above 1.
        limit: The factor that no healthy training was seen to reach.
        order: Its place within a step.
    """

    site: str
    metric: str
    step: int
    first_step: int
    value: float
    expected: float
    factor: float
    limit: float
    order: tuple[int, int]


@dataclass(slots=True)
class _Course:
    """The last values of one number: step, the run's, the good run's, and the logarithm of their factor."""

    floor: float
    last: deque[tuple[int, float, float, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def add(self, step: int, value: float, expected: float) -> None:
        """Add a step of both runs; a value that is not finite only in the run is infinitely far away."""
        if math.isfinite(expected):
            above, below = abs(value) + self.floor, abs(expected) + self.floor
            apart = math.log(above / below) if math.isfinite(value) and above and below else math.inf
            self.last.append((step, value, expected, 0.0 if value == expected else apart))


def departures(
    stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int | None, int | None] = (None, None)
) -> tuple[tuple[Departure, ...], int]:
    """Return what left the good run's course first, and the number of steps that both runs have.

    Reads both recordings until a window after the first departure.

    Args:
        runs: The run, then the good one.
    """
    run_structure, good_structure = (
        store.structure(run.id, rank=rank) for store, run, rank in zip(stores, runs, ranks, strict=True)
    )
    alignment = align(run_structure, good_structure)
    matrices = {info.site: math.prod(info.shape) for info in run_structure.parameters if len(info.shape) > 1}
    courses: dict[tuple[str, str, str], _Course] = {}
    found: dict[tuple[str, str], Departure] = {}
    common, until, begun = 0, math.inf, math.nan
    records = (store.replay(run.id, rank=rank) for store, run, rank in zip(stores, runs, ranks, strict=True))
    for step in by_step(*records):
        if step.number > until:
            break
        common += 1
        loss = step.second[-1].scalars.get("loss", math.nan)
        begun = loss if math.isnan(begun) else begun
        for tensor in _of_step(step, alignment):
            if tensor.key[0] in _OF_MATRICES and tensor.key[1] not in matrices:
                continue
            if tensor.key[0] == "update" and loss < _CONVERGED * begun:
                continue
            size = matrices.get(tensor.key[1], 0) if tensor.key[0] in _OF_MATRICES else 0
            for departure in _looked_at(tensor, step.number, courses, size):
                found.setdefault((departure.site, departure.metric), departure)
                until = min(until, step.number + WINDOW)
    return tuple(sorted(found.values(), key=lambda departure: (departure.first_step, departure.order))), common


def _of_step(step: ComparedStep, alignment: Alignment) -> Iterator[TensorPair]:
    """Yield each tensor from the first micro-step that has it; optimizer statistics come from the last one.

    Where one run gathers gradients of more micro-batches than the other, only what the optimizer did is comparable.
    """
    known: set[tuple[object, ...]] = set()
    is_alike = len(step.first) == len(step.second)
    pairs = zip(step.first, step.second, strict=True) if is_alike else [(step.first[-1], step.second[-1])]
    for run_record, good_record in pairs:
        for tensor in tensors(run_record, good_record, alignment):
            name = (*tensor.key, tensor.statistics)
            if name not in known and (is_alike or tensor.key[0] in _OF_MATRICES):
                known.add(name)
                yield tensor


def _looked_at(
    tensor: TensorPair, step: int, courses: dict[tuple[str, str, str], _Course], size: int
) -> Iterator[Departure]:
    """Yield what has left its course; `size` is the number of elements of a matrix, 0 of what is no parameter."""
    subject, site, call = tensor.key
    wider = math.exp(_OF_FEW / math.sqrt(size)) if size else 1.0
    for at, statistic in enumerate(tensor.statistics):
        limit = _LIMITS.get((subject, statistic))
        if limit is None or call:
            continue
        limit *= wider
        value, expected = float(tensor.first[at]), float(tensor.second[at])
        key = (subject, site, statistic)
        if key not in courses:
            share = _LOSS_FLOOR if subject == "scalar" else _FLOOR
            courses[key] = _Course(share * abs(expected) if math.isfinite(expected) else 0.0)
        course = courses[key]
        course.add(step, value, expected)
        if len(course.last) == WINDOW and abs(median(point[3] for point in course.last)) > math.log(limit):
            yield _departure(tensor, statistic, course, limit)


def _departure(tensor: TensorPair, statistic: str, course: _Course, limit: float) -> Departure:
    subject, site, _ = tensor.key
    apart = median(point[3] for point in course.last)
    since = next(point[0] for point in course.last if abs(point[3]) > math.log(limit))
    return Departure(
        site=site,
        metric=f"{subject}/{statistic}",
        step=course.last[-1][0],
        first_step=since,
        value=median(point[1] for point in course.last),
        expected=median(point[2] for point in course.last),
        factor=math.exp(abs(apart)),
        limit=limit,
        order=tensor.order,
    )


#: The rule name of findings that come from the comparison.
RULE = "reference"
#: None of 26 pairs of healthy trainings left each other's course, one of each of a seed on which no limit was measured:
#: Laplace's rule of succession.
_CONFIDENCE = 27 / 28
#: What a question ends with, as `...: is it meant?`; a good run is the answer.
_QUESTION: Final = re.compile(r"[:;,] (is|are|was|were|does|do|did|has|have)\b[^:;?]*\?$")
#: Share of parameters of one shape from which two runs are of one model. Our choice: a layer may be added or left out.
_SAME_MODEL = 0.5


def diagnose_against(stores: tuple[Store, Store], runs: tuple[Run, Run]) -> Diagnosis:
    """Return the diagnosis of the first run, made more sensitive by the second, which went well.

    What a rule finds in both runs is a choice, and becomes a notice; a question that only this run raises is answered
    by the good one, and becomes a warning. Where both runs started alike, the first value that differs is a finding,
    else the first number that leaves the good run's course; a better explanation takes it as a consequence.
    """
    store, run = stores[0], runs[0]
    found, good = diagnose(store, run.id), diagnose(stores[1], runs[1].id)
    rank, other = run.first_rank, runs[1].first_rank
    structure = store.structure(run.id, rank=rank)
    pairs = align(structure, stores[1].structure(runs[1].id, rank=other)).pairs
    shared = {(finding.rule, finding.site) for finding in good.findings}
    findings = [
        (_excused if (finding.rule, pairs.get(finding.site, finding.site)) in shared else _answered)(
            finding, runs[1].name
        )
        for finding in found.findings
    ]
    start = parting(stores, runs, (rank, other), rule=RULE)
    parted = start.finding
    reasons = dict(found.reasons)
    if parted is not None:
        findings.append(parted)
    left, common = ((), WINDOW) if start.is_alike else departures(stores, runs, (rank, other))
    if not _is_one_model(structure, stores[1].structure(runs[1].id, rank=other), pairs):
        left, reasons[RULE] = (), f"the good run {runs[1].name!r} is of another model; give one of the same program"
    elif common < WINDOW:
        reasons[RULE] = f"the good run has {common} steps in common with this one, {WINDOW} are needed"
    elif left:
        findings.append(_finding(left, runs[1].name, rank, start.named))
        parted = findings[-1] if start.named else parted
    elif start.asked is not None:
        findings.append(start.asked)
    facts = replace(stored_facts(store, run.id), has_reference=True)
    whole = concluded(found, findings, reasons, structure, facts)
    asked = {finding.key for finding in found.findings if is_question(finding)}
    return replace(whole if parted is None else _explained(whole, parted, asked), reference=runs[1].name)


def _explained(whole: Diagnosis, parted: Finding, asked: Collection[object]) -> Diagnosis:
    """Tell, of root causes that rules have named, what is different about the run: it is what led to them.

    What a rule only asks is one of them if nothing has a name for the difference itself.

    Args:
        asked: Keys of findings that were questions before the good run answered them.
    """
    others = [
        root
        for root in whole.root_causes
        if root.rule != RULE
        and root.step >= parted.first_step
        and (parted.cause in (root.cause, UNKNOWN) or root.key not in asked)
    ]
    if not others:  # what is seen of it later comes behind the difference itself
        roots = whole.root_causes
        return _in_order(whole, sorted(range(len(roots)), key=lambda number: roots[number].key != parted.key))
    told = {root.key: replace(root, explanation=f"{root.explanation}; {parted.explanation}") for root in others}
    kept = [number for number, root in enumerate(whole.root_causes) if root.rule != RULE]
    kept.sort(key=lambda number: whole.root_causes[number].cause != parted.cause)
    return _in_order(replace(whole, root_causes=tuple(told.get(root.key, root) for root in whole.root_causes)), kept)


def _in_order(whole: Diagnosis, numbers: Sequence[int]) -> Diagnosis:
    """Return the diagnosis with these of its root causes, in this order, each with what follows from it."""
    return replace(
        whole,
        root_causes=tuple(whole.root_causes[number] for number in numbers),
        follows=tuple(whole.follows[number] for number in numbers),
    )


def _is_one_model(structure: Structure, good: Structure, pairs: Mapping[str, str]) -> bool:
    """Return whether half of the parameters have a counterpart of their shape, or nothing is known of one of both."""
    shapes = {info.site: info.shape for info in good.parameters}
    shared = [info for info in structure.parameters if shapes.get(pairs.get(info.site, info.site)) == info.shape]
    most = max(len(structure.parameters), len(shapes))
    return not structure.parameters or not shapes or len(shared) >= _SAME_MODEL * most


def _excused(finding: Finding, name: str) -> Finding:
    words = f"{finding.explanation}; the good run {name!r} has the same"
    return replace(finding, severity="info", explanation=words, confidence=0.1)


def _answered(finding: Finding, name: str) -> Finding:
    if not is_question(finding):
        return finding
    told = _QUESTION.sub("", finding.explanation).removesuffix("?")
    words = f"{told}; the good run {name!r} does not have it"
    return replace(finding, severity="warning", explanation=words)


def _finding(departed: tuple[Departure, ...], name: str, rank: int, named: str) -> Finding:
    first, sites = departed[0], {departure.site for departure in departed}
    what = "the loss" if first.metric == "scalar/loss" else f"{first.metric} of {display_site(first.site)}"
    others = f"; so do {len(sites) - 1} more sites within {WINDOW} steps" if len(sites) > 1 else ""
    return Finding(
        rule=RULE,
        cause=named or "unknown",
        severity="warning",
        step=first.step,
        first_step=first.first_step,
        site=first.site,
        metric=first.metric,
        evidence={
            "value": first.value,
            "value_of_the_good_run": first.expected,
            "factor": first.factor,
            "limit": first.limit,
            "sites": len(sites),
        },
        explanation=f"{what} leaves the course of the good run {name!r}: it is {first.value:.4g}, where the good run "
        f"had {first.expected:.4g} at the same steps, a factor of {first.factor:.3g}; between two seeds of one "
        f"training the factor stays below {first.limit:g}{others}",
        advice="find out what is different about this run: mindscope compare lists the differences in data, first "
        "weights, configuration and structure; then look at this site first",
        confidence=_CONFIDENCE,
        rank=rank,
        order=(0, OPTIMIZER, first.order[0]),
    )
