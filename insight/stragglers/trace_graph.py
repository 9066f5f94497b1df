"""Builds the step graph of traced ranks: operations on the lanes of each rank, and what they wait for.

A lane is a thread of the processor or a stream of a device. A lane of the processor is cut where it launches a kernel,
calls a collective or waits for the device, and between its operations Python runs. Kernels wait for their launch and
their stream; waiting calls for their kernel; who did nothing until another lane of its rank had ended waited for it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import UnreadableTrace
from ..traces.collective_calls import RankCall
from ..traces.device_idle import launches
from ..traces.intervals import outermost
from ..traces.job_trace import JobTrace
from ..traces.rank_trace import Kind, RankTrace
from .pipeline_stages import pipeline_stages
from .step_graph import Activity, Floats, GraphBuilder, Integers, StepGraph

__all__ = ["trace_graph"]

_WAITS: Final = re.compile(r"Synchronize$|^(cuda|hip)Memcpy$")
#: A lane that did nothing for as long as this waited, if another lane ended meanwhile. Our choice: Python needs some
#: 5 us from one operation to the next.
_PAUSE_S: Final = 2e-5
#: From the end of a kernel to the beginning of one that waited for it on another stream. Our choice; `device_idle.py`.
_HANDED_OVER_S: Final = 5e-5
#: Times are rounded to nanoseconds.
_ROUNDING_S: Final = 2e-9
_HOST_WORK: Final = (Kind.OPERATION, Kind.RUNTIME, Kind.DATA, Kind.GARBAGE_COLLECTION)
_ACTIVITY: Final = {
    Kind.OPERATION: Activity.COMPUTE,
    Kind.RUNTIME: Activity.COMPUTE,
    Kind.COMPUTE: Activity.COMPUTE,
    Kind.MEMORY: Activity.MEMORY,
    Kind.COMMUNICATION: Activity.COMMUNICATION,
    Kind.DATA: Activity.DATA,
    Kind.GARBAGE_COLLECTION: Activity.GARBAGE_COLLECTION,
}


def trace_graph(job: JobTrace) -> StepGraph:
    """Return the graph of the steps that every rank has.

    Raises:
        UnreadableTrace: No event is the work of a processor or device.
    """
    builder = GraphBuilder()
    steps = np.array(job.steps, np.int64)
    missing = list(job.notes)
    if not len(steps):
        steps = np.zeros(1, np.int64)
        missing.append("the ranks have no step in common: the whole trace is one step")
    of_call: dict[tuple[int, int], tuple[int, int]] = {}
    met = _met(job)
    for place, (trace, calls) in enumerate(zip(job.ranks, job.calls, strict=True)):
        of_call |= _RankGraph(builder, place, trace, calls, steps, met[place]).build()
    if builder.is_empty:
        raise UnreadableTrace(
            f"no event of {job.ranks[0].file.path!r} is work: expected are categories such as cpu_op, cuda_runtime and "
            "kernel, as torch.profiler's export_chrome_trace writes them"
        )
    for entry in job.joined:
        nodes = [of_call[call.rank, call.index] for call in entry.calls if (call.rank, call.index) in of_call]
        if len(nodes) < 2:
            continue
        if entry.operation == "send" and not job.ranks[0].has_device:
            _receive(builder, nodes)
        else:
            builder.join([node for node, _ in nodes])
    begin = min(float(trace.steps.begin[_first(trace, steps)]) for trace in job.ranks)
    sizes = np.array([_sizes(trace, steps) for trace in job.ranks]).reshape(len(job.ranks), len(steps))
    missing += _not_traced(job, sizes)
    return builder.build(
        ranks=tuple(trace.rank for trace in job.ranks),
        hosts=tuple(trace.host for trace in job.ranks),
        stages=pipeline_stages(job),
        steps=steps,
        begin=begin,
        sizes=sizes,
        missing=tuple(missing),
    )


def _not_traced(job: JobTrace, sizes: Floats) -> list[str]:
    """Return what the traces could have had."""
    lines = []
    if not np.isfinite(sizes).any():
        lines.append("how much data each rank got: record shapes (record_shapes=True)")
    if not any((trace.kind == Kind.GARBAGE_COLLECTION).any() for trace in job.ranks):
        lines.append("garbage collections, if there were any: the profiler's record_python_gc_info notes them")
    return lines


def _met(job: JobTrace) -> list[dict[int, float]]:
    """Return, for each rank, when the last member of each of its collectives arrived, by its event."""
    place = {trace.rank: at for at, trace in enumerate(job.ranks)}
    met: list[dict[int, float]] = [{} for _ in job.ranks]
    for entry in job.joined:
        last = max(float(job.ranks[place[call.rank]].start[call.index]) for call in entry.calls)
        for call in entry.calls:
            met[place[call.rank]][call.index] = last
    return met


def _receive(builder: GraphBuilder, nodes: Sequence[tuple[int, int]]) -> None:
    """Let a receive wait for what came before the send: the sender goes on without the receiver."""
    (_, before_send), (receive, _) = nodes
    if before_send >= 0:
        builder.edge(np.array([before_send]), np.array([receive]))


def _first(trace: RankTrace, steps: Integers) -> int:
    found = np.flatnonzero(trace.steps.numbers == steps[0])
    return int(found[0]) if len(found) else 0


def _place(trace: RankTrace, steps: Integers, moments: Floats) -> Integers:
    """Return the place of the step of each moment: -1 before the first, `len(steps)` after the last."""
    own = trace.steps.of(moments)
    number = trace.steps.numbers[np.maximum(own, 0)]
    place = np.minimum(np.searchsorted(steps, number), len(steps) - 1)
    begin = trace.steps.begin[_first(trace, steps)]
    outside = np.where(moments < begin, -1, len(steps))
    return np.where((own >= 0) & (steps[place] == number), place, outside)


def _sizes(trace: RankTrace, steps: Integers) -> Floats:
    """Return the elements that each step got: the tokens of embeddings if there are any, or the inputs of products."""
    size = np.nan_to_num(trace.file.events["size"])
    where = np.flatnonzero((size > 0.0) & (trace.kind == Kind.OPERATION))
    embeds = np.array(
        [
            name == "aten::embedding"
            for name in (trace.file.names[n] for n in trace.file.events["name"][where].tolist())
        ],
        np.bool_,
    )
    if embeds.any():
        where = where[embeds]
    place = _place(trace, steps, trace.start[where])
    inside = (place >= 0) & (place < len(steps))
    total = np.bincount(place[inside], weights=size[where][inside], minlength=len(steps))
    return np.where(total > 0.0, total, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class _Lane:
    """Consecutive pieces of one lane, each a node.

    Args:
        is_pause: Which of them are Python's.
        events: The event of each, on lanes that are not cut into pieces; else empty.
    """

    nodes: Integers
    start: Floats
    end: Floats
    is_pause: NDArray[np.bool_]
    events: Integers


class _RankGraph:
    """The nodes and edges of one rank."""

    def __init__(
        self,
        builder: GraphBuilder,
        place: int,
        trace: RankTrace,
        calls: Sequence[RankCall],
        steps: Integers,
        met: dict[int, float],
    ) -> None:
        self._met, self._lanes = met, 0
        self._builder, self._rank, self._trace, self._calls, self._steps = builder, place, trace, calls, steps
        self._kernels, self._launchers = launches(trace)
        self._events = trace.file.events
        self._numbers = np.array([builder.number(name) for name in trace.file.names] or [0], np.int64)

    def build(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Add them; return the node of each collective, and the node before it on its lane (-1 for none)."""
        lanes = self._host_lanes()
        collectives = self._collectives_of_host(lanes)
        streams = self._streams()
        self._wait_for_lanes([*lanes, *collectives])
        of_call = {}
        at: dict[int, int] = {}
        for lane in [*collectives, *streams]:
            self._builder.edge(lane.nodes[:-1], lane.nodes[1:])
        for lane in streams:
            at |= dict(zip(lane.events.tolist(), lane.nodes.tolist(), strict=True))
        self._launch(lanes, at)
        self._wait_for_streams(streams)
        self._synchronise(lanes, at)
        ends, nodes = _ends([*lanes, *collectives])
        for lane in [*collectives, *streams]:
            for event, node, start in zip(*(c.tolist() for c in (lane.events, lane.nodes, lane.start)), strict=True):
                before = int(np.searchsorted(ends, start + _ROUNDING_S, "right")) - 1
                of_call[self._trace.rank, event] = node, int(nodes[before]) if before >= 0 else -1
        wanted = {(self._trace.rank, call.index) for call in self._calls}
        return {key: value for key, value in of_call.items() if key in wanted}

    def _host_lanes(self) -> list[_Lane]:
        """Add the lanes of the processor, each cut into pieces."""
        kind = self._trace.kind
        work = np.flatnonzero(np.isin(kind, _HOST_WORK))
        lane = self._events["lane"][work].astype(np.int64)
        cuts = self._cuts()
        collected = kind[work] == Kind.GARBAGE_COLLECTION
        return [
            self._host_lane(
                work[(lane == number) & ~collected], work[(lane == number) & collected], cuts.get(number, np.empty(0))
            )
            for number in np.unique(lane).tolist()
        ]

    def _cuts(self) -> dict[int, Floats]:
        """Return when each lane launches, calls a collective, or begins or ends to wait for the device."""
        trace = self._trace
        waits = self._waiting_calls()
        names = self._events["name"]
        is_call = np.array([name.startswith("c10d::") for name in trace.file.names], np.bool_)[names] & (
            trace.kind == Kind.OPERATION
        )
        at = np.concatenate([self._launchers, np.flatnonzero(is_call), waits])
        moments = np.concatenate([trace.start[at], trace.end[waits]])
        lanes = np.concatenate([self._events["lane"][at], self._events["lane"][waits]])
        return {int(number): moments[lanes == number] for number in np.unique(lanes)}

    def _waiting_calls(self) -> Integers:
        if not self._trace.has_device:
            return np.empty(0, np.int64)
        waits = np.array([bool(_WAITS.search(name)) for name in self._trace.file.names], np.bool_)
        plain = waits[self._events["name"]] & (self._trace.kind == Kind.RUNTIME)
        blocked = self._launchers[self._trace.end[self._kernels] <= self._trace.end[self._launchers]]
        return np.union1d(np.flatnonzero(plain), blocked)

    def _host_lane(self, work: Integers, collections: Integers, cuts: Floats) -> _Lane:
        trace = self._trace
        outer = work[outermost(np.zeros(len(work), np.int64), trace.start[work], trace.end[work])]
        start, end = trace.start[outer], np.minimum(trace.end[outer], np.append(trace.start[outer][1:], np.inf))
        low, high = trace.start[collections], trace.end[collections]
        edges = np.unique(np.concatenate([start, end, cuts, low, high, trace.steps.begin]))
        first, last = (
            min(start.min(initial=np.inf), low.min(initial=np.inf)),
            max(end.max(initial=0.0), high.max(initial=0.0)),
        )
        edges = edges[(edges >= first) & (edges <= last)]
        edges = edges[np.diff(edges, prepend=-np.inf) > _ROUNDING_S]
        begin, until = edges[:-1], edges[1:]
        middle = (begin + until) / 2.0
        at = np.maximum(np.searchsorted(start, middle, "right") - 1, 0)
        inside = (start[at] <= middle) & (middle < end[at]) if len(start) else np.zeros(len(middle), np.bool_)
        kinds = np.array([self._activity(kind) for kind in trace.kind[outer].tolist()] or [Activity.HOST], np.int64)
        kind = np.where(inside, kinds[at] if len(start) else 0, Activity.HOST)
        name = self._names(outer, at, inside)
        collected = np.searchsorted(np.sort(low), middle, "right") > np.searchsorted(np.sort(high), middle, "right")
        kind = np.where(collected, Activity.GARBAGE_COLLECTION, kind)
        name = np.where(collected, self._builder.number("garbage collection"), name)
        nodes = self._add(begin, until, kind, name)
        self._builder.edge(nodes[:-1], nodes[1:])
        return _Lane(nodes, begin, until, ~inside & ~collected, np.empty(0, np.int64))

    def _names(self, outer: Integers, at: Integers, inside: NDArray[np.bool_]) -> Integers:
        """Return the name of each piece: its operation's, or for Python the operation that it precedes."""
        if not len(outer):
            return np.zeros(len(at), np.int64)
        names = self._events["name"][outer]
        texts = {
            int(number): self._builder.number(f"Python before {self._trace.file.names[number]}")
            for number in np.unique(names)
        }
        own = self._numbers[names]
        before = np.array([texts[int(number)] for number in names], np.int64)
        return np.where(inside, own[at], before[np.minimum(at + 1, len(own) - 1)])

    def _activity(self, kind: int) -> Activity:
        activity = _ACTIVITY[Kind(kind)]
        return Activity.LAUNCH if activity is Activity.COMPUTE and self._trace.has_device else activity

    def _add(self, start: Floats, end: Floats, kind: Integers, name: Integers) -> Integers:
        step = _place(self._trace, self._steps, start + _ROUNDING_S)
        lane = self._lanes = self._lanes + 1
        return self._builder.add(
            rank=self._rank, lane=self._rank << 20 | lane, step=step, kind=kind, name=name, start=start, end=end
        )

    def _lane_of(self, events: Integers, end: Floats) -> _Lane:
        """Add one node for each of these events, which follow each other."""
        start = self._trace.start[events]
        end = np.minimum(end, np.maximum(np.append(start[1:], np.inf), start))
        kind = np.array([_ACTIVITY[Kind(kind)] for kind in self._trace.kind[events].tolist()], np.int64)
        nodes = self._add(start, end, kind, self._numbers[self._events["name"][events]])
        return _Lane(nodes, start, end, np.zeros(len(nodes), np.bool_), events)

    def _collectives_of_host(self, lanes: Sequence[_Lane]) -> list[_Lane]:
        if self._trace.has_device:
            return []
        where = np.flatnonzero(self._trace.kind == Kind.COMMUNICATION)
        lane, end = self._events["lane"][where], self._released(where, lanes)
        return [self._lane_of(where[lane == number], end[lane == number]) for number in np.unique(lane).tolist()]

    def _released(self, calls: Integers, lanes: Sequence[_Lane]) -> Floats:
        """Return when the calls ended: the thread that waits is told before the trace notes the end.

        Such a thread did nothing while the last member arrived, and went on before the end.
        """
        since = np.concatenate([lane.start[lane.is_pause] for lane in lanes] or [np.empty(0)])
        until = np.concatenate([lane.end[lane.is_pause] for lane in lanes] or [np.empty(0)])
        is_long = until - since > _PAUSE_S
        order = np.argsort(since[is_long], kind="stable")
        since, until = since[is_long][order], until[is_long][order]
        end = self._trace.end[calls].copy()
        for place, call in enumerate(calls.tolist()):
            met = self._met.get(call)
            at = -1 if met is None else int(np.searchsorted(since, met, "right")) - 1
            if met is not None and at >= 0 and met < until[at] < end[place]:
                end[place] = until[at]
        return end

    def _streams(self) -> list[_Lane]:
        where = np.flatnonzero(self._trace.on_device)
        stream, end = self._events["stream"][where], self._trace.end[where]
        return [self._lane_of(where[stream == number], end[stream == number]) for number in np.unique(stream).tolist()]

    def _wait_for_lanes(self, lanes: Sequence[_Lane]) -> None:
        """Let a pause, and a collective of gloo, wait for what ended last on another lane during it."""
        for place, lane in enumerate(lanes):
            ends, nodes = _ends([other for at, other in enumerate(lanes) if at != place])
            if not len(ends):
                continue
            is_call = not lane.is_pause.any()
            until = lane.start if is_call else lane.end
            since = np.concatenate([[-np.inf], lane.end[:-1]]) if is_call else lane.start
            wanted = (np.ones(len(until), np.bool_) if is_call else lane.is_pause) & (until - since > _PAUSE_S)
            at = np.searchsorted(ends, until + _ROUNDING_S, "right") - 1
            wanted &= (at >= 0) & (ends[np.maximum(at, 0)] > since)
            self._builder.edge(nodes[at[wanted]], lane.nodes[wanted])

    def _launch(self, lanes: Sequence[_Lane], at: dict[int, int]) -> None:
        """Let kernels wait for the piece of the processor's lane that ends where their launch begins."""
        ends, nodes = _ends(lanes)
        if not len(ends):
            return
        before = np.searchsorted(ends, self._trace.start[self._launchers] + _ROUNDING_S, "right") - 1
        kernels = np.array([at.get(kernel, -1) for kernel in self._kernels.tolist()], np.int64)
        known = (before >= 0) & (kernels >= 0)
        self._builder.edge(nodes[before[known]], kernels[known])

    def _wait_for_streams(self, streams: Sequence[_Lane]) -> None:
        """Let a kernel that began right after one of another stream wait for it."""
        for place, lane in enumerate(streams):
            ends, nodes = _ends([other for at, other in enumerate(streams) if at != place])
            if not len(ends):
                continue
            at = np.searchsorted(ends, lane.start + _ROUNDING_S, "right") - 1
            since = np.concatenate([[-np.inf], lane.end[:-1]])
            last = ends[np.maximum(at, 0)]
            near = (at >= 0) & (lane.start - last <= _HANDED_OVER_S) & (last > since)
            self._builder.edge(nodes[at[near]], lane.nodes[near])

    def _synchronise(self, lanes: Sequence[_Lane], at: dict[int, int]) -> None:
        """Let calls that wait for the device wait for the last kernel that ends during them."""
        waits = self._waiting_calls()
        kernels = np.flatnonzero(self._trace.on_device)
        if not len(waits) or not len(kernels):
            return
        order = np.argsort(self._trace.end[kernels], kind="stable")
        kernels = kernels[order]
        ends = self._trace.end[kernels]
        last = np.searchsorted(ends, self._trace.end[waits] + _ROUNDING_S, "right") - 1
        held = (last >= 0) & (ends[np.maximum(last, 0)] >= self._trace.start[waits])
        starts, nodes = _starts(lanes)
        for wait, place in zip(waits[held].tolist(), last[held].tolist(), strict=True):
            piece = int(np.searchsorted(starts, self._trace.start[wait] - _ROUNDING_S))
            if piece < len(nodes):
                self._builder.edge(np.array([at[int(kernels[place])]]), nodes[piece : piece + 1])


def _ends(lanes: Sequence[_Lane]) -> tuple[Floats, Integers]:
    """Return the ends of the pieces at which something ran, ascending, and their nodes."""
    return _by(lanes, [lane.end for lane in lanes])


def _starts(lanes: Sequence[_Lane]) -> tuple[Floats, Integers]:
    return _by(lanes, [lane.start for lane in lanes])


def _by(lanes: Sequence[_Lane], times: Sequence[Floats]) -> tuple[Floats, Integers]:
    if not lanes:
        return np.empty(0), np.empty(0, np.int64)
    moments = np.concatenate([values[~lane.is_pause] for values, lane in zip(times, lanes, strict=True)])
    nodes = np.concatenate([lane.nodes[~lane.is_pause] for lane in lanes])
    order = np.argsort(moments, kind="stable")
    return moments[order], nodes[order]
