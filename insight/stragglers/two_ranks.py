"""Who is it of two ranks: where no majority tells what is usual, each rank's own earlier steps do, or nothing does."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .attribution import Attribution
from .recurrence import Recurrence
from .step_graph import Activity, Floats

__all__ = ["of_two", "own_course"]

#: A rank has changed if its own work is this many times what it was. Our choice: twice `_MORE` of `ideal_times.py`.
_CHANGED: Final = 1.1
#: Steps before and since the change that must be known (our choice).
_KNOWN: Final = 3


def of_two(found: Attribution) -> str:
    """Say that both ranks keep each other waiting, how often and for how long, where neither is to blame alone."""
    first, second = sorted(found.ranks, key=lambda suspect: suspect.ranks)
    used = found.used
    steps = int(used.sum())
    slower = [int((one.lost_s > other.lost_s)[used].sum()) for one, other in ((first, second), (second, first))]
    costs = [
        f"rank {rank.name} costs {rank.cost_s * 1e3:.3g} ms a step and is the slower in {count} of {steps}"
        for rank, count in zip((first, second), slower, strict=True)
    ]
    lost = found.step_s - found.peers_s
    return (
        f"no straggler, or both ranks: {', '.join(costs)}; together they lose {lost * 1e3:.3g} ms of a step of "
        f"{found.step_s * 1e3:.3g} ms. Of two ranks, no majority tells what is usual, and neither is slow all the time"
    )


def own_course(found: Attribution, rank: int, course: Recurrence) -> str:
    """Return how the rank's own work has changed, of two ranks: a clause behind the sentence that names it."""
    graph = found.graph
    if len(graph.ranks) != 2:
        return ""
    place = graph.ranks.index(rank)
    other = graph.ranks[1 - place]
    first = int(graph.steps[found.used][0])
    since = graph.steps >= course.since
    before, after = found.used & ~since, found.used & since
    if course.kind != "persistent" or course.since <= first or min(before.sum(), after.sum()) < _KNOWN:
        if course.kind == "persistent":
            return f"; by its own steps it has not changed, so it may have more to do than rank {other}, the only peer"
        return ""
    own, peers = (_times(found, index, before, after) for index in (place, 1 - place))
    if own[1] >= _CHANGED * own[0]:
        return f"; its own work took {own[0] * 1e3:.3g} ms a step before and {own[1] * 1e3:.3g} ms since"
    if peers[0] >= _CHANGED * peers[1]:
        course_words = f"{peers[0] * 1e3:.3g} ms a step before and {peers[1] * 1e3:.3g} ms since"
        return f"; its own work takes what it took before: rank {other} has become faster, from {course_words}"
    return ""


def _times(found: Attribution, place: int, before: NDArray[np.bool_], after: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the median seconds of a rank's own work in a step, before and after."""
    own: Floats = np.delete(found.times.own, Activity.COMMUNICATION, axis=0)[:, place].sum(axis=0)
    return float(np.median(own[before])), float(np.median(own[after]))
