"""Replays a step graph with other durations: when would each step have ended?

Chains of nodes that nothing else joins are one node here; all variants of the durations are replayed at once.

Reference:
    Lin et al. 2025, "Understanding Stragglers in Large Model Training Using What-if Analysis", arXiv:2505.05713.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .step_graph import Floats, Integers, StepGraph

__all__ = ["Replay"]

#: Numbers that one pass holds (our choice: 256 MB).
_MOST: Final = 32_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Chains:
    """The graph with chains as nodes, in order.

    Args:
        heads: `(c,)`, the first node of each chain, in an order of nodes in which chains are side by side.
        order: `(n,)`, that order.
        before: Chains that each waits for.
        join: Number of the collective; -1 for none.
        step: `(c,)`.
    """

    heads: Integers
    order: Integers
    before: list[list[int]]
    join: list[int]
    step: Integers
    lag: Floats


class Replay:
    """A graph, ready to be replayed."""

    def __init__(self, graph: StepGraph) -> None:
        self._graph = graph
        self._chains = _chains(graph)

    def steps_s(self, durations: Sequence[Floats]) -> Floats:
        """Return how long each step takes with these durations.

        Args:
            durations: Variants of `(n,)` seconds of the nodes; the measured ones are `graph.duration`.

        Returns:
            `(variants, steps)` seconds.
        """
        at_once = max(1, _MOST // max(len(self._graph.duration), 1))
        parts = [
            self._pass(np.stack(durations[place : place + at_once], axis=1))
            for place in range(0, len(durations), at_once)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self._graph.steps)))

    def _pass(self, durations: Floats) -> Floats:
        chains, graph = self._chains, self._graph
        if not len(chains.heads):
            return np.zeros((durations.shape[1], len(graph.steps)))
        own = np.add.reduceat(durations[chains.order], chains.heads, axis=0)
        end = np.empty_like(own)
        lag, join = chains.lag.tolist(), chains.join
        origin = graph.arrival[chains.order[chains.heads]].tolist()
        place, count = 0, len(own)
        while place < count:
            members = 1
            while join[place] >= 0 and place + members < count and join[place + members] == join[place]:
                members += 1
            start: Floats | None = None
            for member in range(place, place + members):
                before = chains.before[member]
                ready = end[before[0]] if before else np.full(own.shape[1], origin[member])
                for other in before[1:]:
                    ready = np.maximum(ready, end[other])
                ready = ready + lag[member]
                start = ready if start is None else np.maximum(start, ready)
            end[place : place + members] = own[place : place + members] + start
            place += members
        return self._step_times(end)

    def _step_times(self, end: Floats) -> Floats:
        graph, steps = self._graph, self._chains.step
        ends = np.full((len(graph.steps), end.shape[1]), -np.inf)
        inside = (steps >= 0) & (steps < len(graph.steps))
        np.maximum.at(ends, steps[inside], end[inside])
        before = np.full((1, end.shape[1]), graph.begin)
        ends = np.maximum.accumulate(np.concatenate([before, ends]), axis=0)
        return np.diff(ends, axis=0).T


def _chains(graph: StepGraph) -> _Chains:
    count = len(graph.duration)
    degree = np.diff(graph.first)
    followers = np.bincount(graph.before, minlength=count)
    only = (
        np.where(degree == 1, graph.before[np.minimum(graph.first[:-1], max(len(graph.before) - 1, 0))], -1)
        if len(graph.before)
        else np.full(count, -1)
    )
    goes_on = (only >= 0) & (followers[only] == 1) & (graph.join < 0) & (graph.join[only] < 0)
    goes_on &= (graph.step == graph.step[only]) & (np.abs(graph.lag) < 1e-12)
    chain, chains = [0] * count, 0
    for node, (is_next, previous) in enumerate(zip(goes_on.tolist(), only.tolist(), strict=True)):
        if is_next:
            chain[node] = chain[previous]
        else:
            chain[node] = chains
            chains += 1
    of = np.array(chain, np.int64)
    order = np.argsort(of, kind="stable")
    is_head = ~goes_on
    heads = np.flatnonzero(is_head)
    before = [
        [chain[node] for node in graph.before[graph.first[head] : graph.first[head + 1]].tolist()]
        for head in heads.tolist()
    ]
    return _Chains(
        heads=np.searchsorted(of[order], np.arange(chains)),
        order=order,
        before=before,
        join=graph.join[heads].tolist(),
        step=graph.step[heads],
        lag=graph.lag[heads],
    )
