"""Writes a run, or a part of it, in Chrome's trace format, which chrome://tracing and Perfetto open.

Spans of phases lie where the end of the step and the order of phases put them; those of operators where they were
measured.

Reference:
    Trace Event Format, Google, 2016: duration (`X`), counter (`C`), instant (`i`) and metadata (`M`) events, times in
    microseconds.
"""

from collections.abc import Iterator, Sequence

from ...storage import Finding, Json, Run, StepRecord, Store, display_site
from .operator_profile import Profiled, profiled_steps
from .step_split import PHASES

__all__ = ["chrome_trace"]

#: The newest records that are drawn when nobody says which. Our choice: some ten thousand events open at once.
_RECORDS = 1000
_STEPS, _PHASES, _OPERATORS = 1, 2, 10
_THREADS = {_STEPS: "steps", _PHASES: "phases"}


def chrome_trace(store: Store, run: Run, *, first: int | None = None, last: int | None = None) -> dict[str, Json]:
    """Return the trace as JSON: one process per rank; threads for steps, phases and operators; memory as a counter.

    Args:
        first, last: The steps that are drawn, both included; the newest thousand by default.
    """
    events: list[Json] = []
    findings = [finding for finding in store.findings(run.id) if _within(finding.step, first, last)]
    limit = None if first is not None or last is not None else _RECORDS
    for rank in run.ranks:
        records = list(store.replay(run.id, rank=rank, first=first, last=last, limit=limit))
        profiled = [step for step in profiled_steps(store, run.id, rank=rank) if _within(step.step, first, last)]
        events += _header(rank, profiled)
        events += _steps(rank, records)
        events += _operators(rank, profiled)
        events += _findings(rank, records, findings)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"run": run.id, "name": run.name}}


def _within(step: int, first: int | None, last: int | None) -> bool:
    return (first is None or step >= first) and (last is None or step <= last)


def _header(rank: int, profiled: Sequence[Profiled]) -> Iterator[Json]:
    yield _event("M", rank, 0, "process_name", args={"name": f"rank {rank}"})
    threads = {_OPERATORS + span.thread: f"operators {span.thread}" for step in profiled for span in step.spans}
    for number, name in {**_THREADS, **threads}.items():
        yield _event("M", rank, number, "thread_name", args={"name": name})


def _steps(rank: int, records: Sequence[StepRecord]) -> Iterator[Json]:
    for record in records:
        numbers: dict[str, Json] = {name: value for name, value in record.scalars.items() if value - value == 0.0}
        seconds = record.scalars.get("step_seconds")
        if seconds is not None and seconds >= 0.0:
            start = record.time - seconds
            yield _span(rank, _STEPS, f"step {record.step}", start, seconds, {**numbers, "skipped": record.skipped})
            yield from _phases(rank, record, start)
        memory = {name.rpartition("/")[2]: value for name, value in numbers.items() if name.startswith("memory/")}
        if memory:
            yield _event("C", rank, 0, "memory", ts=record.time * 1e6, args=memory)


def _phases(rank: int, record: StepRecord, start: float) -> Iterator[Json]:
    """Yield the phases of a step in order, each beginning where the one before ends."""
    for name in PHASES:
        seconds = record.scalars.get(f"time/{name}_seconds")
        if seconds is not None and seconds > 0.0:
            yield _span(rank, _PHASES, name, start, seconds, {"step": record.step})
            start += seconds


def _operators(rank: int, profiled: Sequence[Profiled]) -> Iterator[Json]:
    for step in profiled:
        for span in step.spans:
            args: dict[str, Json] = {"phase": span.phase, "site": display_site(span.site), "step": step.step}
            yield _span(rank, _OPERATORS + span.thread, span.name, step.began + span.start_s, span.seconds, args)
        for at, size in step.memory:
            yield _event("C", rank, 0, "allocated in the step", ts=(step.began + at) * 1e6, args={"bytes": size})


def _findings(rank: int, records: Sequence[StepRecord], findings: Sequence[Finding]) -> Iterator[Json]:
    times = {record.step: record.time for record in records}
    for finding in findings:
        if finding.rank == rank and finding.step in times:
            args: dict[str, Json] = {"cause": finding.cause, "site": finding.site, "explanation": finding.explanation}
            yield {**_event("i", rank, _STEPS, finding.rule, ts=times[finding.step] * 1e6, args=args), "s": "p"}


def _span(rank: int, thread: int, name: str, start_s: float, seconds: float, args: dict[str, Json]) -> Json:
    return {**_event("X", rank, thread, name, ts=start_s * 1e6, args=args), "dur": seconds * 1e6}


def _event(kind: str, rank: int, thread: int, name: str, *, args: dict[str, Json], ts: float = 0.0) -> dict[str, Json]:
    return {"ph": kind, "pid": rank, "tid": thread, "name": name, "ts": ts, "args": args}
