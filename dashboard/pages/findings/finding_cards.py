"""Findings grouped by root cause, and one finding as a card with its evidence, explanation and advice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ....insight.root_causes import DataFlow, explains, folded, leading
from ....storage import Finding, FindingKey, Run, Structure, display_site, metric_name
from ...address import PageAddress
from ...components.page_parts import severity_badge
from ...formatting import number, prose, sentence
from ...queries.reader import Reader


class FindingsIds:
    """The findings of a run."""

    tick: Final = "findings-tick"
    version: Final = "findings-version"
    run: Final = "findings-run"
    list: Final = "findings-list"
    status: Final = "findings-status"
    keys: Final = "findings-keys"
    mute: Final = "findings-mute"
    unmute: Final = "findings-unmute"
    condition: Final = "findings-condition"
    replay: Final = "findings-replay"
    hits: Final = "findings-hits"
    tried: Final = "findings-tried"


@dataclass(frozen=True, slots=True)
class RootCauseGroup:
    """A finding, others of the same cause, and those that may follow from it; each by first step."""

    finding: Finding
    same: tuple[Finding, ...] = ()
    follows: tuple[Finding, ...] = ()


def root_cause_groups(findings: Sequence[Finding], structure: Structure | None = None) -> tuple[RootCauseGroup, ...]:
    """Group findings under root causes, earliest first, then those without a root by cause; leave none out."""
    data_flow = DataFlow(structure or Structure())
    families = folded(findings, structure)
    above = {consequence.key: root for root, following in families for consequence in following}
    heads = list(leading(root for root, _ in families))
    same: dict[int, list[Finding]] = {index: [] for index in range(len(heads))}
    follows: dict[int, list[Finding]] = {index: [] for index in range(len(heads))}
    for finding in findings:
        if finding in heads:
            continue
        index = _group_of(finding, heads, above, data_flow)
        if index is None:
            index = len(heads)
            heads.append(finding)
            same[index], follows[index] = [], []
        elif heads[index].cause == finding.cause:
            same[index].append(finding)
        else:
            follows[index].append(finding)
    return tuple(RootCauseGroup(head, tuple(same[index]), tuple(follows[index])) for index, head in enumerate(heads))


def _group_of(
    finding: Finding, heads: Sequence[Finding], above: Mapping[FindingKey, Finding], data_flow: DataFlow
) -> int | None:
    """Return the group of the same cause, else the first from which the finding follows."""
    for index, head in enumerate(heads):
        if head.cause == finding.cause:
            return index
    root = above.get(finding.key)
    return next((at for at, head in enumerate(heads) if head == root or explains(head, finding, data_flow)), None)


def evidence_address(reader: Reader, run: Run, finding: Finding, name: str) -> PageAddress:
    """Return the page that shows a number of the evidence: its series, a scalar's curve, or the finding's series."""
    subject, _, statistic = finding.metric.rpartition("/")
    scalars, metrics = reader.scalars(run.id), reader.metrics(run.id)
    if name in scalars:
        return _curve(run, name, finding)
    same = metric_name(subject, name)
    metric = same if same in metrics else finding.metric
    if finding.site in reader.sites(run.id, metric):
        return PageAddress("tensor", run.id, metric, finding.site, finding.first_step)
    if subject == "scalar" and statistic in scalars:
        return _curve(run, statistic, finding)
    return PageAddress("run", run.id, step=finding.first_step)


def _curve(run: Run, scalar: str, finding: Finding) -> PageAddress:
    options = {} if scalar == "loss" else {"scalar": scalar}
    around = (max(0, finding.first_step - 50), finding.first_step + 50)
    return PageAddress("run", run.id, options={**options, "steps": f"{around[0]}-{around[1]}"})


#: Where a number of a finding's evidence can be seen, by its name.
EvidenceLink = Callable[[Finding, str], PageAddress]


def finding_card(
    run: str, finding: Finding, filled_address: EvidenceLink, *, may_mute: bool, beside: Component | None = None
) -> html.Article:
    """Build the card of a finding; its site and each of its numbers link to where they can be seen.

    Args:
        beside: Stands under the card, as what was ruled out does under a root cause.
    """
    parts = [
        _head(finding, may_mute=may_mute),
        _where(run, finding),
        html.P(prose(finding.explanation), className="finding-text"),
        _evidence(finding, filled_address),
        _advice(finding),
        beside,
    ]
    return html.Article(
        [part for part in parts if part is not None], className="finding" if beside is None else "finding root"
    )


def _head(finding: Finding, *, may_mute: bool) -> html.Div:
    mute = dmc.Button(
        "Mute",
        id={
            "type": FindingsIds.mute,
            "at": f"{finding.first_step}.{finding.rank}",
            "rule": finding.rule,
            "site": finding.site,
        },
        size="compact-xs",
        variant="default",
        disabled=not may_mute,
        **{"aria-label": f"Mute {sentence(finding.cause)} at {display_site(finding.site)}"},
    )
    return html.Div(
        [
            severity_badge(finding.severity),
            html.H3(sentence(finding.cause), className="finding-title"),
            html.Span(_since(finding), className="finding-since"),
            mute,
        ],
        className="finding-head",
    )


def _where(run: str, finding: Finding) -> html.Div:
    address = PageAddress("run", run=run).at(finding.metric, finding.site, finding.first_step)
    return html.Div(
        [
            dcc.Link(display_site(finding.site), href=address.href, className="mono"),
            html.Span(finding.metric, className="mono muted"),
            *([html.Span(f"rank {finding.rank}", className="muted")] if finding.rank else []),
            html.Span(f"rule {finding.rule}", className="muted"),
            html.Span("fact" if finding.confidence >= 1 else f"confidence {finding.confidence:.0%}", className="muted"),
        ],
        className="finding-where",
    )


def _since(finding: Finding) -> str:
    if finding.step == finding.first_step:
        return f"at step {finding.step:,}"
    return f"since step {finding.first_step:,}, seen at step {finding.step:,}"


def _evidence(finding: Finding, filled_address: EvidenceLink) -> html.Dl | None:
    if not finding.evidence:
        return None
    pairs = [
        html.Div([html.Dt(sentence(name)), html.Dd(dcc.Link(number(value), href=filled_address(finding, name).href))])
        for name, value in finding.evidence.items()
    ]
    return html.Dl(pairs, className="evidence")


def _advice(finding: Finding) -> html.P | None:
    if not finding.advice:
        return None
    return html.P([html.Strong("What to do. "), prose(finding.advice)], className="finding-advice")
