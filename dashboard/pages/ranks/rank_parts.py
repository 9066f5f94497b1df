"""What the page Ranks says in words and tables: who it is, the cards, the topology, and the collectives."""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from dash import dcc, html
from dash.development.base_component import Component
from rich.filesize import decimal

from ....insight.rank_verdict import RankVerdict, duration_words
from ....storage.transfers import is_send, offset_of
from ...address import PageAddress
from ...components.page_parts import card, empty_state
from ...components.tables import listing
from ...figures.pace_figure import RankPace, skew_s, slowest
from ...formatting import count, number
from ...queries.rank_queries import CollectiveCost
from ...queries.rank_view import RankView, axis_matrix
from ...queries.reader import Reader


def verdict_parts(view: RankView) -> list[Component]:
    """Build the answer of the page: who it is, since when, and what it costs; further sentences below it."""
    verdict = view.verdict
    body: list[Component] = [_answer(view, verdict)]
    if verdict.further:
        body.append(html.Ul([html.Li(f"{words}.") for words in verdict.further], className="muted"))
    return body


def _answer(view: RankView, verdict: RankVerdict) -> html.Div:
    """Build the three cards: who, since when, what it costs; the whole sentence stands below the first."""
    who = "Nobody" if verdict.tone == "good" else "–"
    if verdict.rank is not None:
        who = html.A(
            f"Rank {verdict.rank}", href=PageAddress("ranks", run=view.run.id).having(rank=f"{verdict.rank}").href
        )
    since = f"step {verdict.since:,}" if verdict.since >= 0 else "–"
    cost = duration_words(verdict.cost_s) if verdict.cost_s else "–"
    share = f"{verdict.share:.0%} of a step, of every other rank" if verdict.cost_s else "nothing that was measured"
    cards = [
        card("Who is it", who, f"{verdict.sentence}.", verdict.tone),
        card("Since when", since, f"looked at up to step {verdict.until:,}" if verdict.until >= 0 else ""),
        card("What does it cost", cost, share),
        card("Ranks", f"{view.count:,}", _axes(view)),
    ]
    return html.Div(cards, className="cards", role="status")


def _axes(view: RankView) -> str:
    sizes = [f"{len(axis.names):,} × {axis.name}" for axis in view.topology.axes if len(axis.names)]
    return ", ".join(sizes) if sizes else "hosts and mesh were not recorded"


def rank_cards(paces: Sequence[RankPace], parts: Sequence[CollectiveCost]) -> html.Div:
    """Build four cards: slowest rank, skew, most waiting, bytes moved."""
    return html.Div([_slowest(paces), _skew(paces), _waiting(paces, parts), _moved(parts)], className="cards")


def _slowest(paces: Sequence[RankPace]) -> html.Div:
    last = slowest(paces)
    if last is None:
        return card("Slowest rank", "–", "a single rank has nothing to wait for")
    return card("Slowest rank", f"rank {last.rank}", f"works {number(last.work_s, 3)} s of a step")


def _skew(paces: Sequence[RankPace]) -> html.Div:
    value = f"{number(skew_s(paces), 3)} s" if len(paces) > 1 else "–"
    return card("Skew", value, "between the longest and the shortest work of a step")


def _waiting(paces: Sequence[RankPace], parts: Sequence[CollectiveCost]) -> html.Div:
    if not parts or not paces:
        return card("Waits most", "–", "no communication was recorded")
    most = max(paces, key=lambda pace: pace.wait_s)
    return card("Waits most", f"rank {most.rank}", f"{number(most.wait_s, 3)} s of {number(most.step_s, 3)} s")


def _moved(parts: Sequence[CollectiveCost]) -> html.Div:
    if not parts:
        return card("Moved in a step", "–", "only collectives of torch.distributed are recorded")
    each = sum(part.moved_bytes for part in parts) / len({part.rank for part in parts})
    sites = len({part.site for part in parts})
    return card("Moved in a step", size_words(each), f"by every rank, in {count(sites, 'collective')}")


def size_words(amount: float) -> str:
    """Format an amount of bytes."""
    return decimal(int(amount)) if isfinite(amount) else "not recorded"


def topology_table(reader: Reader, view: RankView) -> Component:
    """Build a table with a row for each axis: how many groups, and which of them works longest."""
    if not view.topology.axes:
        return empty_state(
            "No hosts and no mesh recorded",
            "Ranks of torch.distributed record their host and their process groups as `watch` begins.",
        )
    columns = ("Axis", "Groups", "Ranks in each", "Longest work", "Of rank", "Seconds")
    rows = [_axis_row(reader, view, at) for at in range(len(view.topology.axes))]
    return listing("topology", columns, rows, figures=columns[1:])


def _axis_row(reader: Reader, view: RankView, at: int) -> list[str]:
    whole, axis = view.topology.axes[at], view.axes[at]
    sizes = np.bincount(whole.groups[whole.groups >= 0], minlength=len(whole.names))
    least, most = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
    size = f"{most}" if least == most else f"{least} to {most}"
    head = [whole.name, f"{len(whole.names):,}", size]
    if not view.has_rollup:
        place = whole.groups[view.verdict.rank] if view.verdict.rank is not None else -1
        return [*head, whole.names[place] if place >= 0 else "–", "–", "–"]
    matrix = axis_matrix(reader, view.run, "scalar/work_seconds", axis)
    newest = matrix.high[:, -1] if matrix.high.size else np.zeros(0)
    if not np.isfinite(newest).any():
        return [*head, "–", "–", "–"]
    worst = int(np.nanargmax(newest))
    rank = f"{view.verdict.rank}" if _holds(view, axis.groups, worst) else "–"
    return [*head, matrix.sites[worst], rank, number(float(newest[worst]), 3)]


def _holds(view: RankView, groups: "np.ndarray[tuple[int], np.dtype[np.int64]]", group: int) -> bool:
    rank = view.verdict.rank
    return rank is not None and rank < len(groups) and int(groups[rank]) == group


def _group_words(part: CollectiveCost) -> str:
    """Return the group of a collective, and the peer of a send or receive: `world, to rank 3`."""
    operation, _, group = part.site.partition("/")
    if (offset := offset_of(part.site)) is None:
        return group
    way = "to" if is_send(operation) else "from"
    return f"{group.rpartition(':')[0]}, {way} rank {part.rank + offset}"


def collectives_table(run: str, parts: Sequence[CollectiveCost]) -> Component:
    """Build a table with one row for every collective of every rank, linked to that rank."""
    if not parts:
        return empty_state(
            "No communication recorded",
            "Collectives are recorded of processes that talk through torch.distributed. What DDP's own reducer sends "
            "is not a call that can be seen; `gradient/unreduced` beside `gradient` shows what it did.",
        )
    columns = ("Operation", "Group and peer", "Rank", "Calls", "Bytes a step", "Seconds", "Waiting")
    rows = [
        [
            part.site.partition("/")[0],
            _group_words(part),
            [dcc.Link(f"{part.rank}", href=PageAddress("ranks", run=run).having(rank=f"{part.rank}").href)],
            f"{part.calls}",
            size_words(part.moved_bytes),
            number(part.seconds),
            number(part.wait_seconds),
        ]
        for part in parts
    ]
    return listing("collectives", columns, rows, figures=columns[2:])
