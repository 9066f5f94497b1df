"""Who waited for whom in one step: a time line of work and collectives, from the recorded waiting of every rank."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...insight.rank_times import newest_stacks
from ...storage import Run
from ...storage.ranks.rank_stack import RankStack
from ...storage.ranks.topology import Topology
from ...storage.transfers import is_send, offset_of
from .reader import Reader

Floats = NDArray[np.float64]
#: Calls of collectives that are drawn; our choice, as many as a screen shows.
_CALLS: Final = 48
#: Of ranks that are some of a group, the one that waited least came last if it waited less than this share of the
#: longest; otherwise the last is none of them. Our choice.
_LAST: Final = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveMoment:
    """One call of a collective in a step; arrays are `(ranks,)`, NaN for ranks that did not call it.

    Args:
        site: `operation/group`.
        arrived_s: When each rank came, from the beginning of the step.
        met_s: When the last rank of its group had come.
        ended_s: When it was over.
        cause: The position of the rank that came last of its group, -1 for ranks that did not call it, -2 where that
            rank is not among these.
    """

    site: str
    call: int
    arrived_s: Floats
    met_s: Floats
    ended_s: Floats
    cause: NDArray[np.int64]

    @property
    def waits_s(self) -> Floats:
        """How long each rank waited."""
        return self.met_s - self.arrived_s


@dataclass(frozen=True, slots=True, eq=False)
class StepWaits:
    """The time line of one step.

    Args:
        ranks: `(ranks,)`.
        moments: In the order of the calls.
        step_s: `(ranks,)`, the length of the step.
    """

    step: int
    ranks: NDArray[np.int64]
    moments: tuple[CollectiveMoment, ...]
    step_s: Floats


def step_waits(reader: Reader, run: Run, topology: Topology, step: int | None) -> StepWaits | None:
    """Return the time line of a step, by default of the newest; None where no collective of it was recorded."""
    where = run.last_step if step is None else step
    found = reader.cached(
        run.id, ("step-stack", where, run.ranks), lambda store: newest_stacks(store, run, step=where, needs_all=False)
    )
    return time_line(found[-1], topology) if found else None


def time_line(stack: RankStack, topology: Topology) -> StepWaits | None:
    """Return the time line of a step; None where no collective of it was recorded.

    Recorded are, for each call, how long a rank waited and how long the call took, and the length of the step. From
    these follow the order of the ranks at each call and how far apart they came. How the work that all have in common
    is divided between the calls is not known; it is divided evenly.
    """
    calls = _calls(stack)
    if not calls or len(stack.ranks) < 2:
        return None
    taken = np.zeros(len(stack.ranks))
    step_s = stack.scalars.get("step_seconds", taken + np.nan)
    least = _moments(calls, stack, topology, 0.0)
    end = np.fmax.reduce([moment.ended_s for moment in least])
    left = np.nanmin(np.append(np.where(np.isfinite(step_s), step_s - np.nan_to_num(end), np.nan), np.inf))
    gap = max(float(left), 0.0) / (len(calls) + 1) if np.isfinite(left) else 0.0
    moments = _moments(calls, stack, topology, gap)
    last = np.fmax.reduce([moment.ended_s for moment in moments])
    return StepWaits(stack.step, stack.ranks, tuple(moments), np.fmax(step_s, last))


def _calls(stack: RankStack) -> list[tuple[str, int, Floats, Floats]]:
    """Return site, call, waiting and whole seconds `(ranks,)` of each call, in the order of their first time."""
    found = []
    for layout, stacked in stack.blocks.items():
        if layout.subject != "communication" or "wait_seconds" not in layout.statistics:
            continue
        columns = [layout.statistics.index(name) for name in ("wait_seconds", "seconds")]
        numbers = layout.calls or (0,) * len(layout.sites)
        for row, (site, call) in enumerate(zip(layout.sites, numbers, strict=True)):
            if site.endswith("]"):  # a further tensor of the call before
                continue
            wait, whole = (stacked.values[row, column].astype(np.float64) for column in columns)
            if stacked.present is not None:
                wait, whole = (np.where(stacked.present[row], values, np.nan) for values in (wait, whole))
            if np.isfinite(wait).any():
                found.append((site, call, wait, np.fmax(whole, wait)))
    return found[:_CALLS]


def _moments(
    calls: list[tuple[str, int, Floats, Floats]], stack: RankStack, topology: Topology, gap: float
) -> list[CollectiveMoment]:
    """Return the calls one after the other, each after at least so many seconds of work."""
    now = np.zeros(len(stack.ranks))
    found = []
    for site, call, wait, whole in calls:
        if (offset := offset_of(site)) is not None:
            found.append(_transfer_moment(site, call, wait, whole, now + gap, stack.ranks, offset))
            now = np.where(np.isfinite(found[-1].ended_s), found[-1].ended_s, now)
            continue
        of_rank = _groups(site, stack, topology)
        members = dict(zip(*np.unique(topology.group(site.partition("/")[2]), return_counts=True), strict=True))
        arrived, met = np.full(len(now), np.nan), np.full(len(now), np.nan)
        cause = np.full(len(now), -1, dtype=np.int64)
        for group in np.unique(of_rank).tolist():
            inside = np.flatnonzero((of_rank == group) & np.isfinite(wait))
            if not len(inside):
                continue
            at = float((now[inside] + gap + wait[inside]).max())
            met[inside], arrived[inside] = at, at - wait[inside]
            is_whole = len(inside) >= members.get(group, 0)
            known = is_whole or wait[inside].min() <= _LAST * wait[inside].max()
            cause[inside] = inside[wait[inside].argmin()] if known else -2
        ended = met + (whole - wait)
        now = np.where(np.isfinite(ended), ended, now)
        found.append(CollectiveMoment(site, call, arrived, met, ended, cause))
    return found


def _transfer_moment(
    site: str, call: int, wait: Floats, whole: Floats, arrived: Floats, ranks: NDArray[np.int64], offset: int
) -> CollectiveMoment:
    """Return a send or receive of each rank, which waits for its peer alone.

    Args:
        arrived: When each rank comes to it, at the earliest.
    """
    is_there = np.isfinite(wait)
    place = {rank: at for at, rank in enumerate(ranks.tolist())}
    peers = np.array([place.get(rank + offset, -2) for rank in ranks.tolist()], dtype=np.int64)
    arrived = np.where(is_there, arrived, np.nan)
    met = arrived + wait
    return CollectiveMoment(site, call, arrived, met, met + (whole - wait), np.where(is_there, peers, -1))


def _groups(site: str, stack: RankStack, topology: Topology) -> NDArray[np.int64]:
    """Return which process group each rank is in for a collective."""
    name = site.partition("/")[2]
    groups = topology.group(name)
    at = stack.ranks[stack.ranks < len(groups)]
    return groups[at] if len(at) == len(stack.ranks) else np.zeros(len(stack.ranks), dtype=np.int64)


#: What a rank gives to each other member of a group of n, as a share of what it hands to the operation: the volumes of
#: the ring algorithms (Patarasuk and Yuan 2009), spread evenly. Who talks to whom on the wire depends on the library.
_SHARES: Final[Mapping[str, Callable[[int], float]]] = {
    "all_reduce": lambda n: 2.0 / n,
    "reduce_scatter": lambda n: 1.0 / n,
    "reduce_scatter_tensor": lambda n: 1.0 / n,
    "reduce_scatter_single": lambda n: 1.0 / n,
    "all_to_all": lambda n: 1.0 / n,
    "all_to_all_single": lambda n: 1.0 / n,
    "all_gather": lambda n: 1.0,
    "all_gather_into_tensor": lambda n: 1.0,
    "all_gather_single": lambda n: 1.0,
}


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Who gives how much to whom in a typical step.

    Args:
        names: Of the rows and columns: ranks, or groups of them.
        sent_bytes: `(from, to)`.
        left_out: Operations of which it is not recorded who gives to whom.
        waits_s: `(from, to)`, how long sends and receives waited for each other; 0 for collectives.
    """

    names: tuple[str, ...]
    sent_bytes: Floats
    left_out: tuple[str, ...]
    waits_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """What ranks hand to one collective in a step, or send to one peer; each `(ranks,)`, NaN for ranks that do not.

    Args:
        waits_s: How long they wait in it.
    """

    size_bytes: Floats
    waits_s: Floats


def traffic(
    moved: Mapping[str, Moved],
    rows: NDArray[np.int64],
    names: tuple[str, ...],
    topology: Topology,
    ranks: NDArray[np.int64],
) -> Traffic:
    """Return who gives how much to whom.

    Args:
        moved: By site.
        rows: `(ranks,)`, the row of each rank.
        ranks: Whose values these are.
    """
    sent, waits, left_out = np.zeros((len(names), len(names))), np.zeros((len(names), len(names))), []
    for site, given in moved.items():
        operation, _, name = site.partition("/")
        if (offset := offset_of(site)) is not None:
            _add_transfers(sent, waits, given, rows, ranks, offset, sends=is_send(operation))
        elif operation in _SHARES:
            _add_collective(sent, _SHARES[operation], given.size_bytes, rows, _group_of(name, topology, ranks))
        else:
            left_out.append(operation)
    return Traffic(names, np.maximum(sent, 0.0), tuple(dict.fromkeys(left_out)), waits)


def _group_of(name: str, topology: Topology, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    groups = topology.group(name)
    return groups[ranks] if len(groups) > int(ranks.max(initial=-1)) else np.zeros(len(ranks), dtype=np.int64)


def _add_transfers(
    sent: Floats,
    waits: Floats,
    given: Moved,
    rows: NDArray[np.int64],
    ranks: NDArray[np.int64],
    offset: int,
    *,
    sends: bool,
) -> None:
    """Add what ranks send to the rank so far away, or how long they wait for what it sends."""
    place = np.full(int(ranks.max(initial=0)) + 1, -1, dtype=np.int64)
    place[ranks] = np.arange(len(ranks))
    peers = ranks + offset
    known = (peers >= 0) & (peers < len(place)) & (rows >= 0) & np.isfinite(given.size_bytes)
    at = np.flatnonzero(known)
    at = at[(place[peers[at]] >= 0) & (rows[place[peers[at]]] >= 0)]
    here, there = rows[at], rows[place[peers[at]]]
    pair = (here, there) if sends else (there, here)
    if sends:
        np.add.at(sent, pair, given.size_bytes[at])
    np.add.at(waits, pair, np.nan_to_num(given.waits_s[at]))


def _add_collective(
    sent: Floats,
    share: Callable[[int], float],
    given: Floats,
    rows: NDArray[np.int64],
    of_rank: NDArray[np.int64],
) -> None:
    """Add what the ranks of each group give to each other, as a ring algorithm spreads it."""
    inside = np.isfinite(given) & (of_rank >= 0) & (rows >= 0)
    group, row = of_rank[inside], rows[inside]
    size = np.bincount(group)
    each = given[inside] * np.array([share(max(int(n), 1)) for n in size])[group]
    shape = (len(size), len(sent))
    gives, members = np.zeros(shape), np.zeros(shape)
    np.add.at(gives, (group, row), each)
    np.add.at(members, (group, row), 1.0)
    sent += gives.T @ members
    np.subtract.at(sent, (row, row), each)  # nobody gives to itself
