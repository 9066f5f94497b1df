"""Says who keeps a job waiting, since when, and what it costs; and shows the numbers behind it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from .attribution import BALANCE, SEQUENCES, Attribution, Suspect, attribute
from .recurrence import Recurrence, recurrence
from .step_graph import Activity, StepGraph
from .two_ranks import of_two, own_course

__all__ = ["Culprit", "RankTime", "StragglerReport", "SuspectCost", "render_stragglers", "stragglers"]

#: What is told costs this share of a step at least: noise of healthy jobs stays below (benchmarks/ranks_stragglers.py).
_WORTH: Final = 0.03
#: Data that is loaded on all ranks alike, and networks, are told from here on: as for the profile's advice.
_WORTH_SHARED: Final = 0.1
#: Somebody is to blame who costs more than all others of the kind together, and this many times as much as the next. Up
#: to three ranks may be it together, but less than half of them. Our choice.
_SHARE: Final = 0.5
_FAR: Final = 2.0
_TOGETHER: Final = 3
#: That it is somebody by chance must be this unlikely, unless all others together lose this little. Our choice.
_CHANCE: Final = 0.02
_QUIET: Final = 0.1
_EXCHANGES: Final = 1000
#: Who explains this share of the largest cost is named instead of it: a rank rather than what it does. Our choice.
_EXPLAINS: Final = 0.6
_ROWS: Final = 8
#: Steps that a pause concerns: the one that it is in, and the next, into which it may spill over.
_PAUSE: Final = 2
#: What all ranks may spend alike, which makes none of them a straggler.
_SHARED: Final = (Activity.COMMUNICATION, Activity.DATA)


@dataclass(frozen=True, slots=True)
class SuspectCost:
    """What a rank, host, stage, operation or cause costs. See `Suspect`.

    Args:
        of_step: `cost_s` as a share of a mean step.
    """

    kind: str
    name: str
    ranks: tuple[int, ...]
    cost_s: float
    of_step: float
    saved_s: float
    alone_s: float
    share: float
    recurrence: Recurrence


@dataclass(frozen=True, slots=True)
class Culprit:
    """Who it is.

    Args:
        kind: `rank`, `host`, `stage` or `cause`.
        name: Number of the rank or stage, name of the host, or the cause in words.
        host: The machine of a rank; empty if unknown, or if all ranks are on one.
        doing: What it spends the time on, in words; empty for a cause.
        operation: The operation that it needs longer for; empty if none stands out.
    """

    kind: str
    name: str
    ranks: tuple[int, ...]
    host: str
    cost_s: float
    of_step: float
    doing: str
    operation: str
    recurrence: Recurrence


@dataclass(frozen=True, slots=True)
class RankTime:
    """A rank's mean step: its own work, as far as it is known, and its waiting for others in collectives."""

    rank: int
    host: str
    stage: int
    compute_s: float
    host_s: float
    data_s: float
    garbage_s: float
    copies_s: float
    transfer_s: float
    wait_s: float


@dataclass(frozen=True, slots=True)
class StragglerReport:
    """Who keeps a job waiting.

    Args:
        source: `traces` or `run ID`.
        steps: Number of steps that count.
        step_s: A mean one of these.
        ideal_s: With everything ideal.
        slowdown: The one over the other.
        culprit: None where nobody costs 3 % of a step.
        headline: One sentence: who, since when, what it costs.
        ranks, hosts, stages, operations, causes: The suspects, the most expensive first.
        times: The ranks side by side, those that wait least first.
        missing: What the source does not tell.
    """

    source: str
    steps: int
    first_step: int
    last_step: int
    step_s: float
    ideal_s: float
    slowdown: float
    culprit: Culprit | None
    headline: str
    ranks: tuple[SuspectCost, ...]
    hosts: tuple[SuspectCost, ...]
    stages: tuple[SuspectCost, ...]
    operations: tuple[SuspectCost, ...]
    causes: tuple[SuspectCost, ...]
    times: tuple[RankTime, ...]
    missing: tuple[str, ...]


def stragglers(graph: StepGraph, *, source: str = "traces") -> StragglerReport:
    """Return who keeps the job of this graph waiting."""
    found = attribute(graph)
    numbers = graph.steps[found.used]
    suspects = {
        kind: tuple(_cost(suspect, found) for suspect in getattr(found, kind))
        for kind in ("ranks", "hosts", "stages", "operations", "causes")
    }
    culprit = _culprit(found)
    return StragglerReport(
        source=source,
        steps=int(found.used.sum()),
        first_step=int(numbers[0]),
        last_step=int(numbers[-1]),
        step_s=found.step_s,
        ideal_s=found.ideal_s,
        slowdown=found.slowdown,
        culprit=culprit,
        headline=_headline(found, culprit),
        times=_times(found),
        missing=graph.missing,
        **suspects,
    )


def _recurrence(suspect: Suspect, found: Attribution) -> Recurrence:
    return recurrence(found.graph.steps[found.used], suspect.lost_s[found.used], found.step_s or 1e-12)


def _cost(suspect: Suspect, found: Attribution) -> SuspectCost:
    return SuspectCost(
        kind=suspect.kind,
        name=suspect.name,
        ranks=suspect.ranks,
        cost_s=suspect.cost_s,
        of_step=suspect.cost_s / found.step_s if found.step_s > 0.0 else 0.0,
        saved_s=suspect.saved_s,
        alone_s=suspect.alone_s,
        share=suspect.share,
        recurrence=_recurrence(suspect, found),
    )


def _culprit(found: Attribution) -> Culprit | None:
    """Return the most precise suspect that explains what is lost: a machine or ranks, then a stage, then a cause."""
    hosts = [
        host
        for host in _standing_out(found.hosts, found, 1)
        if len(host.ranks) > 1 and not _one_rank_is_it(host, found)
    ]
    words = found.graph.words
    certain = {SEQUENCES, BALANCE, words(Activity.GARBAGE_COLLECTION)}
    shared = {words(kind) for kind in _SHARED}
    ranks = _standing_out(found.ranks, found, _TOGETHER)
    causes = [suspect for suspect in found.causes if suspect.name in certain]
    causes += [s for s in found.causes if s.name in shared and s.cost_s >= _WORTH_SHARED * found.step_s]
    causes = [s for s in causes if not any(_is_mostly(s, rank, found) for rank in ranks)]
    named = [*hosts, *ranks, *found.stages[:1], *causes]
    named = [suspect for suspect in named if suspect.cost_s >= _WORTH * found.step_s]
    if not named:
        return None
    most = max(suspect.cost_s for suspect in named)
    return _as_culprit(next(suspect for suspect in named if suspect.cost_s >= _EXPLAINS * most), found)


def _is_mostly(cause: Suspect, rank: Suspect, found: Attribution) -> bool:
    """Return whether half of what all ranks spend on something is what these spend more on it than their peers."""
    shared = {found.graph.words(kind) for kind in _SHARED}
    is_same = cause.name in shared and _doing(rank, found) == cause.name
    return is_same and rank.cost_s >= _SHARE * cause.cost_s


def _standing_out(suspects: tuple[Suspect, ...], found: Attribution, most: int) -> list[Suspect]:
    """Return the few suspects that cost most of all, each far more than the next, as one; none if there are none."""
    most = min(most, max(1, (len(suspects) - 1) // 2), len(suspects))
    for count in range(1, most + 1):
        chosen, following = suspects[:count], suspects[count].cost_s if count < len(suspects) else 0.0
        share = sum(suspect.share for suspect in chosen)
        if share >= _SHARE and chosen[-1].cost_s >= _FAR * following and not _is_chance(suspects, found, count):
            return [_together(chosen, share)]
    return []


def _is_chance(suspects: tuple[Suspect, ...], found: Attribution, count: int) -> bool:
    """Return whether the first ones may be those that cost most by chance, as on a machine that others use, too.

    By chance, each step's losses could be any suspect's: they are exchanged within each step, and no step counts more
    than twice a usual one. Few pauses that only one has, and nobody else has any, are no chance.
    """
    lost = np.maximum(np.array([suspect.lost_s[found.used] for suspect in suspects]), 0.0)
    total = lost.sum(axis=1)
    if total[count:].sum() <= _QUIET * total[:count].sum():
        return False
    lost = np.minimum(lost, 2.0 * np.median(lost.max(axis=0)))
    exchanged = np.random.default_rng(0).permuted(np.broadcast_to(lost, (_EXCHANGES, *lost.shape)), axis=1).sum(axis=2)
    largest = np.sort(exchanged, axis=1)[:, -count:].sum(axis=1)
    return bool((largest >= lost[:count].sum() * (1.0 - 1e-9)).mean() > _CHANCE)


def _together(chosen: tuple[Suspect, ...], share: float) -> Suspect:
    """Return suspects as one: what several hide behind each other, they cost together."""
    if len(chosen) == 1:
        return chosen[0]
    return Suspect(
        kind=chosen[0].kind,
        name=" and ".join(suspect.name for suspect in chosen),
        ranks=tuple(rank for suspect in chosen for rank in suspect.ranks),
        cost_s=sum(suspect.cost_s for suspect in chosen),
        saved_s=sum(suspect.saved_s for suspect in chosen),
        alone_s=max(suspect.alone_s for suspect in chosen),
        share=share,
        lost_s=np.sum([suspect.lost_s for suspect in chosen], axis=0),
    )


def _one_rank_is_it(host: Suspect, found: Attribution) -> bool:
    """Return whether one rank of the machine explains what the machine costs."""
    return any(rank.cost_s > 0.7 * host.cost_s for rank in found.ranks if set(rank.ranks) <= set(host.ranks))


def _as_culprit(suspect: Suspect, found: Attribution) -> Culprit:
    graph = found.graph
    is_spread = len(set(graph.hosts)) > 1
    host = graph.hosts[graph.ranks.index(suspect.ranks[0])] if suspect.kind == "rank" and is_spread else ""
    operation = next(
        (each.name for each in found.operations if set(each.ranks) <= set(suspect.ranks) and each.cost_s > 0.0), ""
    )
    is_person = suspect.kind in ("rank", "host")
    doing = _doing(suspect, found) if is_person else ""
    return Culprit(
        kind=suspect.kind,
        name=suspect.name,
        ranks=suspect.ranks,
        host=host,
        cost_s=suspect.cost_s,
        of_step=suspect.cost_s / found.step_s,
        doing=doing,
        operation=operation
        if is_person and doing not in (graph.words(Activity.DATA), graph.words(Activity.GARBAGE_COLLECTION))
        else "",
        recurrence=_recurrence(suspect, found),
    )


def _doing(suspect: Suspect, found: Attribution) -> str:
    """Return on what the ranks spend more than their peers."""
    places = [found.graph.ranks.index(rank) for rank in suspect.ranks]
    times = found.times
    excess = (times.own[:, places] * (1.0 - times.peers[:, places])).sum(axis=(1, 2))
    return found.graph.words(int(np.argmax(excess)))


def _headline(found: Attribution, culprit: Culprit | None) -> str:
    step = f"a step of {_ms(found.step_s)}"
    if culprit is not None and culprit.recurrence.kind == "once" and culprit.recurrence.steps <= _PAUSE:
        return _pause(found, culprit)
    if culprit is not None and culprit.name in (found.graph.words(kind) for kind in _SHARED):
        takes = f"{_ms(culprit.cost_s)} a step, {culprit.of_step:.0%} of {step}, {_when(culprit.recurrence, found)}"
        return f"no straggler: no rank stands out; {culprit.name} takes {takes}"
    if culprit is None and len(found.graph.ranks) == 2 and found.step_s - found.peers_s >= _WORTH * found.step_s:
        return of_two(found)
    if culprit is None:
        lost = max(found.step_s - found.peers_s, 0.0)
        share = lost / found.step_s if found.step_s > 0.0 else 0.0
        return (
            f"no straggler: ranks that were all as their median would save {_ms(lost)} a step ({share:.1%} of {step}), "
            "and nobody is to blame for it"
        )
    who = {
        "rank": f"rank {culprit.name}" + (f" on {culprit.host}" if culprit.host else ""),
        "host": f"machine {culprit.name} (ranks {_listed(culprit.ranks)})",
        "stage": f"pipeline stage {culprit.name} (ranks {_listed(culprit.ranks)}) has more work than the others",
        "cause": _cause_words(found, culprit),
    }[culprit.kind]
    cost = f"costs {_ms(culprit.cost_s)} a step, {culprit.of_step:.0%} of {step}"
    doing = ""
    if culprit.doing:
        doing = f"; it spends more on {culprit.doing}" + (
            f", most of it in {_short(culprit.operation)}" if culprit.operation else ""
        )
    alone = own_course(found, culprit.ranks[0], culprit.recurrence) if culprit.kind == "rank" else ""
    return f"{who}: {cost}, {_when(culprit.recurrence, found)}{doing}{alone}"


def _pause(found: Attribution, culprit: Culprit) -> str:
    """Say that somebody kept the others waiting once: as a mean over all steps, a pause would look like a property."""
    suspects: tuple[Suspect, ...] = getattr(found, f"{culprit.kind}s")
    named = [suspect for suspect in suspects if set(suspect.name.split()) <= set(culprit.name.split())]
    lost_s = float(np.sum([suspect.lost_s[found.used] for suspect in named]))
    numbers = found.graph.steps
    gap = int(np.median(np.diff(numbers))) if len(numbers) > 1 else 1  # of a store, a step of the graph is a window
    since = culprit.recurrence.since
    where = f"at step {since}" if gap == 1 else f"between steps {since - gap} and {since}"
    who = culprit.name if culprit.kind == "cause" else f"{culprit.kind} {culprit.name}"
    doing = f", on {culprit.doing}" if culprit.doing else ""
    return f"no straggler, but one pause: {who} cost {lost_s * gap:.3g} s {where}{doing}"


def _cause_words(found: Attribution, culprit: Culprit) -> str:
    if culprit.name != SEQUENCES:
        return (
            f"{culprit.name} on no rank in particular" if culprit.name != BALANCE else "unequal work of pipeline stages"
        )
    sizes = found.graph.sizes / np.nanmean(found.graph.sizes, axis=0)
    mean = np.nanmean(sizes, axis=1)
    worst = int(np.nanargmax(mean))
    if mean[worst] > 1.1:
        return f"sequence lengths: rank {found.graph.ranks[worst]} gets {mean[worst]:.2f} times the mean"
    return f"sequence lengths that differ by rank, up to {np.nanmax(sizes):.2f} times the mean of a step"


def _when(found: Recurrence, of: Attribution) -> str:
    first = int(of.graph.steps[of.used][0])
    since = "from the start" if found.since == first else f"since step {found.since}"
    words = {
        "persistent": f"in {found.share:.0%} of the steps {since}",
        "periodic": f"every {found.period:g} steps {since}",
        "bursty": f"in bursts, {found.steps} steps {since}",
        "once": f"once, at step {found.since}",
        "never": f"spread over steps {since}",
    }
    return words[found.kind] if found.since >= 0 else "spread thinly over the steps"


def _times(found: Attribution) -> tuple[RankTime, ...]:
    graph, own = found.graph, found.times.own[:, :, found.used].mean(axis=2)
    inside = graph.inside & found.used[np.clip(graph.step, 0, len(graph.steps) - 1)]
    waits = np.bincount(graph.rank[inside], weights=graph.wait[inside], minlength=len(graph.ranks)) / found.used.sum()
    made = [
        RankTime(
            rank=number,
            host=graph.hosts[place],
            stage=graph.stages[place],
            compute_s=float(own[Activity.COMPUTE, place]),
            host_s=float(own[Activity.HOST, place] + own[Activity.LAUNCH, place]),
            data_s=float(own[Activity.DATA, place]),
            garbage_s=float(own[Activity.GARBAGE_COLLECTION, place]),
            copies_s=float(own[Activity.MEMORY, place]),
            transfer_s=float(own[Activity.COMMUNICATION, place]),
            wait_s=float(waits[place]),
        )
        for place, number in enumerate(graph.ranks)
    ]
    return tuple(sorted(made, key=lambda time: time.wait_s))


def render_stragglers(report: StragglerReport) -> str:
    """Return the report as text; its first line says who, since when, and what it costs."""
    lines = [report.headline, ""]
    span = f"{report.steps} steps ({report.first_step} to {report.last_step}), {len(report.times)} ranks"
    ideal = f"{_ms(report.ideal_s)} with every cause below ideal ({report.slowdown:.2f} times)"
    lines.append(f"{report.source}: {span}; a step takes {_ms(report.step_s)}, and would take {ideal}")
    lines += _suspect_lines(report)
    lines += _time_lines(report)
    if report.missing:
        lines += ["", "not known:", *(f"  {line}" for line in report.missing)]
    return "\n".join(lines)


def _suspect_lines(report: StragglerReport) -> Iterator[str]:
    parts = (
        ("ranks", report.ranks),
        ("machines", report.hosts),
        ("pipeline stages", report.stages),
        ("causes", report.causes),
        ("operations, as their peers'", report.operations),
    )
    for title, suspects in parts:
        shown = [suspect for suspect in suspects if suspect.of_step >= 0.001][:_ROWS]
        if shown:
            yield from ("", f"{title}: cost of a step, share of it, saved by it alone, when")
            for suspect in shown:
                when = suspect.recurrence
                words = (
                    when.kind
                    + (f" (every {when.period:g})" if when.period else "")
                    + (f", since step {when.since}" if when.since >= 0 else "")
                )
                name = suspect.name if suspect.kind not in ("rank", "stage") else f"{suspect.kind} {suspect.name}"
                numbers = f"{_ms(suspect.cost_s):>10} {suspect.of_step:6.1%} {_ms(suspect.saved_s):>10}"
                yield f"  {_short(name):<40} {numbers}  {words}"


def _time_lines(report: StragglerReport) -> Iterator[str]:
    if len(report.times) < 2:
        return
    columns = ("computing", "processor", "data", "garbage", "copies", "transfers", "waiting")
    yield from ("", "ranks, those that wait least first: " + ", ".join(columns))
    for time in report.times[: 2 * _ROWS]:
        numbers = (
            time.compute_s,
            time.host_s,
            time.data_s,
            time.garbage_s,
            time.copies_s,
            time.transfer_s,
            time.wait_s,
        )
        where = f" {time.host}" if time.host else ""
        yield f"  rank {time.rank:<4}" + "".join(f"{_ms(number):>11}" for number in numbers) + where


def _listed(ranks: tuple[int, ...]) -> str:
    rest = f" and {len(ranks) - _ROWS} more" if len(ranks) > _ROWS else ""
    return ", ".join(map(str, ranks[:_ROWS])) + rest


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:45]}...{text[-12:]}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
