"""The report of traced ranks: their times, idle devices, launches, the critical path, stragglers, and its text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .stragglers import StragglerReport, critical_path, path_parts, stragglers, trace_graph
from .stragglers.critical_path import PathPart
from .stragglers.straggler_report import render_stragglers
from .traces import (
    Copy,
    JobTrace,
    LaunchCost,
    OperationTime,
    QueueLength,
    StreamIdle,
    TimeBreakdown,
    TraceDifference,
    copies,
    launch_cost,
    operation_times,
    queue_lengths,
    stream_idle,
    time_breakdown,
)

__all__ = ["TraceReport", "render_difference", "render_trace", "trace_report"]

#: Operations of a rank in the report; all are in `operation_times`.
_OPERATIONS = 20
_ROWS = 8
#: Steps whose critical path is walked (our choice; it takes a second for 50 steps of a large trace).
_PATHS = 50


@dataclass(frozen=True, slots=True)
class TraceReport:
    """A traced job.

    Args:
        steps: Numbers of the steps that all ranks have.
        breakdowns: The times of each rank.
        operations: The most expensive of each rank.
        idle, queues: Of each stream.
        launches: Of each rank with a device.
        path_by_rank, path_by_kind, path_by_name: What the critical path of a mean step consists of.
        stragglers: Who keeps the others waiting; None with one rank.
        clock_shift_s: What was added to the clock of each rank.
        notes: What was left out or guessed.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    steps: tuple[int, ...]
    breakdowns: tuple[TimeBreakdown, ...]
    operations: tuple[OperationTime, ...]
    copies: tuple[Copy, ...]
    idle: tuple[StreamIdle, ...]
    queues: tuple[QueueLength, ...]
    launches: tuple[LaunchCost, ...]
    path_by_rank: tuple[PathPart, ...]
    path_by_kind: tuple[PathPart, ...]
    path_by_name: tuple[PathPart, ...]
    stragglers: StragglerReport | None
    clock_shift_s: tuple[float, ...]
    notes: tuple[str, ...]


def trace_report(job: JobTrace) -> TraceReport:
    """Return the report of the job."""
    graph = trace_graph(job)
    paths = [critical_path(graph, place) for place in range(min(len(graph.steps), _PATHS))]
    costs = [launch_cost(trace) for trace in job.ranks]
    return TraceReport(
        ranks=tuple(trace.rank for trace in job.ranks),
        hosts=tuple(trace.host for trace in job.ranks),
        devices=tuple(sorted({name for trace in job.ranks for name in trace.file.devices})),
        steps=job.steps,
        breakdowns=tuple(time_breakdown(trace) for trace in job.ranks),
        operations=tuple(row for trace in job.ranks for row in operation_times(trace)[:_OPERATIONS]),
        copies=copies(job),
        idle=tuple(row for trace in job.ranks for row in stream_idle(trace)),
        queues=tuple(row for trace in job.ranks for row in queue_lengths(trace)),
        launches=tuple(cost for cost in costs if cost is not None),
        path_by_rank=path_parts(paths, "rank"),
        path_by_kind=path_parts(paths, "kind"),
        path_by_name=path_parts(paths, "name")[:_OPERATIONS],
        stragglers=stragglers(graph) if len(job.ranks) > 1 and job.joined else None,
        clock_shift_s=job.clock_shift_s,
        notes=graph.missing,
    )


def render_trace(report: TraceReport) -> str:
    """Return the report as text; with several ranks its first line says who keeps the others waiting."""
    lines = []
    if report.stragglers is not None:
        lines += [*render_stragglers(report.stragglers).partition("\n\nnot known:")[0].splitlines(), ""]
    lines.append(_title(report))
    for part in (_times, _operations, _copies, _idle, _launches, _path):
        lines += part(report)
    if any(abs(shift) > 0.0 for shift in report.clock_shift_s):
        shifts = ", ".join(
            f"rank {rank} {_time(shift)}"
            for rank, shift in zip(report.ranks, report.clock_shift_s, strict=True)
            if shift
        )
        lines += ["", f"clocks were moved by their collectives: {shifts}"]
    if report.notes:
        lines += ["", "not known:", *(f"  {note}" for note in report.notes)]
    return "\n".join(lines)


def _title(report: TraceReport) -> str:
    steps = f"steps {report.steps[0]} to {report.steps[-1]}" if len(report.steps) > 1 else "one step"
    return f"trace of {len(report.ranks)} rank{'s' * (len(report.ranks) > 1)}, {steps}" + (
        f", {', '.join(report.devices[:3])}" if report.devices else ", without a device"
    )


def _times(report: TraceReport) -> Iterator[str]:
    is_device = any(split.is_device for split in report.breakdowns)
    rest = "idle" if is_device else "Python"
    yield from (
        "",
        f"time of each rank: whole, computing, exposed communication, copies, data, garbage, {rest}; overlap",
    )
    for split in report.breakdowns[: 2 * _ROWS]:
        parts = (split.compute_s, split.communication_s, split.memory_s, split.data_s, split.garbage_s, split.idle_s)
        shares = "".join(f"{part / split.span_s:8.1%}" for part in parts) if split.span_s else " nothing ran"
        hidden = f"  {split.overlap:.0%} of communication hidden" if split.all_communication_s else ""
        yield f"  rank {split.rank:<4}{_time(split.span_s):>10}{shares}{hidden}"


def _operations(report: TraceReport) -> Iterator[str]:
    rank = report.ranks[0]
    rows = [row for row in report.operations if row.rank == rank][:_ROWS]
    yield from ("", f"operations of rank {rank}: calls, all of them, mean, longest")
    for row in rows:
        times = "".join(f"{_time(seconds):>10}" for seconds in (row.seconds, row.mean_s, row.max_s))
        yield f"  {row.kind:<14}{_short(row.name):<46}{row.calls:7}{times}"


def _copies(report: TraceReport) -> Iterator[str]:
    if report.copies:
        yield from ("", "copies: calls, bytes, time, bandwidth, best")
        for copy in report.copies[:_ROWS]:
            rates = (f"{rate / 1e9:.3g} GB/s" if rate == rate else "?" for rate in (copy.bandwidth, copy.best))
            yield (
                f"  rank {copy.rank:<4} {copy.name:<16}{copy.calls:7} {copy.size_bytes:>12.4g} "
                f"{_time(copy.seconds):>10} " + " ".join(f"{rate:>12}" for rate in rates)
            )


def _idle(report: TraceReport) -> Iterator[str]:
    if report.idle:
        yield from (
            "",
            "idle streams: kernels, and gaps as the processor launched late, between kernels, for other reasons; queue",
        )
        queued = {(queue.rank, queue.stream): queue for queue in report.queues}
        for row in sorted(report.idle, key=lambda row: -row.kernels)[: 2 * _ROWS]:
            queue = queued.get((row.rank, row.stream))
            words = f"  {queue.mean:.3g} kernels wait, at most {queue.most}" if queue else ""
            gaps = "".join(f"{_time(gap):>11}" for gap in (row.host_s, row.kernel_s, row.other_s))
            yield f"  rank {row.rank:<4} stream {row.stream:<4}{row.kernels:8}{gaps}{words}"


def _launches(report: TraceReport) -> Iterator[str]:
    if report.launches:
        yield from (
            "",
            "launches, as medians: number, call, kernel, delay, 95 % of delays, kernels shorter than their launch",
        )
        for cost in report.launches[:_ROWS]:
            numbers = "".join(
                f"{_time(value):>10}" for value in (cost.call_s, cost.kernel_s, cost.delay_s, cost.slow_delay_s)
            )
            yield f"  rank {cost.rank:<4}{cost.launches:8}{numbers}{cost.short:8.1%}"


def _path(report: TraceReport) -> Iterator[str]:
    yield from ("", "critical path of a mean step")
    for title, parts in (("rank", report.path_by_rank), ("", report.path_by_kind), ("", report.path_by_name)):
        for part in parts[:_ROWS]:
            if part.share >= 0.005:
                yield f"  {_short(f'{title} {part.name}'.strip()):<60}{_time(part.seconds):>10}{part.share:8.1%}"


def render_difference(found: TraceDifference) -> str:
    """Return what differs between two jobs as text."""
    before, after = found.parts[0].seconds_before, found.parts[0].seconds
    share = f" ({after / before - 1.0:+.1%})" if before else ""
    lines = [
        f"a step takes {_time(after)} instead of {_time(before)}{share}: mean over {found.ranks} and "
        f"{found.ranks_before} ranks, {found.steps} and {found.steps_before} steps",
        "",
        "parts of a step: before, after, difference",
    ]
    lines += [
        f"  {part.name:<16}{_time(part.seconds_before):>11}{_time(part.seconds):>11}"
        f"{_signed(part.seconds - part.seconds_before):>12}"
        for part in found.parts
    ]
    lines += ["", "operations of a step: calls before and after, time before and after, difference"]
    lines += _rows(found)
    return "\n".join(lines)


def _rows(found: TraceDifference) -> Sequence[str]:
    return [
        f"  {row.change:<5}{_short(row.name):<46}{row.calls_before:8.4g}{row.calls:8.4g}"
        f"{_time(row.seconds_before):>11}{_time(row.seconds):>11}{_signed(row.difference_s):>12}"
        for row in found.operations[: 2 * _ROWS]
    ]


def _short(text: str) -> str:
    return text if len(text) <= 44 else f"{text[:30]}...{text[-11:]}"


def _signed(seconds: float) -> str:
    return ("+" if seconds >= 0.0 else "-") + _time(abs(seconds))


def _time(seconds: float) -> str:
    size = abs(seconds)
    return (
        f"{seconds:.3g} s" if size >= 1.0 else f"{seconds * 1e3:.3g} ms" if size >= 1e-3 else f"{seconds * 1e6:.3g} us"
    )
