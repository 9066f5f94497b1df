"""Attributes the time that a job loses to ranks, machines, stages and operations, and to what they did.

Each suspect is tried twice: alone made ideal, and alone left as it was while all others are ideal. What it costs is the
mean of the two: the first sees nothing of whoever hides behind another as slow, the second sees all of it.

Reference:
    Lin et al. 2025, arXiv:2505.05713: slowdown, and what-if replays that leave one worker out.
    Shapley 1953: the mean over orders; these are its first and last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .ideal_times import IdealTimes, ideal_times
from .replay import Replay
from .step_graph import Activity, Floats, StepGraph

__all__ = ["Attribution", "Suspect", "attribute"]

#: Steps from which the first is left out: it compiles, allocates and fills caches.
_SETTLED: Final = 4
#: Operations that are tried (our choice).
_OPERATIONS: Final = 8
#: Ranks that are tried (our choice: 256 variants replay in seconds); of more ranks, those that work longest.
_RANKS: Final = 128
_OTHERS: Final = (Activity.COMPUTE, Activity.HOST, Activity.MEMORY, Activity.LAUNCH)
SEQUENCES, BALANCE = "sequence lengths", "pipeline balance"


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """Something that may cost time.

    Args:
        kind: `rank`, `host`, `stage`, `operation` or `cause`.
        name: Its number, name, or words.
        ranks: Those concerned, as numbers.
        cost_s: Seconds a step that it costs: the mean of the next two.
        saved_s: Seconds a step that the job saves if only this is made ideal.
        alone_s: Seconds a step that it costs a job that is ideal otherwise.
        share: Of what all suspects of its kind cost together.
        lost_s: `(s,)`, seconds that each step loses by it.
    """

    kind: str
    name: str
    ranks: tuple[int, ...]
    cost_s: float
    saved_s: float
    alone_s: float
    share: float
    lost_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """Where the time goes that the job loses.

    Args:
        used: `(s,)`, the steps that count; the first is left out if there are four.
        step_s: A mean step.
        peers_s: With every rank as its peers.
        ideal_s: With everything ideal: also nothing spent on data and garbage, and transfers as usual.
        ranks, hosts, stages, operations, causes: The suspects, the most expensive first.
    """

    graph: StepGraph
    times: IdealTimes
    used: NDArray[np.bool_]
    step_s: float
    peers_s: float
    ideal_s: float
    ranks: tuple[Suspect, ...]
    hosts: tuple[Suspect, ...]
    stages: tuple[Suspect, ...]
    operations: tuple[Suspect, ...]
    causes: tuple[Suspect, ...]

    @property
    def slowdown(self) -> float:
        """The measured step over the ideal one."""
        return self.step_s / self.ideal_s if self.ideal_s > 0.0 else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """Durations with one suspect made ideal, and with all but this one made ideal."""

    kind: str
    name: str
    ranks: tuple[int, ...]
    fixed: Floats
    alone: Floats


def attribute(graph: StepGraph) -> Attribution:
    """Return what costs the job time."""
    times = ideal_times(graph)
    who = [*_rank_trials(times), *_host_trials(times)]
    what = [*_cause_trials(times), *_stage_trials(times)]
    peers, ideal = times.durations(times.peers), _all_ideal(times)
    trials = [*who, *what, *_operation_trials(times)]
    variants = [graph.duration, peers, ideal, *(each for trial in trials for each in (trial.fixed, trial.alone))]
    steps = Replay(graph).steps_s(variants)
    used = np.ones(len(graph.steps), np.bool_)
    used[0] = len(used) < _SETTLED
    measured, as_peers, as_ideal = (steps[place] for place in range(3))
    bases = {"rank": as_peers, "host": as_peers}
    found = [
        _suspect(trial, measured, steps[3 + 2 * place], steps[4 + 2 * place], bases.get(trial.kind, as_ideal), used)
        for place, trial in enumerate(trials)
    ]
    return Attribution(
        graph=graph,
        times=times,
        used=used,
        step_s=float(measured[used].mean()),
        peers_s=float(as_peers[used].mean()),
        ideal_s=float(as_ideal[used].mean()),
        **{
            f"{kind}s": _shared([suspect for suspect in found if suspect.kind == kind])
            for kind in ("rank", "host", "stage", "operation", "cause")
        },
    )


def _suspect(
    trial: _Trial, measured: Floats, fixed: Floats, alone: Floats, ideal: Floats, used: NDArray[np.bool_]
) -> Suspect:
    saved, costs = (measured - fixed), (alone - ideal)
    if trial.kind == "operation":  # all but one operation ideal is not replayed: it would be ideal but for the others
        costs = saved
    lost = (saved + costs) / 2.0
    cost, saved_s, alone_s = (float(values[used].mean()) for values in (lost, saved, costs))
    return Suspect(trial.kind, trial.name, trial.ranks, max(cost, 0.0), saved_s, alone_s, 0.0, lost)


def _shared(suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    whole = sum(suspect.cost_s for suspect in suspects)
    made = (
        Suspect(
            s.kind, s.name, s.ranks, s.cost_s, s.saved_s, s.alone_s, s.cost_s / whole if whole > 0.0 else 0.0, s.lost_s
        )
        for s in suspects
    )
    return tuple(sorted(made, key=lambda suspect: -suspect.cost_s))


def _rank_trials(times: IdealTimes) -> list[_Trial]:
    graph = times.graph
    if len(graph.ranks) < 2:
        return []
    excess = (times.own * (1.0 - times.peers)).sum(axis=(0, 2))
    order = np.argsort(-excess, kind="stable")[:_RANKS]
    return [_who(times, "rank", str(graph.ranks[place]), np.array([place])) for place in sorted(order.tolist())]


def _host_trials(times: IdealTimes) -> list[_Trial]:
    graph = times.graph
    hosts = sorted(set(graph.hosts))
    if len(hosts) < 2 or "" in hosts or len(hosts) == len(graph.ranks):
        return []
    return [_who(times, "host", host, np.flatnonzero(np.array(graph.hosts) == host)) for host in hosts[:_RANKS]]


def _who(times: IdealTimes, kind: str, name: str, places: NDArray[np.int64]) -> _Trial:
    fixed, alone = times.unchanged, times.peers.copy()
    fixed[:, places], alone[:, places] = times.peers[:, places], 1.0
    ranks = tuple(times.graph.ranks[place] for place in places.tolist())
    return _Trial(kind, name, ranks, times.durations(fixed), times.durations(alone))


_Cause = tuple[str, Callable[[Floats], None]]


def _causes(times: IdealTimes) -> list[_Cause]:
    """Return the name of each cause, and what makes it ideal in factors of all kinds, ranks and steps."""

    def as_peers(kind: Activity) -> Callable[[Floats], None]:
        def change(factors: Floats) -> None:
            factors[kind] = np.minimum(factors[kind], times.peers[kind] / _of(times, kind))

        return change

    def nothing(kind: Activity) -> Callable[[Floats], None]:
        def change(factors: Floats) -> None:
            factors[kind] = 0.0

        return change

    def even(factors: Floats) -> None:
        factors[Activity.COMPUTE] *= times.balanced

    found: list[_Cause] = [(times.graph.words(kind), as_peers(kind)) for kind in _OTHERS]
    found += [(times.graph.words(kind), nothing(kind)) for kind in (Activity.DATA, Activity.GARBAGE_COLLECTION)]
    if (times.balanced < 1.0).any():
        found.append((SEQUENCES, even))
    return found


def _of(times: IdealTimes, kind: Activity) -> Floats | float:
    """Return what of the factor to peers is the sequences': a rank that is longer for them alone is as its peers."""
    return np.maximum(times.balanced, times.peers[kind]) if kind is Activity.COMPUTE else 1.0


def _cause_trials(times: IdealTimes) -> list[_Trial]:
    causes = _causes(times)
    made = []
    for place, (name, change) in enumerate(causes):
        fixed = times.unchanged
        change(fixed)
        alone = times.unchanged
        for other, (_, change_other) in enumerate(causes):
            if other != place:
                change_other(alone)
        made.append(
            _Trial(
                "cause",
                name,
                times.graph.ranks,
                times.durations(fixed),
                times.durations(alone) * times.transfers * _by_stage(times),
            )
        )
    fixed = times.graph.duration * times.transfers
    made.append(
        _Trial(
            "cause",
            times.graph.words(Activity.COMMUNICATION),
            times.graph.ranks,
            fixed,
            _all_ideal(times, transfers=False),
        )
    )
    if (times.staged < 1.0).any():
        fixed = times.graph.duration * _by_stage(times)
        made.append(_Trial("cause", BALANCE, times.graph.ranks, fixed, _all_ideal(times, stages=False)))
    return made


def _stage_trials(times: IdealTimes) -> list[_Trial]:
    """Return the stages of more work than usual, each with the usual work."""
    graph = times.graph
    stages = np.array(graph.stages)
    made = []
    for stage in np.unique(stages[times.staged < 1.0]).tolist():
        of_stage = stages[graph.rank] == stage
        factor = _by_stage(times)
        alone = _all_ideal(times, stages=False) * np.where(of_stage, 1.0, factor)
        ranks = tuple(rank for rank, place in zip(graph.ranks, graph.stages, strict=True) if place == stage)
        made.append(_Trial("stage", str(stage), ranks, graph.duration * np.where(of_stage, factor, 1.0), alone))
    return made


def _by_stage(times: IdealTimes) -> Floats:
    graph = times.graph
    inside = graph.inside & (graph.kind == Activity.COMPUTE)
    return np.where(inside, times.staged[graph.rank], 1.0)


def _all_ideal(times: IdealTimes, *, transfers: bool = True, stages: bool = True) -> Floats:
    factors = times.unchanged
    for _, change in _causes(times):
        change(factors)
    made = times.durations(factors)
    if transfers:
        made = made * times.transfers
    return made * _by_stage(times) if stages else made


def _operation_trials(times: IdealTimes) -> list[_Trial]:
    """Return the operations that take some ranks longest beyond their peers, each made as its peers'."""
    graph = times.graph
    inside = graph.inside & np.isin(graph.kind, _OTHERS)
    nodes = np.flatnonzero(inside)
    ranks, steps = len(graph.ranks), len(graph.steps)
    if ranks < 2 or not len(nodes):
        return []
    totals = np.bincount(graph.name[nodes], weights=graph.duration[nodes], minlength=len(graph.names))
    made: list[tuple[float, _Trial]] = []
    for number in np.argsort(-totals, kind="stable")[: 8 * _OPERATIONS].tolist():
        if totals[number] <= 0.0:
            break
        here = nodes[graph.name[nodes] == number]
        place = graph.rank[here] * steps + graph.step[here]
        own = np.bincount(place, weights=graph.duration[here], minlength=ranks * steps).reshape(ranks, steps)
        usual = np.sort(own, axis=0)[(ranks - 1) // 2]
        usual = np.minimum(usual, np.median(usual)) if ranks > 2 else usual
        factor = np.where(own > 1.1 * usual, usual / np.maximum(own, 1e-12), 1.0)
        excess = own * (1.0 - factor)
        fixed = graph.duration.copy()
        fixed[here] *= factor[graph.rank[here], graph.step[here]]
        slow = tuple(graph.ranks[rank] for rank in np.flatnonzero(excess.sum(axis=1) > 0.5 * excess.sum()).tolist())
        made.append((float(excess.sum()), _Trial("operation", graph.names[number], slow, fixed, fixed)))
    made.sort(key=lambda pair: -pair[0])
    return [trial for excess, trial in made[:_OPERATIONS] if excess > 0.0]
