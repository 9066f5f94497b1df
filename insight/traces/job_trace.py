"""Reads the traces of a job's ranks, and puts them on one clock by the collectives that they share.

A collective cannot end on one rank before another rank has begun it. Each shared call thus bounds how far the clocks of
two machines can be apart; within the bounds, the ends of a call lie together.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from ..errors import UnreadableTrace
from .collective_calls import ONE_SIDED, Joined, RankCall, join_calls, rank_calls
from .rank_trace import RankTrace, Steps, rank_trace
from .trace_file import TraceFile, read_trace_file

__all__ = ["JobTrace", "read_traces"]

#: Files of one job that are read (our choice: 4,096 ranks).
_MOST_FILES: Final = 4096
_RANK: Final = re.compile(r"rank[-_ ]?(\d{1,6})", re.IGNORECASE)
#: Within this, clocks of one machine are taken as the same. Timestamps of a device are converted to the host's clock
#: with errors of some 10 us.
_SAME_S: Final = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class JobTrace:
    """The traces of one job on one clock.

    Args:
        ranks: By rank.
        calls: The collectives of each rank.
        joined: Which of these are the same collective.
        clock_shift_s: What was added to each rank's clock.
        notes: What was left out or guessed, a line each.
    """

    ranks: tuple[RankTrace, ...]
    calls: tuple[tuple[RankCall, ...], ...]
    joined: tuple[Joined, ...]
    clock_shift_s: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Numbers of the steps that every rank has."""
        shared = set(self.ranks[0].steps.numbers.tolist())
        for trace in self.ranks[1:]:
            shared &= set(trace.steps.numbers.tolist())
        return tuple(sorted(shared))


def read_traces(paths: Iterable[str | Path]) -> JobTrace:
    """Read the traces of one job, one file a rank; a folder stands for its .json and .json.gz files.

    Raises:
        UnreadableTrace: A file is no trace, or two are of one rank.
    """
    found = [file for path in paths for file in _files(Path(path))]
    if not found:
        raise UnreadableTrace("there is no trace: name files of export_chrome_trace (.json, .json.gz), or their folder")
    if len(found) > _MOST_FILES:
        raise UnreadableTrace(f"{len(found)} traces are more than the {_MOST_FILES} that are read; name fewer")
    return job_trace([read_trace_file(path) for path in found])


def job_trace(files: Sequence[TraceFile]) -> JobTrace:
    """Return the job of these files.

    Raises:
        UnreadableTrace: Two are of one rank.
    """
    ranks, notes = _ranks(files)
    first = files[int(np.argmin(ranks))]
    origin = first.base_us, float(first.events["start"][0])
    traces = sorted(
        (rank_trace(file, rank, file.host, origin) for file, rank in zip(files, ranks, strict=True)),
        key=lambda trace: trace.rank,
    )
    notes += [note for file in files for note in file.notes]
    notes += _doubts(traces)
    calls = [rank_calls(trace) for trace in traces]
    joined = join_calls(traces, calls)
    shifts, doubts = _clock_shifts(traces, joined)
    moved = [_moved(trace, shift) for trace, shift in zip(traces, shifts, strict=True)]
    if len(traces) > 1 and not joined:
        doubts.append("no collective is in the traces of several ranks: nothing says how the ranks wait for each other")
    return JobTrace(tuple(moved), tuple(map(tuple, calls)), tuple(joined), tuple(shifts), (*notes, *doubts))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.name.endswith((".json", ".json.gz")) and file.is_file())


def _ranks(files: Sequence[TraceFile]) -> tuple[list[int], list[str]]:
    """Return the rank of each file: from within, else from its name, else its place."""
    ranks = [file.rank for file in files]
    notes: list[str] = []
    if len(files) == 1:
        return [max(ranks[0], 0)], notes
    if min(ranks) < 0 or len(set(ranks)) < len(ranks):
        named = [_RANK.findall(Path(file.path).name) for file in files]
        by_name = [int(words[-1]) if words else -1 for words in named]
        if min(by_name) >= 0 and len(set(by_name)) == len(by_name):
            ranks = by_name
            notes.append("the ranks are taken from the names of the files")
        elif all(rank < 0 for rank in ranks):
            ranks = list(range(len(files)))
            notes.append("no file names its rank: they are numbered in the order in which they were given")
    doubled = [rank for rank, count in Counter(ranks).items() if count > 1]
    if doubled or min(ranks) < 0:
        of = [file.path for file, rank in zip(files, ranks, strict=True) if rank in (doubled or [-1])]
        what = f"are all of rank {doubled[0]}" if doubled else "do not name their rank"
        raise UnreadableTrace(
            f"the traces {', '.join(map(repr, of[:3]))} {what}; name one file a rank, of one job and one time, or put "
            "the rank into the names of the files (rank0.json)"
        )
    return ranks, notes


def _doubts(traces: Sequence[RankTrace]) -> list[str]:
    notes = []
    sizes = {trace.file.world_size for trace in traces if trace.file.world_size > 0}
    if len(sizes) > 1:
        notes.append(f"the files name different numbers of ranks ({', '.join(map(str, sorted(sizes)))}): of one job?")
    elif sizes and next(iter(sizes)) > len(traces):
        notes.append(
            f"{len(traces)} of the job's {next(iter(sizes))} ranks were given: waiting for the others has no name"
        )
    sources = {trace.steps.source for trace in traces}
    if sources == {""}:
        notes.append("no step is marked (ProfilerStep of a schedule, or Optimizer.step): the whole trace is one step")
    elif len(sources) > 1:
        notes.append("the ranks mark their steps differently")
    return notes


def _moved(trace: RankTrace, shift: float) -> RankTrace:
    if not shift:
        return trace
    steps = Steps(trace.steps.numbers, trace.steps.begin + shift, trace.steps.end + shift, trace.steps.source)
    return replace(trace, start=trace.start + shift, end=trace.end + shift, steps=steps)


def _clock_shifts(traces: Sequence[RankTrace], joined: Sequence[Joined]) -> tuple[list[float], list[str]]:
    """Return what to add to each rank's clock; ranks of one machine share theirs."""
    clocks = {trace.rank: trace.host if trace.host and trace.file.base_us else f"rank {trace.rank}" for trace in traces}
    bounds = _bounds(traces, joined, clocks)
    first = clocks[traces[0].rank]
    shifts, waiting, doubts = {first: 0.0}, deque([first]), []
    while waiting:
        known = waiting.popleft()
        for (one, other), pairs in bounds.items():
            if one == known and other not in shifts:
                shift, is_certain = _shift(np.array(pairs), may_be_none=bool(traces[0].file.base_us))
                shifts[other] = shifts[known] + shift
                waiting.append(other)
                if not is_certain:
                    doubts.append(f"the clocks of {one} and {other} drift against each other: their waiting is rough")
    apart = sorted(clock for clock in set(clocks.values()) if clock not in shifts)
    if apart:
        doubts.append(f"no collective joins the clock of {first} with {', '.join(apart[:5])}: theirs is taken as it is")
    return [shifts.get(clocks[trace.rank], 0.0) for trace in traces], doubts


_Bounds = dict[tuple[str, str], list[tuple[float, float, float]]]


def _bounds(traces: Sequence[RankTrace], joined: Sequence[Joined], clocks: dict[int, str]) -> _Bounds:
    """Return, for each two clocks, what each call says of the second's shift: least, most, and the ends together."""
    at = {trace.rank: trace for trace in traces}
    bounds: _Bounds = defaultdict(list)
    for entry in joined:
        if entry.operation in ONE_SIDED:
            continue
        by_clock: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for call in entry.calls:
            trace = at[call.rank]
            by_clock[clocks[call.rank]].append((float(trace.start[call.index]), float(trace.end[call.index])))
        spans = {
            clock: (max(start for start, _ in times), min(end for _, end in times)) for clock, times in by_clock.items()
        }
        for one, (start, end) in spans.items():
            for other, (start_of_other, end_of_other) in spans.items():
                if one != other:
                    bounds[one, other].append((start - end_of_other, end - start_of_other, end - end_of_other))
    return bounds


def _shift(pairs: np.ndarray[tuple[int, int], np.dtype[np.float64]], *, may_be_none: bool) -> tuple[float, bool]:
    """Return the shift of one clock against another, and whether one shift fits all calls."""
    least, most = float(pairs[:, 0].max()), float(pairs[:, 1].min())
    together = float(np.median(pairs[:, 2]))
    if least > most + _SAME_S:
        return together, False
    if may_be_none and least <= _SAME_S and most >= -_SAME_S and abs(together) < _SAME_S:
        return 0.0, True
    return min(max(together, least), max(most, least)), True
