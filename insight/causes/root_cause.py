"""Which findings are causes and which only follow: the earliest in time and data flow whose parents are healthy."""

from collections.abc import Iterable, Sequence
from typing import Final

from ...storage import Finding, Structure
from .ancestry import Ancestry
from .consequences import (
    JUST_BEFORE,
    LAST_RESORT,
    MOMENTARY,
    ON_THE_WAY_BACK,
    ON_THE_WAY_FORTH,
    PASSED,
    PERFORMANCE,
    WINDOWED,
    explains_anything,
    may_follow,
)

#: At most this many root causes are named; a longer list is no help at 3 a.m.
LIMIT: Final = 3
_NOWHERE: Final = Ancestry(Structure())


def root_causes(findings: Sequence[Finding], structure: Structure | None = None) -> tuple[Finding, ...]:
    """The findings from which the others follow, facts first, then the earliest, at most `LIMIT`.

    What the run has recovered from comes behind what it has not, and what only costs time comes last. Where there are
    more than `LIMIT`, errors are kept rather than warnings.

    Args:
        structure: Whence the data flow is known; without it only times and words decide.
    """
    return leading(root for root, _ in folded(findings, structure))


def leading(roots: Iterable[Finding]) -> tuple[Finding, ...]:
    """Of findings that follow from no other those that are named as root causes, in the order of `root_causes`."""
    ranked = sorted(roots, key=_rank)
    kept = sorted(ranked, key=lambda root: root.severity != "error")[:LIMIT]
    return tuple(root for root in ranked if root in kept)


def _rank(root: Finding) -> tuple[bool, bool, bool]:
    return root.cause in PERFORMANCE, root.cause in PASSED, root.confidence < 1


def folded(
    findings: Sequence[Finding], structure: Structure | None = None
) -> tuple[tuple[Finding, tuple[Finding, ...]], ...]:
    """Every finding that follows from no other, earliest first, with all that follow from it, directly or by others.

    Notices (severity info), faults of the monitor itself and a person's watchpoints are never the cause of what the
    model does, and follow from nothing.
    """
    ancestry = Ancestry(structure) if structure else _NOWHERE
    candidates = sorted(filter(_matters, findings), key=appearance)
    parent: list[int] = []
    for at, finding in enumerate(candidates):
        earlier = (other for other in range(at) if explains(candidates[other], finding, ancestry))
        parent.append(next(earlier, at))
    first = [at for at, above in enumerate(parent) if above == at]
    for at in first:  # what is judged over a window may follow from what began in it, and so comes after it
        later = (other for other in first if other > at and explains(candidates[other], candidates[at], ancestry))
        parent[at] = next(later, at)
    below: dict[int, list[Finding]] = {at: [] for at in first if parent[at] == at}
    for at, finding in enumerate(candidates):
        if at not in below:
            below[_top(parent, at)].append(finding)
    return tuple((candidates[at], tuple(following)) for at, following in below.items())


def _top(parent: Sequence[int], at: int) -> int:
    """Where the way from a finding to what it follows from ends."""
    while parent[at] != at:
        at = parent[at]
    return at


def explains(cause: Finding, finding: Finding, ancestry: Ancestry = _NOWHERE) -> bool:
    """True when the finding may be a consequence of the cause, which appeared no later, or is the same elsewhere.

    What is said as a last resort is explained by any cause that was found before it was said, a sudden rise of the loss
    by one that began just before or while it was awaited, and what is judged over a
    window by any of its possible causes that began before the window closed. Harm that travels with the values, or with
    the gradients, is explained by harm of the same way at a site that leads to its own.
    """
    if cause is finding:
        return False
    if cause.rule == finding.rule and (cause.site == finding.site or is_alike(cause, finding)):
        return appearance(cause) <= appearance(finding)
    if cause.cause == "straggler" and finding.cause == "dataloader_bound":
        return cause.rank == finding.rank  # were all of them waiting for data, none would wait for another
    if cause.cause in PASSED and finding.first_step > cause.step:
        return False
    if finding.cause in LAST_RESORT and explains_anything(cause.cause):
        return cause.first_step <= finding.step
    if finding.cause in MOMENTARY and cause.cause not in MOMENTARY and _is_just_before(cause, finding):
        return True
    if finding.cause in WINDOWED and finding.confidence < 1 and cause.first_step <= finding.step:
        is_first = cause.cause not in WINDOWED or appearance(cause) <= appearance(finding)
        return is_first and may_follow(cause.cause, finding.cause)
    return _follows(cause, finding) or _flows(cause, finding, ancestry)


def _is_just_before(cause: Finding, finding: Finding) -> bool:
    is_near = finding.first_step - JUST_BEFORE <= cause.first_step <= finding.step
    return is_near and explains_anything(cause.cause)


def is_alike(one: Finding, other: Finding) -> bool:
    """True for two words of one rule that began together: one thing that shows at several sites or ranks."""
    return (one.rule, one.first_step) == (other.rule, other.first_step)


def _follows(cause: Finding, finding: Finding) -> bool:
    if appearance(cause) > appearance(finding) or _is_open_to(cause, finding):
        return False
    return may_follow(cause.cause, finding.cause)


def _is_open_to(cause: Finding, finding: Finding) -> bool:
    """Whether the cause was judged over a window in which the finding began, and may itself be its consequence."""
    is_windowed = cause.cause in WINDOWED and cause.confidence < 1 and finding.cause not in WINDOWED
    return is_windowed and may_follow(finding.cause, cause.cause) and finding.first_step <= cause.step


def _flows(cause: Finding, finding: Finding, ancestry: Ancestry) -> bool:
    if cause.first_step > finding.first_step or cause.rank != finding.rank:
        return False
    if {cause.cause, finding.cause} <= ON_THE_WAY_FORTH:
        return ancestry.leads_to(cause.site, finding.site)
    return {cause.cause, finding.cause} <= ON_THE_WAY_BACK and ancestry.leads_to(finding.site, cause.site)


def _matters(finding: Finding) -> bool:
    return finding.severity != "info" and finding.cause not in ("monitor_fault", "watchpoint")


def appearance(finding: Finding) -> tuple[int, tuple[int, int, int], int, str, str]:
    """What findings are sorted by: the first step, then the place in that step's data flow."""
    return (finding.first_step, finding.order, finding.rank, finding.rule, finding.site)
