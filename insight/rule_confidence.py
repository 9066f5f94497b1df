"""What a rule may say: its confidence, by the benchmark of faults, and its severity, by the healthy runs of the zoo."""

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import Final

from ..storage import Finding
from .calibration import NAMED
from .zoo_record import ACCUSED, NAMED_ABROAD, PROGRAMS, RULES, RUNS

#: Runs that the rule's stated confidence counts for: without measured runs it decides, with twenty it hardly matters
#: (our choice).
_WORTH: Final = 2
#: Digits of a share of at most a few hundred runs.
_DIGITS: Final = 3
#: The most that a rule may state that was never measured, and one that says itself that the run alone cannot tell.
_UNMEASURED: Final = 0.6
_CANNOT_TELL: Final = 0.7
#: Root causes that the record of all rules counts for when one rule is judged (our choice: half of a decision after
#: four of its own).
_SHARED: Final = 4
#: Rules that say nothing of the model.
_OF_PERSONS: Final = frozenset({"watchpoint", "monitor-fault"})
#: Share of the zoo's healthy runs that a rule may accuse and still make a verdict, and what it may then state.
_ACCUSED_AT_MOST: Final = 0.005
_ASKED: Final = 0.5
_WITHHELD: Final = "the rule said so of healthy runs of the benchmark, too; is something wrong here?"
#: Quantile of Wilson's interval: one in forty rules is worse than its lower end.
_Z: Final = 1.96
#: Rules whose statement is, word for word, what was measured on this run, with the counterexample as evidence: values
#: that are not finite, checksums of ranks, weights that are equal to the bit, gradients that were there before the
#: step, an output that moved. Only they may be certain.
VERIFIED: Final = frozenset(
    {
        "bad-batch",
        "data-leak",
        "identical-rank-data",
        "loss-input-domain",
        "loss-scale-overflow",
        "missing-optimizer-step",
        "missing-zero-grad",
        "monitor-fault",
        "non-finite-activation",
        "non-finite-gradient",
        "non-finite-loss",
        "rank-desync",
        "rank-dropped",
        "resume-mismatch",
        "schedule-error",
        "watchpoint",
        "wrong-backward",
    }
)


def calibrated(rule: str, stated: float, *, asks: str = "") -> float:
    """Return the confidence that the measured runs support.

    At home, on the benchmark of faults, it is the share of runs in which the rule was right, where the stated
    confidence counts as two more runs (the mean of a beta distribution whose prior is what the rule states), but at
    most the lower end of Wilson's interval for that share. What is said is at most the share in which the rule was
    right `abroad`. Only a statement that was verified on this run is certain.

    Args:
        stated: By the rule: 1 for a statement that was verified.
        asks: What the rule's findings need that no run can tell.

    Reference:
        Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    if stated >= 1 and rule.partition("/")[0] in VERIFIED:
        return 1.0
    right, named = NAMED.get(rule, (0, 0))
    share = (right + _WORTH * stated) / (named + _WORTH)
    most = _CANNOT_TELL if asks == "reference" else 1.0
    return round(min(share, _least(right, named), most, abroad(rule, NAMED_ABROAD)), _DIGITS)


def abroad(rule: str, record: Mapping[str, tuple[int, int]]) -> float:
    """Return the share of its root causes in which the rule is right in programs of others; 1 without a record.

    A rule that was named there a few times only is judged by what all rules together were worth, times what the rule
    is worth at home (the mean of a beta distribution, partial pooling).

    Args:
        record: By rule: root causes that were right, and root causes that it named.
    """
    if not record:
        return 1.0
    expected = sum(named * _least(*NAMED.get(other, (0, 0))) for other, (_, named) in record.items())
    scale = sum(right for right, _ in record.values()) / expected if expected else 0.0
    right, named = record.get(rule, (0, 0))
    prior = min(scale * _least(*NAMED.get(rule, (0, 0))), 1.0)
    return (right + _SHARED * prior) / (named + _SHARED)


def is_earned(rule: str) -> bool:
    """Return whether the rule has earned the severity that it states: it accused at most 0.5 % of the healthy runs.

    With less than 200 runs one accusation is too many. That a rule never accused one of `RUNS` bounds its rate at
    `3 / RUNS` with 95 % (docs/adr/0025).
    """
    return ACCUSED.get(rule, (0, 0))[0] <= _ACCUSED_AT_MOST * RUNS


def record_in_words(rule: str, right: int, named: int) -> str:
    """Return how the rule did where the truth is known, as sentences behind another; empty if it was not measured.

    Args:
        right: Of the runs of our own faults in which it was named, those in which it was right.
        named: How many those are.
    """
    if rule.partition("/")[0] in _OF_PERSONS:
        return ""
    is_tried = bool(RUNS) and rule in RULES
    wrong = ACCUSED.get(rule, (0, 0))[0]
    alarms = "no false alarm" if not wrong else "1 false alarm" if wrong == 1 else f"{wrong} false alarms"
    sentences = (
        _tried("test programs of our own", right, named),
        _tried("programs of other people", *NAMED_ABROAD.get(rule, (0, 0))) if RUNS else "",
        f"The rule gave {alarms} in {RUNS} runs of {PROGRAMS} healthy programs of other people" if is_tried else "",
    )
    return "".join(f". {sentence}" for sentence in sentences if sentence)


def _tried(programs: str, right: int, named: int) -> str:
    """Return how often the rule was right in programs whose true cause is known; empty where it was never named."""
    if not named:
        return ""
    if named == 1:
        outcome = f"once, {'rightly' if right else 'wrongly'}"
    else:
        outcome = (
            f"{named} times, and was right {'each time' if right == named else f'{right} times' if right else 'never'}"
        )
    return f"In {programs} whose faults are known, the rule named its cause {outcome}"


def as_earned(finding: Finding) -> Finding:
    """Return the finding as its rule may say it: as it is, or as a question beside the verdict."""
    if finding.severity == "info" or is_earned(finding.rule):
        return finding
    words = f"{finding.explanation}; {_WITHHELD}"
    return replace(finding, severity="info", confidence=min(finding.confidence, _ASKED), explanation=words)


def is_withheld(severity: str, explanation: str) -> bool:
    """Return whether a finding is a warning or an error that its rule may not say."""
    return severity == "info" and explanation.endswith(_WITHHELD)


def _least(right: int, named: int) -> float:
    """Return the lower end of Wilson's interval at 95 %; a fixed value for what was never measured."""
    if not named:
        return _UNMEASURED
    share, square = right / named, _Z**2 / named
    middle = (share + square / 2) / (1 + square)
    return max(0.0, middle - _Z * sqrt(share * (1 - share) / named + square / (4 * named)) / (1 + square))
