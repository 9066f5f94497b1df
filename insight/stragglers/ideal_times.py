"""What the work of each rank would take if it were like its peers', and the durations of a graph in which it is.

Peers are the ranks of one pipeline stage. What their median takes in all steps is usual, scaled by how long the step is
for all of them; a rank without peers is compared with its own other steps.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .step_graph import Activity, Floats, Integers, StepGraph

__all__ = ["IdealTimes", "ideal_times", "lower_median"]

#: Work above the usual by less than this, and by less than this share of a step, is usual. Our choice: clocks of
#: processors and devices, and schedulers, cause some 5 %.
_MORE: Final = 0.05
_LEAST: Final = 0.005
#: A collective above its usual time by less than this is usual: networks vary more. Our choice.
_MORE_OF_TRANSFERS: Final = 0.25
#: Sizes explain the work of ranks if both correlate like this within steps (Lin et al. 2025 use 0.9 between passes),
#: and differ by this much. Our choice.
_EXPLAINS: Final = 0.8
_DIFFERS: Final = 0.03
#: Stages are out of balance if one works longer than the median (of two, the mean) by this share. Our choice.
_UNBALANCED: Final = 0.05
_KINDS: Final = len(Activity)
_WORK: Final = (Activity.COMPUTE, Activity.HOST, Activity.MEMORY, Activity.LAUNCH)


@dataclass(frozen=True, slots=True, eq=False)
class IdealTimes:
    """Factors by which durations become ideal; all are at most 1.

    Args:
        own: `(kinds, ranks, steps)`, seconds of each rank's own activities.
        peers: The same shape: as its peers.
        balanced: `(ranks, steps)`, of computing: the sequences of the step spread evenly.
        staged: `(ranks,)`, of computing: the work of a stage as it usually is.
        transfers: `(n,)`, of nodes that communicate: as such a transfer usually takes.
        explained: Correlation of sizes and computing within steps; NaN if unknown.
    """

    graph: StepGraph
    own: Floats
    peers: Floats
    balanced: Floats
    staged: Floats
    transfers: Floats
    explained: float

    def durations(self, factors: Floats) -> Floats:
        """Return the durations of the nodes with factors `(kinds, ranks, steps)` for those inside of steps."""
        graph = self.graph
        inside = graph.inside
        factor = np.ones(len(graph.duration))
        factor[inside] = factors[graph.kind[inside], graph.rank[inside], graph.step[inside]]
        return graph.duration * factor

    @property
    def unchanged(self) -> Floats:
        """Factors that change nothing."""
        return np.ones_like(self.own)


def lower_median(values: Floats) -> float:
    """Return the middle value, of an even number the smaller of the two in the middle; NaN of none."""
    return float(np.sort(values, axis=None)[(values.size - 1) // 2]) if values.size else float("nan")


def ideal_times(graph: StepGraph) -> IdealTimes:
    """Return the ideal times of the graph."""
    own = _own(graph)
    classes = _classes(graph)
    step_s = _mean_step(graph)
    balanced, explained = _balanced(graph, own, classes)
    fair = own.copy()
    fair[Activity.COMPUTE] *= balanced
    peers = np.ones_like(own)
    for members in classes:
        peers[:, members] = _as_peers(own[:, members], fair[:, members], step_s)
    return IdealTimes(graph, own, peers, balanced, _staged(graph, own), _transfers(graph), explained)


def _own(graph: StepGraph) -> Floats:
    ranks, steps = len(graph.ranks), len(graph.steps)
    inside = graph.inside
    place = (graph.kind[inside] * ranks + graph.rank[inside]) * steps + graph.step[inside]
    total = np.zeros(_KINDS * ranks * steps)
    np.add.at(total, place, graph.duration[inside])
    return total.reshape(_KINDS, ranks, steps)


def _classes(graph: StepGraph) -> list[Integers]:
    stages = np.array(graph.stages)
    return [np.flatnonzero(stages == stage) for stage in np.unique(stages).tolist()]


def _mean_step(graph: StepGraph) -> float:
    inside = graph.inside
    last = float(graph.end[inside].max()) if inside.any() else graph.begin
    return max(last - graph.begin, 0.0) / max(len(graph.steps), 1)


def _as_peers(own: Floats, fair: Floats, step_s: float) -> Floats:
    """Return factors `(kinds, members, steps)`; `fair` is the work with sequences of equal length."""
    members = own.shape[1]
    usual = np.array([lower_median(np.array([lower_median(rank) for rank in times])) for times in fair])
    pace = np.ones(own.shape[2])
    if members > 1:
        total = np.sort(fair[list(_WORK)].sum(axis=0), axis=0)[(members - 1) // 2]
        pace = total / max(lower_median(total), 1e-12)
    ideal = usual[:, None] * pace
    excess = fair - ideal[:, None]
    is_more = excess > np.maximum(_MORE * ideal, _LEAST * step_s)[:, None]
    factors = np.where(is_more, ideal[:, None] / np.maximum(own, 1e-12), 1.0)
    factors[Activity.COMMUNICATION] = 1.0
    return np.minimum(factors, 1.0)


def _balanced(graph: StepGraph, own: Floats, classes: list[Integers]) -> tuple[Floats, float]:
    """Return factors `(ranks, steps)` of computing with even sequences, and how well sizes explain it."""
    factors, best = np.ones(own.shape[1:]), float("nan")
    for members in classes:
        size, work = graph.sizes[members], own[Activity.COMPUTE][members]
        known = np.isfinite(size).all(axis=0) & (work.sum(axis=0) > 0.0)
        if len(members) < 2 or known.sum() * len(members) < 6:
            continue
        more = size[:, known] - size[:, known].mean(axis=0)
        longer = work[:, known] - work[:, known].mean(axis=0)
        spread = float(more.std())
        if spread < _DIFFERS * size[:, known].mean() or not longer.std():
            continue
        correlation = float((more * longer).mean() / (spread * longer.std()))
        best = correlation if np.isnan(best) else max(best, correlation)
        if correlation >= _EXPLAINS:
            slope = float((more * longer).sum() / (more**2).sum())
            fair = np.clip(1.0 - slope * more / np.maximum(work[:, known], 1e-12), 0.0, 1.0)
            factors[np.ix_(members, np.flatnonzero(known))] = fair
    return factors, best


def _staged(graph: StepGraph, own: Floats) -> Floats:
    stages = np.array(graph.stages)
    if len(np.unique(stages)) < 2:
        return np.ones(len(stages))
    work = own[Activity.COMPUTE]
    by_stage = {stage: lower_median(work[stages == stage]) for stage in np.unique(stages).tolist()}
    times = np.array(list(by_stage.values()))
    usual = lower_median(times) if len(times) > 2 else float(times.mean())
    factor = {stage: usual / time if time > (1.0 + _UNBALANCED) * usual else 1.0 for stage, time in by_stage.items()}
    return np.array([factor[stage] for stage in stages.tolist()])


def _transfers(graph: StepGraph) -> Floats:
    """Return factors of joined collectives: the n-th of its name in a step as it usually is."""
    factors = np.ones(len(graph.duration))
    nodes = np.flatnonzero((graph.join >= 0) & graph.inside)
    if not len(nodes):
        return factors
    order = nodes[np.lexsort((nodes, graph.step[nodes], graph.name[nodes], graph.rank[nodes]))]
    same = np.stack([graph.rank[order], graph.name[order], graph.step[order]])
    is_new = np.concatenate([[True], (same[:, 1:] != same[:, :-1]).any(axis=0)])
    begun = np.flatnonzero(is_new)
    ordinal = np.arange(len(order)) - np.repeat(begun, np.diff(np.append(begun, len(order))))
    key = graph.name[order] * (ordinal.max() + 1) + ordinal
    for number in np.unique(key).tolist():
        here = order[key == number]
        usual = lower_median(graph.duration[here])
        slow = graph.duration[here] > (1.0 + _MORE_OF_TRANSFERS) * usual
        factors[here[slow]] = usual / graph.duration[here[slow]]
    return factors
