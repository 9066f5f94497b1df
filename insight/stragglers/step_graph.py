"""What every rank did in every step, what each piece of work waited for, and which collectives joined the ranks.

Traces and stored runs both become this graph; replay and attribution know nothing of where it came from.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["WORDS", "Activity", "GraphBuilder", "StepGraph"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Activity(IntEnum):
    """What a node of the graph is; `LAUNCH` is an operation of a processor that has a device compute."""

    COMPUTE = 0
    HOST = 1
    DATA = 2
    GARBAGE_COLLECTION = 3
    MEMORY = 4
    COMMUNICATION = 5
    LAUNCH = 6


#: Activities in words.
WORDS: Final = {
    Activity.COMPUTE: "computing",
    Activity.HOST: "Python between operations",
    Activity.DATA: "data loading",
    Activity.GARBAGE_COLLECTION: "garbage collection",
    Activity.MEMORY: "copies",
    Activity.COMMUNICATION: "communication",
    Activity.LAUNCH: "launching operations",
}


@dataclass(frozen=True, slots=True, eq=False)
class StepGraph:
    """Nodes in an order in which each comes after all that it waits for.

    A node begins when the last of its predecessors has ended, and `lag` later; members of one collective begin
    together, when the last has arrived. It ends `duration` later. The measured values give the measured times.

    Args:
        ranks, hosts, stages: Of each rank: number, machine ("" if unknown), pipeline stage (-1 if there is none).
        steps: `(s,)`, their numbers.
        begin: When the first step begins, seconds.
        names: Of operations.
        rank, step, kind, name, lane: `(n,)`; `rank` and `step` are places in the tuples above, `step` is -1 before the
            first and `s` after the last one; `kind` is an `Activity`; `lane` numbers threads and streams of all ranks.
        arrival: `(n,)`, seconds: when the node was ready, before it waited for other members.
        start, duration, lag: `(n,)`, seconds.
        join: `(n,)`, number of the collective; -1 for none. Members stand side by side.
        first, before: Predecessors of node `i` are `before[first[i]:first[i + 1]]`.
        sizes: `(ranks, s)`, elements that the rank was given in the step (tokens, samples); NaN if unknown.
        missing: What the source does not tell, a line each.
        data_words: What data loading is called, where the source cannot tell it from other work.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    stages: tuple[int, ...]
    steps: Integers
    begin: float
    names: tuple[str, ...]
    rank: Integers
    step: Integers
    kind: Integers
    name: Integers
    lane: Integers
    arrival: Floats
    start: Floats
    duration: Floats
    lag: Floats
    join: Integers
    first: Integers
    before: Integers
    sizes: Floats
    missing: tuple[str, ...] = ()
    data_words: str = WORDS[Activity.DATA]

    def words(self, kind: int) -> str:
        """Return what an activity is called."""
        return self.data_words if kind == Activity.DATA else WORDS[Activity(kind)]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which nodes are of a step, `(n,)`; others lie before the first or behind the last."""
        return (self.step >= 0) & (self.step < len(self.steps))

    @property
    def end(self) -> Floats:
        """When each node ended, `(n,)` seconds."""
        return self.start + self.duration

    @property
    def wait(self) -> Floats:
        """For how long each node waited for the other members of its collective, `(n,)` seconds."""
        return np.where(self.join >= 0, np.maximum(self.start - self.arrival, 0.0), 0.0)


@dataclass(slots=True)
class GraphBuilder:
    """Collects nodes and edges, and puts them in order.

    Args:
        names: Number of each name, as it is met.
    """

    names: dict[str, int] = field(default_factory=dict)
    _columns: list[tuple[Integers, Integers, Integers, Integers, Integers, Floats, Floats]] = field(
        default_factory=list
    )
    _edges: list[tuple[Integers, Integers]] = field(default_factory=list)
    _joins: list[list[int]] = field(default_factory=list)
    _count: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no node was added."""
        return self._count == 0

    def number(self, name: str) -> int:
        """Return the number of the name."""
        return self.names.setdefault(name, len(self.names))

    def add(
        self, *, rank: int, lane: int, step: Integers, kind: Integers, name: Integers, start: Floats, end: Floats
    ) -> Integers:
        """Add nodes of one lane of a rank; return their numbers."""
        place, where = np.full(len(start), rank, np.int64), np.full(len(start), lane, np.int64)
        step, kind, name = step.astype(np.int64), kind.astype(np.int64), name.astype(np.int64)
        self._columns.append((place, step, kind, name, where, start, end))
        self._count += len(start)
        return np.arange(self._count - len(start), self._count)

    def edge(self, before: Integers, after: Integers) -> None:
        """Let nodes wait for others, pair by pair."""
        self._edges.append((before, after))

    def join(self, members: list[int]) -> None:
        """Let the nodes begin together."""
        self._joins.append(members)

    def build(
        self,
        *,
        ranks: tuple[int, ...],
        hosts: tuple[str, ...],
        stages: tuple[int, ...],
        steps: Integers,
        begin: float,
        sizes: Floats,
        missing: tuple[str, ...],
        data_words: str = WORDS[Activity.DATA],
    ) -> StepGraph:
        """Return the graph; edges that go back in time are left out."""
        rank, step, kind, name, lane, start, end = (
            np.concatenate(column) for column in zip(*self._columns, strict=True)
        )
        join, together = self._joined(start, end)
        before, after = self._timely_edges(join, start, end)
        ready = np.full(len(start), -np.inf)
        np.maximum.at(ready, after, end[before])
        together = np.where(join >= 0, together, np.maximum(np.minimum(np.maximum(start, ready), end), start))
        order = np.lexsort((np.arange(len(start)), join, _turn(join, before, after), together))
        first, before = _in_order(order, before, after)
        ready, begun = _ready(first, before, end[order]), together[order]
        arrival, join = start[order], _renumbered(join[order])
        return StepGraph(
            ranks=ranks,
            hosts=hosts,
            stages=stages,
            steps=steps,
            begin=begin,
            names=tuple(self.names),
            rank=rank[order],
            step=step[order],
            kind=kind[order],
            name=name[order],
            lane=lane[order],
            arrival=arrival,
            start=begun,
            duration=end[order] - begun,
            lag=np.where(np.isfinite(ready), np.where(join >= 0, arrival, begun) - ready, 0.0),
            join=join,
            first=first,
            before=before,
            sizes=sizes,
            missing=missing,
            data_words=data_words,
        )

    def _joined(self, start: Floats, end: Floats) -> tuple[Integers, Floats]:
        """Return the collective of each node, and when its last member arrived; for other nodes their start.

        A collective that ends on one rank before it begins on another is none: its clocks do not agree.
        """
        join, together = np.full(len(start), -1, np.int64), start.copy()
        for number, members in enumerate(self._joins):
            last = float(start[members].max())
            if last <= float(end[members].min()) + _CLOCK_S:
                join[members], together[members] = number, last
        return join, together

    def _timely_edges(self, join: Integers, start: Floats, end: Floats) -> tuple[Integers, Integers]:
        """Return the edges that go forward in time."""
        if not self._edges:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        before, after = (np.concatenate(column) for column in zip(*self._edges, strict=True))
        sound = end[before] <= np.where(join[after] >= 0, start[after], end[after]) + _CLOCK_S
        sound &= (join[before] < 0) | (join[before] != join[after])
        return before[sound], after[sound]


#: What clocks of one machine, or of its devices, may be apart.
_CLOCK_S: Final = 1e-4


def _turn(join: Integers, before: Integers, after: Integers) -> Integers:
    """Return who comes first of nodes that begin at one moment: what a collective waits for, it, and the others."""
    turn = np.where(join >= 0, 1, 2)
    turn[before[(join[after] >= 0) & (join[before] < 0)]] = 0
    return turn


def _renumbered(join: Integers) -> Integers:
    """Number the collectives in their order."""
    if not len(join):
        return join
    is_new = np.concatenate([[join[0] >= 0], (join[1:] != join[:-1]) & (join[1:] >= 0)])
    return np.where(join >= 0, np.cumsum(is_new) - 1, -1)


def _in_order(order: Integers, before: Integers, after: Integers) -> tuple[Integers, Integers]:
    """Return the predecessors of the nodes in their order, without those that would come later."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    before, after = place[before], place[after]
    sound = before < after
    before, after = before[sound], after[sound]
    by_node = np.lexsort((before, after))
    return np.searchsorted(after[by_node], np.arange(len(order) + 1)), before[by_node]


def _ready(first: Integers, before: Integers, end: Floats) -> Floats:
    """Return when the last predecessor of each node had ended; -inf without one."""
    ready = np.full(len(end), -np.inf)
    has = np.diff(first) > 0
    if has.any():
        ready[has] = np.maximum.reduceat(end[before], first[:-1][has])
    return ready
