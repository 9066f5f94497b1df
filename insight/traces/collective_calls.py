"""Finds the calls of collectives in the traces of all ranks, and which of them are the same collective."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .rank_trace import Kind, RankTrace

__all__ = ["Joined", "RankCall", "join_calls", "operation_name", "rank_calls"]

#: The operation in the name of a kernel, as `ncclDevKernel_AllReduce_Sum_f32_RING_LL` has it.
_KERNEL: Final = re.compile(r"^[a-z]*?(?:Dev)?Kernel_([A-Za-z]+)")
_WORDS: Final = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgatherintotensor": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensor": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallbase": "all_to_all",
    "alltoallv": "all_to_all",
    "recvanysource": "recv",
    "sendrecv": "send_recv",
}
#: Calls that one rank can end before another has begun.
ONE_SIDED: Final = frozenset({"send", "recv", "send_recv", "broadcast", "gather", "scatter", "reduce"})
#: The share of calls whose members must all be under way at one moment for a guess of groups to hold. Our choice.
_HOLDS: Final = 0.9


@dataclass(frozen=True, slots=True)
class RankCall:
    """One call of a collective on one rank.

    Args:
        index: Its event in the rank's trace.
        operation: `all_reduce`, `send`, ...
        group: Ranks that take part; empty if the trace does not say.
        group_name: Name of the process group.
        peer: The other rank of a send or receive; -1 otherwise.
    """

    rank: int
    index: int
    operation: str
    group: tuple[int, ...]
    group_name: str
    peer: int


@dataclass(frozen=True, slots=True)
class Joined:
    """Calls of several ranks that are one collective, or a send with its receive (the send first)."""

    operation: str
    calls: tuple[RankCall, ...]


def operation_name(name: str) -> str:
    """Return the plain name of a collective, as of `gloo:all_reduce`, `c10d::allreduce_` or a kernel of NCCL."""
    kernel = _KERNEL.match(name)
    word = kernel[1] if kernel else name.rpartition(":")[2]
    letters = re.sub(r"[^a-z]", "", word.lower())
    return _WORDS.get(letters, letters or "collective")


def rank_calls(trace: RankTrace) -> list[RankCall]:
    """Return the collectives that ran on a device, or else those of gloo, in their order."""
    where = trace.kind == Kind.COMMUNICATION
    if trace.has_device:
        where &= trace.on_device
    file = trace.file
    made = []
    for index in np.flatnonzero(where).tolist():
        number = int(file.events["call"][index])
        said = file.calls[number] if number >= 0 else None
        name = file.names[file.events["name"][index]]
        operation = operation_name(said.operation if said is not None and said.operation else name)
        if said is None:
            made.append(RankCall(trace.rank, index, operation, (), "", -1))
            continue
        group = _ranks(said.ranks) or tuple(file.group_ranks.get(said.group, ()))
        made.append(RankCall(trace.rank, index, operation, group, said.group, said.peer))
    return made


def join_calls(traces: Sequence[RankTrace], calls: Sequence[Sequence[RankCall]]) -> list[Joined]:
    """Return which calls are the same collective: the n-th of an operation in its group is the n-th everywhere.

    Where traces do not name the groups, every split of the ranks into groups of the job is tried, and the one taken in
    which all members of a call are under way at one moment.
    """
    if len(traces) < 2:
        return []
    pairs, collectives = _sorted_calls(traces, calls)
    joined = [Joined("send", pair) for pair in pairs]
    splits = _splits(traces)
    for (operation, group, _), by_rank in collectives.items():
        ways = [[group]] if group else splits
        best: list[Joined] = []
        for way in ways:
            made = _matched(traces, operation, way, by_rank)
            if _share_under_way(traces, made) >= _HOLDS and len(made) > len(best):
                best = made
            if best and len(best) == len(made):
                break
        joined += best
    return joined


_Key = tuple[str, tuple[int, ...], str]


def _sorted_calls(
    traces: Sequence[RankTrace], calls: Sequence[Sequence[RankCall]]
) -> tuple[list[tuple[RankCall, ...]], dict[_Key, dict[int, list[RankCall]]]]:
    """Return sends with their receives, and the collectives by operation and group, and by rank."""
    collectives: dict[_Key, dict[int, list[RankCall]]] = defaultdict(lambda: defaultdict(list))
    sends: dict[tuple[int, int], list[RankCall]] = defaultdict(list)
    receives: dict[tuple[int, int], list[RankCall]] = defaultdict(list)
    for trace, of_rank in zip(traces, calls, strict=True):
        for call in of_rank:
            if call.operation == "send" and call.peer >= 0:
                sends[trace.rank, call.peer].append(call)
            elif call.operation == "recv" and call.peer >= 0:
                receives[call.peer, trace.rank].append(call)
            elif call.operation not in ("send", "recv", "send_recv"):
                collectives[call.operation, call.group, call.group_name][trace.rank].append(call)
    pairs: list[tuple[RankCall, ...]] = []
    for way, sent in sends.items():
        got = receives.get(way, [])
        if len(got) == len(sent):
            pairs += zip(sent, got, strict=True)
    return pairs, collectives


def _splits(traces: Sequence[RankTrace]) -> list[list[tuple[int, ...]]]:
    """Return ways to split the ranks into groups: all together, and the groups of each size that the traces name."""
    here = {trace.rank for trace in traces}
    by_size: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for trace in traces:
        for ranks in trace.file.group_ranks.values():
            members = tuple(sorted(here.intersection(ranks)))
            if 1 < len(members) < len(here):
                by_size[len(ranks)].add(members)
    return [[tuple(sorted(here))], *(sorted(groups) for _, groups in sorted(by_size.items(), reverse=True))]


def _matched(
    traces: Sequence[RankTrace],
    operation: str,
    groups: Sequence[tuple[int, ...]],
    by_rank: dict[int, list[RankCall]],
) -> list[Joined]:
    made: list[Joined] = []
    at = {trace.rank: trace for trace in traces}
    for group in groups:
        members = [rank for rank in group if rank in by_rank and rank in at]
        if len(members) < 2:
            continue
        counts = {len(by_rank[rank]) for rank in members}
        if len(counts) == 1:
            made += (Joined(operation, entry) for entry in zip(*(by_rank[rank] for rank in members), strict=True))
        else:
            made += _matched_in_steps(operation, [(at[rank], by_rank[rank]) for rank in members])
    return made


def _matched_in_steps(operation: str, members: Sequence[tuple[RankTrace, list[RankCall]]]) -> list[Joined]:
    """Match calls step by step, in the steps in which every member has equally many."""
    tables = []
    for trace, calls in members:
        places = trace.steps.of(trace.start[[call.index for call in calls]])
        table: dict[int, list[RankCall]] = defaultdict(list)
        for place, call in zip(places.tolist(), calls, strict=True):
            if place >= 0:
                table[int(trace.steps.numbers[place])].append(call)
        tables.append(table)
    steps = [step for step in tables[0] if len({len(table.get(step, ())) for table in tables}) == 1]
    return [
        Joined(operation, entry) for step in steps for entry in zip(*(table[step] for table in tables), strict=True)
    ]


def _share_under_way(traces: Sequence[RankTrace], joined: Sequence[Joined]) -> float:
    """Return the share of the calls whose members are all under way at one moment, on clocks that agree."""
    if not joined:
        return 0.0
    if joined[0].operation in ONE_SIDED or len(_hosts(traces)) > 1:
        return 1.0
    at = {trace.rank: trace for trace in traces}
    held = [
        max(float(at[call.rank].start[call.index]) for call in entry.calls)
        <= min(float(at[call.rank].end[call.index]) for call in entry.calls) + 1e-4
        for entry in joined
    ]
    return sum(held) / len(held)


def _hosts(traces: Sequence[RankTrace]) -> Counter[str]:
    """Count the machines; traces without one, or without a base of time, count apart."""
    return Counter(trace.host if trace.host and trace.file.base_us else f"rank {trace.rank}" for trace in traces)


def _ranks(text: str) -> tuple[int, ...]:
    """Return the ranks of `[0, 1, 2]`; empty where the list is cut (`...`) or missing."""
    if not text or "." in text:
        return ()
    return tuple(int(word) for word in re.findall(r"\d{1,9}", text))
