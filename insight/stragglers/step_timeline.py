"""A step as plain data for a figure: what each rank did and waited for, and which rank it waited for."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .step_graph import StepGraph

__all__ = ["Bar", "step_timeline"]

#: Bars of one lane (our choice: more cannot be told apart on a screen).
_MOST: Final = 400


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of one lane of a rank's step.

    Args:
        lane: Numbers the threads and streams of all ranks.
        start_s: Since the step's beginning.
        kind: What it did, in words; `waiting` for a wait in a collective.
        name: The operation that takes most of it.
        waits_for: Rank that arrived last where it waits; -1 otherwise.
    """

    rank: int
    lane: int
    start_s: float
    seconds: float
    kind: str
    name: str
    waits_for: int


def step_timeline(graph: StepGraph, place: int) -> tuple[Bar, ...]:
    """Return the bars of the step at this place of `graph.steps`, by lane and start; neighbours of a kind are one."""
    begin = _begin(graph, place)
    last, waits = _last_to_arrive(graph), graph.wait
    made: list[Bar] = []
    here = np.flatnonzero(graph.step == place)
    for lane in np.unique(graph.lane[here]).tolist():
        nodes = here[graph.lane[here] == lane]
        least = float(graph.duration[nodes].sum() + waits[nodes].sum()) / _MOST  # a shorter bar joins the one before
        bars: list[Bar] = []
        for node in nodes[np.argsort(graph.arrival[nodes], kind="stable")].tolist():
            name, wait = graph.names[graph.name[node]], float(waits[node])
            number, start = graph.ranks[graph.rank[node]], float(graph.start[node]) - begin
            if wait > 0.0:
                _append(bars, Bar(number, lane, start - wait, wait, "waiting", name, graph.ranks[last[node]]), least)
            kind = graph.words(int(graph.kind[node]))
            if graph.duration[node] > 0.0:
                _append(bars, Bar(number, lane, start, float(graph.duration[node]), kind, name, -1), least)
        made += bars
    return tuple(made)


def _begin(graph: StepGraph, place: int) -> float:
    earlier = (graph.step >= 0) & (graph.step < place)
    return float(graph.end[earlier].max()) if earlier.any() else graph.begin


def _append(bars: list[Bar], bar: Bar, least: float) -> None:
    """Add the bar, or let the last one grow by it if they are of one kind, or one of them is too short to be seen."""
    before = bars[-1] if bars else None
    if before is None or bar.start_s > before.start_s + before.seconds + least:
        bars.append(bar)
        return
    is_same = (before.kind, before.waits_for) == (bar.kind, bar.waits_for)
    if not is_same and min(bar.seconds, before.seconds) >= least:
        bars.append(bar)
        return
    longer = bar if bar.seconds > before.seconds else before
    seconds = bar.start_s + bar.seconds - before.start_s
    bars[-1] = replace(longer, start_s=before.start_s, seconds=seconds)


def _last_to_arrive(graph: StepGraph) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return, for members of collectives, the place of the rank that arrived last; -1 for other nodes."""
    last = np.full(len(graph.join), -1, np.int64)
    members = np.flatnonzero(graph.join >= 0)
    if len(members):
        join = graph.join[members]
        first = np.flatnonzero(np.concatenate([[True], join[1:] != join[:-1]]))
        order = np.lexsort((graph.arrival[members], join))
        latest = members[order[np.append(first[1:], len(members)) - 1]]
        last[members] = np.repeat(graph.rank[latest], np.diff(np.append(first, len(members))))
    return last
