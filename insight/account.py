"""Collects what stands behind a root cause: a query for its evidence, what was ruled out, what only a person knows."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..storage import Finding
from .calibration import NAMED
from .consequences import possible_causes
from .root_causes import began_together
from .rule_confidence import VERIFIED
from .rules import RULES

#: Steps before and after a finding that its query reads.
_AROUND = 50


@dataclass(frozen=True, slots=True)
class Account:
    """What stands behind one root cause.

    Args:
        query: A line of Python that reads the evidence from an open `store`; empty if no series shows it.
        ruled_out: Possible causes of it whose rules saw what they need and found nothing.
        not_checked: Possible causes whose rules did not see what they need.
        also: Other sites at which the same rule fired from the same step on.
        ranks: Other ranks on which it fired.
        follows: Other findings that may follow from it.
        batch: Number and checksum of the batch of its first step; empty if no single batch matters or none is known.
        change: Change of the model's modules at its first step or shortly before; empty if there was none.
        named: Number of benchmark runs in which the rule was named as a root cause.
        right: Number of these in which it was a root cause.
        asks: `intent` where the run cannot tell a fault from a choice, `reference` where only a comparison can;
            empty where neither matters, and of a finding that was verified on this run.
    """

    query: str
    ruled_out: tuple[str, ...]
    not_checked: tuple[str, ...]
    asks: str
    also: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    follows: tuple[Finding, ...] = ()
    batch: str = ""
    change: str = ""
    named: int = 0
    right: int = 0


def account_of(
    finding: Finding,
    run: str,
    *,
    last_step: int,
    findings: Sequence[Finding],
    rules_run: Collection[str],
    follows: Sequence[Finding] = (),
    batch: str = "",
    change: str = "",
    is_stored: bool = True,
) -> Account:
    """Return what stands behind one finding of a run.

    Args:
        last_step: The newest step of the run; the query reads none behind it.
        findings: All findings of the run; a cause that was found is not ruled out.
        follows: Findings that are folded under this one.
        batch: The batch of its first step.
        change: The change of the model's modules at that step or shortly before.
        rules_run: Names of the rules whose silence means something.
        is_stored: Whether a store has the run, so that a query can read it.
    """
    found = {item.cause for item in findings}
    possible = [cause for cause in possible_causes(finding.cause) if cause not in found]
    silent = {RULES[name].cause for name in rules_run if name in RULES}
    rule = RULES.get(finding.rule)
    is_verified = finding.rule in VERIFIED and finding.severity != "info"
    right, named = NAMED.get(finding.rule, (0, 0))
    alike = [item for item in findings if began_together(item, finding)]
    return Account(
        query=_query(finding, run, last_step) if is_stored else "",
        ruled_out=tuple(cause for cause in possible if cause in silent),
        not_checked=tuple(cause for cause in possible if cause not in silent and not _is_beside(cause)),
        asks=rule.asks if rule and not is_verified else "",
        also=tuple(sorted({item.site for item in alike} - {finding.site})),
        ranks=tuple(sorted({item.rank for item in alike} - {finding.rank})),
        follows=tuple(item for item in follows if item not in alike),
        batch=batch,
        change=change,
        named=named,
        right=right,
    )


def _is_beside(cause: str) -> bool:
    """Return True for a cause that only some trainings can have; without its records it does not apply."""
    return any(rule.is_optional for rule in RULES.values() if rule.cause == cause)


def _query(finding: Finding, run: str, last_step: int) -> str:
    if not finding.metric:
        return ""
    first, last = max(finding.first_step - _AROUND, 0), max(min(finding.step + _AROUND, last_step), finding.step)
    rank = f", rank={finding.rank}" if finding.rank else ""
    site = "" if finding.metric.startswith("scalar/") else finding.site  # scalars are the whole step's
    return f"store.series({run!r}, {site!r}, {finding.metric!r}{rank}, first={first}, last={last})"
