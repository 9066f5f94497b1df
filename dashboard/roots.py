"""Findings folded under what they follow from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..insight.causes.ancestry import Ancestry
from ..insight.causes.root_cause import explains, folded, leading
from ..storage import Finding, FindingKey, Structure


@dataclass(frozen=True, slots=True)
class Root:
    """A finding, others of the same cause, and those that may follow from it; each by first step."""

    finding: Finding
    same: tuple[Finding, ...] = ()
    follows: tuple[Finding, ...] = ()


def roots_of(findings: Sequence[Finding], structure: Structure | None = None) -> tuple[Root, ...]:
    """Root causes, earliest first, then what no root explains, grouped by cause; nothing is left out."""
    ancestry = Ancestry(structure or Structure())
    families = folded(findings, structure)
    above = {one.key: root for root, following in families for one in following}
    heads = list(leading(root for root, _ in families))
    same: dict[int, list[Finding]] = {index: [] for index in range(len(heads))}
    follows: dict[int, list[Finding]] = {index: [] for index in range(len(heads))}
    for finding in findings:
        if finding in heads:
            continue
        index = _place(finding, heads, above, ancestry)
        if index is None:
            index = len(heads)
            heads.append(finding)
            same[index], follows[index] = [], []
        elif heads[index].cause == finding.cause:
            same[index].append(finding)
        else:
            follows[index].append(finding)
    return tuple(Root(head, tuple(same[index]), tuple(follows[index])) for index, head in enumerate(heads))


def _place(
    finding: Finding, heads: Sequence[Finding], above: Mapping[FindingKey, Finding], ancestry: Ancestry
) -> int | None:
    """The head of the same cause, else the first from which the finding follows, directly or by others."""
    for index, head in enumerate(heads):
        if head.cause == finding.cause:
            return index
    root = above.get(finding.key)
    return next((at for at, head in enumerate(heads) if head == root or explains(head, finding, ancestry)), None)
