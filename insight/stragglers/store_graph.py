"""Builds the step graph of a watched run from what its ranks have recorded: the phases of their steps.

The monitor records the phases of a step as means since the last time (`time/...`, every tenth step by default). Such a
window is one step of the graph: each rank does its own work in its phases, and all meet at the end of it. What is
waiting and what is work is the answer of `rank_work`; what of the step is neither is the exchange itself.
"""

from typing import Final

import numpy as np

from ...storage import ROOT_SITE, Run, Store
from ..errors import InsightError
from ..rank_work import rank_work
from .step_graph import Activity, Floats, GraphBuilder, Integers, StepGraph

__all__ = ["NotRecorded", "store_graph"]

#: Phases in their order, and what they are in the graph.
_PHASES: Final = {
    "data": Activity.DATA,
    "forward": Activity.COMPUTE,
    "backward": Activity.COMPUTE,
    "optimizer": Activity.COMPUTE,
    "evaluation": Activity.COMPUTE,
}
#: Ranks and points of a series that are read (our choice).
_MOST_RANKS: Final = 4096
_MOST: Final = 5000
_MISSING: Final = (
    "single operations, launches and garbage collections of every rank: trace some steps with torch.profiler and use "
    "`mindscope trace`",
    "pauses within a window are spread over it: the phases are means over the steps since the last record",
    "which machine a rank ran on: the store keeps that of one rank",
)


class NotRecorded(InsightError, ValueError):
    """The run does not hold what the question needs."""


def store_graph(store: Store, run: Run) -> StepGraph:
    """Return the graph of a run's windows.

    Raises:
        NotRecorded: It has one rank, or its ranks have no phases in common.
    """
    ranks = run.ranks[:_MOST_RANKS]
    if len(ranks) < 2:
        raise NotRecorded(
            f"run {run.id!r} has one rank, and nobody waits for it: stragglers need two ranks or more; 'mindscope "
            f"profile' shows where the time of one rank goes"
        )
    tables = [_phases(store, run.id, rank) for rank in ranks]
    steps = _shared_steps(tables)
    if not len(steps):
        raise NotRecorded(
            f"the ranks of run {run.id!r} have no step in common whose phases are recorded: switch on the subject "
            "`time`, and let the run last longer than its cadence (ten steps by default)"
        )
    phases = {name: np.array([_at(table[name], steps) for table in tables]) for name in _PHASES}
    communication = np.array([_at(table["communication"], steps) for table in tables])
    sizes = np.array(
        [_sizes(table, steps, sum(each[row] for each in phases.values())) for row, table in enumerate(tables)]
    )
    missing = list(_MISSING)
    if not np.isfinite(sizes).any():
        missing.append("how much data each rank got: `throughput/...` is not recorded")
    return _graph(ranks, steps, phases, communication, sizes, tuple(missing))


_Table = dict[str, tuple[Integers, Floats]]


def _phases(store: Store, run: str, rank: int) -> _Table:
    known = frozenset(store.metrics(run, rank=rank))
    names = {name: f"scalar/time/{name}_seconds" for name in (*_PHASES, "communication")}
    names |= {name: f"scalar/throughput/{name}_per_second" for name in ("tokens", "samples")}
    made = {}
    for name, metric in names.items():
        if metric not in known:
            made[name] = np.empty(0, np.int64), np.empty(0)
            continue
        series = store.series(run, ROOT_SITE, metric, rank=rank, limit=_MOST)
        finite = np.isfinite(series.values)
        made[name] = series.steps[finite], series.values[finite]
    return made


def _shared_steps(tables: list[_Table]) -> Integers:
    shared = tables[0]["backward"][0]
    for table in tables[1:]:
        shared = np.intersect1d(shared, table["backward"][0])
    return np.unique(shared)


def _at(series: tuple[Integers, Floats], steps: Integers) -> Floats:
    """Return the values at these steps; 0 where there are none."""
    numbers, values = series
    if not len(numbers):
        return np.zeros(len(steps))
    place = np.minimum(np.searchsorted(numbers, steps), len(numbers) - 1)
    return np.where(numbers[place] == steps, np.maximum(values[place], 0.0), 0.0)


def _sizes(table: _Table, steps: Integers, step_s: Floats) -> Floats:
    """Return tokens of a step, or samples where there are no tokens; NaN if neither is recorded."""
    for name in ("tokens", "samples"):
        rate = _at(table[name], steps)
        if (rate > 0.0).any():
            return np.where(rate > 0.0, rate * step_s, np.nan)
    return np.full(len(steps), np.nan)


def _graph(
    ranks: tuple[int, ...],
    steps: Integers,
    phases: dict[str, Floats],
    communication: Floats,
    sizes: Floats,
    missing: tuple[str, ...],
) -> StepGraph:
    builder = GraphBuilder()
    kinds = np.array([*_PHASES.values()], np.int64)
    names = np.array([builder.number(name) for name in _PHASES], np.int64)
    exchange = builder.number("exchange of gradients")
    begin = 0.0
    before: list[int] = []
    for place in range(len(steps)):
        own = _own({name: times[:, place] for name, times in phases.items()}, communication[:, place])
        step_s = float(np.median(sum(times[:, place] for times in phases.values())))
        worked = own.sum(axis=0)
        until = begin + max(step_s, float(worked.max()))
        members = []
        for rank in range(len(ranks)):
            edges = begin + np.concatenate([[0.0], np.cumsum(own[:, rank])])
            some = own[:, rank] > 0.0
            some[0] |= not some.any()
            nodes = builder.add(
                rank=rank,
                lane=rank,
                step=np.full(int(some.sum()), place),
                kind=kinds[some],
                name=names[some],
                start=edges[:-1][some],
                end=edges[1:][some],
            )
            builder.edge(nodes[:-1], nodes[1:])
            if before:
                builder.edge(np.array(before[rank : rank + 1]), nodes[:1])
            last = builder.add(
                rank=rank,
                lane=rank,
                step=np.array([place]),
                kind=np.array([Activity.COMMUNICATION]),
                name=np.array([exchange]),
                start=edges[-1:],
                end=np.array([until]),
            )
            builder.edge(nodes[-1:], last)
            members.append(int(last[0]))
        builder.join(members)
        begin, before = until, members
    return builder.build(
        ranks=ranks,
        hosts=("",) * len(ranks),
        stages=(-1,) * len(ranks),
        steps=steps,
        begin=0.0,
        sizes=sizes,
        missing=missing,
        data_words="data loading, or other work of the loop before the forward",
    )


def _own(phases: dict[str, Floats], communication: Floats) -> Floats:
    """Return `(phases, ranks)` seconds of own work: what of each phase is neither waiting nor a recorded collective.

    Collectives are recorded for the step as a whole; they are taken from the phases that may hold them, the last first.
    """
    work = rank_work(phases, communication)
    own = {name: times.copy() for name, times in phases.items()}
    rest = communication.copy()
    for name, hidden in work.phase_waits.items():
        own[name] = own[name] - hidden
    for name in ("optimizer", "backward", "forward", "evaluation", "data"):
        taken = np.minimum(own[name], rest)
        own[name], rest = own[name] - taken, rest - taken
    return np.array([np.maximum(own[name], 0.0) for name in _PHASES])
