"""The chain of work that decided when a step ended: operations, launches, kernels, and collectives that join ranks.

It is walked back from the last end: each piece of work began when the last of what it waited for had ended, and a
collective when its last member had arrived, where the chain goes on with that member's rank.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .step_graph import StepGraph

__all__ = ["CriticalPath", "PathPart", "PathPiece", "critical_path", "path_parts"]


@dataclass(frozen=True, slots=True)
class PathPiece:
    """A piece of the chain.

    Args:
        kind: In words; `latency` between the end of what it waited for and its beginning, as of a launch.
        start_s: Since the step's beginning.
    """

    rank: int
    kind: str
    name: str
    start_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The chain of one step, in its order; its pieces sum to the step."""

    step: int
    step_s: float
    pieces: tuple[PathPiece, ...]


@dataclass(frozen=True, slots=True)
class PathPart:
    """What one thing takes of the chains of several steps.

    Args:
        seconds: Of a mean step.
        share: Of a mean step.
    """

    name: str
    seconds: float
    share: float


def critical_path(graph: StepGraph, place: int) -> CriticalPath:
    """Return the chain of the step at this place of `graph.steps`."""
    inside = (graph.step >= 0) & (graph.step <= place)
    earlier = inside & (graph.step < place)
    begin = float(graph.end[earlier].max()) if earlier.any() else graph.begin
    if not (inside & ~earlier).any():
        return CriticalPath(int(graph.steps[place]), 0.0, ())
    end = graph.end
    node = int(np.flatnonzero(inside)[np.argmax(end[inside])])
    pieces: list[PathPiece] = []
    until = float(end[node])
    last = until

    def add(of: int, kind: str, name: str, since: float) -> None:
        nonlocal until
        since = max(since, begin)
        if until > since:
            pieces.append(PathPiece(graph.ranks[graph.rank[of]], kind, name, since - begin, until - since))
            until = since

    while until > begin:
        add(node, graph.words(int(graph.kind[node])), graph.names[graph.name[node]], float(graph.start[node]))
        if graph.join[node] >= 0:
            node = _last_member(graph, node)
        before = graph.before[graph.first[node] : graph.first[node + 1]]
        if not len(before):
            add(node, "latency", "before the first event", -np.inf)
            break
        previous = int(before[np.argmax(end[before])])
        add(node, "latency", f"before {graph.names[graph.name[node]]}", float(end[previous]))
        node = previous
    return CriticalPath(int(graph.steps[place]), last - begin, tuple(reversed(pieces)))


def _last_member(graph: StepGraph, node: int) -> int:
    first = last = node
    while first > 0 and graph.join[first - 1] == graph.join[node]:
        first -= 1
    while last + 1 < len(graph.join) and graph.join[last + 1] == graph.join[node]:
        last += 1
    return first + int(np.argmax(graph.arrival[first : last + 1]))


def path_parts(paths: Sequence[CriticalPath], by: str) -> tuple[PathPart, ...]:
    """Return what the chains consist of by `rank`, `kind` or `name` of their pieces, the longest first."""
    sums: dict[str, float] = defaultdict(float)
    for path in paths:
        for piece in path.pieces:
            sums[str(getattr(piece, by))] += piece.seconds
    whole = sum(path.step_s for path in paths) or 1.0
    made = (PathPart(name, seconds / len(paths), seconds / whole) for name, seconds in sums.items())
    return tuple(sorted(made, key=lambda part: -part.seconds))
