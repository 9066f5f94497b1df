"""Says of a finding without a known cause what followed it, what was ruled out by which check, and what to try next."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from ..storage import Finding, display_site
from .consequences import possible_causes
from .rule import BACKWARD, CONFIGURATION, FORWARD, LOSS, OPTIMIZER
from .rules import RULES

__all__ = ["UNKNOWN", "standing_of"]

#: The cause of findings that know none.
UNKNOWN: Final = "unknown"
_PLACES: Final = {
    CONFIGURATION: "in data and settings",
    FORWARD: "in the forward pass",
    LOSS: "in the loss",
    BACKWARD: "in the backward pass",
    OPTIMIZER: "in the optimizer's steps",
}
#: Findings that are named as what followed (our choice: a line or two of a terminal).
_NAMED: Final = 6


def standing_of(
    finding: Finding,
    run: str,
    *,
    findings: Sequence[Finding],
    rules_run: Collection[str],
    not_run: Mapping[str, str],
    has_reference: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield titles and words: what followed, what was ruled out by which rules, what was not checked, what to try.

    Args:
        run: Its id.
        findings: All of the run.
        rules_run: Rules whose silence means something.
        not_run: Rules whose silence means nothing, and why.
        has_reference: Whether the run was compared with one that went well.
    """
    yield "what followed", _followed(finding, findings)
    possible = {*possible_causes(UNKNOWN)} - {other.cause for other in findings}
    ruled_out = [name for name in rules_run if name in RULES and RULES[name].cause in possible]
    if ruled_out:
        yield "no sign of, by the rule of that name", "; ".join(_by_place(ruled_out))
    else:
        yield "no sign of", "nothing was looked for: too little was recorded for any rule"
    missing = [name for name in not_run if name in RULES and RULES[name].cause in possible]
    if missing:
        yield "not checked", ", ".join(sorted(missing))
    compare = f"compare with a run that went well (mindscope diagnose {run} --reference GOOD); "
    yield (
        "try next",
        f"record everything around step {finding.first_step} (mindscope run --full); "
        f"{'' if has_reference else compare}change one thing at a time: the rate, the data, the seed",
    )


def _followed(finding: Finding, findings: Sequence[Finding]) -> str:
    """Return the findings that began at the same step or later, the earliest first."""
    later = [other for other in findings if other.cause != UNKNOWN and other.first_step >= finding.first_step]
    first = {other.cause: other for other in sorted(later, key=lambda other: -other.first_step)}
    ordered = sorted(first.values(), key=lambda other: other.first_step)
    words = [f"{each.cause} at {display_site(each.site)} since step {each.first_step}" for each in ordered[:_NAMED]]
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return "; ".join(words) + more if words else "nothing that any rule reports"


def _by_place(names: Collection[str]) -> Iterator[str]:
    """Yield the rules of each phase of a step, in the order of the phases."""
    for phase, place in _PLACES.items():
        here = sorted(name for name in names if RULES[name].phase == phase)
        if here:
            yield f"{place}: {', '.join(here)}"
