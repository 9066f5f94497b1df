"""Finds the pipeline stage of each traced rank: from the names of process groups, or from who sends to whom first."""

import re
from collections import defaultdict
from typing import Final

from ..traces.job_trace import JobTrace

__all__ = ["pipeline_stages"]

_PIPELINE: Final = re.compile(r"(^|[_\W])(pp|pipe|pipeline)([_\W]|$)", re.IGNORECASE)


def pipeline_stages(job: JobTrace) -> tuple[int, ...]:
    """Return the stage of each rank, from 0; -1 for all where the job has no pipeline."""
    named = _named(job)
    found = named or _sent(job)
    stages = tuple(found.get(trace.rank, -1) for trace in job.ranks)
    return stages if len(set(stages)) > 1 and min(stages) >= 0 else (-1,) * len(stages)


def _named(job: JobTrace) -> dict[int, int]:
    """Return the place of each rank in its group of the pipeline."""
    stages: dict[int, int] = {}
    for trace in job.ranks:
        for name, ranks in trace.file.group_ranks.items():
            words = f"{name} {trace.file.group_words.get(name, '')}"
            if _PIPELINE.search(words) and trace.rank in ranks and len(ranks) > 1:
                stages.setdefault(trace.rank, ranks.index(trace.rank))
    return stages


def _sent(job: JobTrace) -> dict[int, int]:
    """Return the stages by who sends first of each two ranks: activations go before gradients."""
    at = {trace.rank: trace for trace in job.ranks}
    firsts: dict[frozenset[int], tuple[float, int, int]] = {}
    for entry in job.joined:
        if entry.operation != "send":
            continue
        one, other = entry.calls[0].rank, entry.calls[1].rank
        moment = float(at[one].start[entry.calls[0].index])
        key = frozenset((one, other))
        firsts[key] = min(firsts.get(key, (float("inf"), one, other)), (moment, one, other))
    following = defaultdict(list)
    for _, one, other in firsts.values():
        following[one].append(other)
    return _depths(following)


def _depths(following: dict[int, list[int]]) -> dict[int, int]:
    """Return how many ranks send before each rank; nothing where they send in a circle."""
    receivers = {rank for ranks in following.values() for rank in ranks}
    depths = {rank: 0 for rank in following if rank not in receivers}
    waiting, looked = list(depths), 0
    while waiting:
        looked += 1
        if looked > 100_000:
            return {}
        rank = waiting.pop()
        for other in following.get(rank, ()):
            if depths.get(other, -1) < depths[rank] + 1:
                if depths[rank] > 10_000:
                    return {}
                depths[other] = depths[rank] + 1
                waiting.append(other)
    return depths
