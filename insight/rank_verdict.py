"""Who holds up the others, since when, and what it costs: one sentence for the page, the command line and the rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from ..storage import Event, Finding, Run, RunNotFound, Store, display_site
from ..storage.percent import percent
from ..storage.ranks.rank_details import OUTLIER
from ..storage.ranks.topology import Topology, read_topology
from ..storage.run_info import ALL_RANKS
from .event_fields import number
from .rank_times import WorkHistory, work_history
from .rank_work import excess_words, is_straggling

Tone = Literal["good", "bad", "watch", "quiet"]
#: What findings about ranks are called, those first that make the training wrong.
RANK_CAUSES: Final = (
    "rank_desync",
    "silent_data_corruption",
    "rank_dropped",
    "rank_rng_error",
    "identical_rank_data",
    "straggler",
)
#: A rank is slow all the time if it is in this share of the steps since it began. Our choice.
_STEADY: Final = 0.8
#: Steps in which a rank must hold up the others before it is named, as the rule wants three exchanges.
_LASTING: Final = 3


@dataclass(frozen=True, slots=True)
class RankVerdict:
    """What there is to say of the ranks of a run.

    Args:
        rank: The rank that is named; None where none is.
        since: The first step at which it was so, and `until` the last that was looked at.
        excess_s: Seconds of a step that it works longer than the others.
        share: These as a share of a step.
        cost_s: Seconds that every other rank has waited for it; 0 where it is named for something else.
        sentence: Who, since when, and what it costs.
        further: More sentences: other findings about ranks, and ranks whose values stand out.
    """

    sentence: str
    tone: Tone
    rank: int | None = None
    since: int = -1
    until: int = -1
    excess_s: float = 0.0
    share: float = 0.0
    cost_s: float = 0.0
    further: tuple[str, ...] = ()


def rank_verdict(store: Store, run: Run) -> RankVerdict:
    """Return who holds up the others, since when, and what it costs."""
    topology = read_topology(store, run.id, run.ranks)
    findings = [finding for finding in store.findings(run.id) if finding.cause in RANK_CAUSES]
    slow = straggler(work_history(store, run), topology, ranks=max(topology.ranks, len(run.ranks)))
    told = [_of_finding(one) for one in sorted(findings, key=_gravity) if one.cause != "straggler" or slow.rank is None]
    sentences = [*told, *([slow] if slow.rank is not None or not told else [])]
    sentences.sort(key=lambda one: (one.tone != "bad", one is not slow))
    strange = outlying(rank_outliers(store, run), topology)
    first, *further = sentences + strange if sentences[0].tone in ("bad", "watch") else strange + sentences
    return replace(first, further=tuple(dict.fromkeys(one.sentence for one in further)))


def _gravity(finding: Finding) -> tuple[bool, int, int]:
    return finding.severity != "error", RANK_CAUSES.index(finding.cause), finding.first_step


def _of_finding(finding: Finding) -> RankVerdict:
    words = f"{finding.explanation[:1].upper()}{finding.explanation[1:]}, since step {finding.first_step:,}"
    tone: Tone = "bad" if finding.severity == "error" else "watch"
    return RankVerdict(words, tone, finding.rank, finding.first_step, finding.step)


def straggler(history: WorkHistory | None, topology: Topology, *, ranks: int) -> RankVerdict:
    """Return the verdict on who works longest.

    The rank that has cost most is named if it was slow, as the rule `straggler` has it, in three steps at least.
    """
    if ranks < 2:
        return RankVerdict("This run has one rank, which waits for no other", "quiet")
    if history is None or not len(history.steps):
        return RankVerdict(f"How long each of the {ranks:,} ranks works was not recorded", "quiet")
    is_slow = is_straggling(history.excess_s, history.step_s)
    weights = np.diff(history.steps, append=history.steps[-1] + _stride(history)).astype(np.float64)
    cost = np.where(is_slow, history.excess_s * weights, 0.0)
    named, place = np.unique(history.who, return_inverse=True)
    of_rank = np.bincount(place, cost)
    rank = int(named[of_rank.argmax()])
    hits = is_slow & (history.who == rank)
    if hits.sum() < _LASTING:
        return _nobody(history, topology)
    return _named(history, topology, rank, hits, float(of_rank.max()))


def _stride(history: WorkHistory) -> int:
    return int(np.median(np.diff(history.steps))) if len(history.steps) > 1 else 1


def _nobody(history: WorkHistory, topology: Topology) -> RankVerdict:
    rank = int(np.bincount(history.who).argmax())
    excess, step_s = float(np.median(history.excess_s)), float(np.median(history.step_s))
    return RankVerdict(
        f"No rank holds up the others: the one that most often works longest, {_named_place(rank, topology)}, "
        f"{excess_words(excess, step_s)}",
        "good",
        excess_s=excess,
        share=excess / step_s if step_s > 0 else 0.0,
        until=int(history.steps[-1]),
    )


def _named(
    history: WorkHistory, topology: Topology, rank: int, hits: np.ndarray[tuple[int], np.dtype[np.bool_]], cost_s: float
) -> RankVerdict:
    at = np.flatnonzero(hits)
    # From which hit on the rank was slow nearly all the time; chance hits may lie before.
    shares = np.arange(len(at), 0, -1) / (at[-1] - at + 1)
    steady_from = int((shares >= _STEADY).argmax())
    steady = 2 * (len(at) - steady_from) >= len(at)
    at = at[steady_from:] if steady else at
    first, last = int(history.steps[at[0]]), int(history.steps[at[-1]])
    excess, step_s = float(np.median(history.excess_s[hits])), float(np.median(history.step_s[hits]))
    newest = int(history.steps[-1])
    goes_on = newest - last <= 10 * _stride(history)
    when = f"since step {first:,}" if goes_on else f"from step {first:,} to step {last:,}"
    how = "" if steady else f" in {percent(shares[0])} of the steps"
    verb = "holds" if goes_on else "held"
    return RankVerdict(
        f"{_named_place(rank, topology, capital=True)} {verb} up the others {when}{how}: it "
        f"{excess_words(excess, step_s)}, which has cost every other rank {duration_words(cost_s)}",
        "watch",
        rank,
        first,
        last,
        excess,
        excess / step_s if step_s > 0 else 0.0,
        cost_s,
    )


def _named_place(rank: int, topology: Topology, *, capital: bool = False) -> str:
    place = topology.where(rank)
    return f"{'Rank' if capital else 'rank'} {rank}{f' ({place})' if place else ''}"


def duration_words(seconds: float) -> str:
    """Return seconds as a person says them: `12 ms`, `3.4 s`, `20.9 min`, `5.2 h`."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= size * (1.5 if unit != "s" else 1.0):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms"


def rank_outliers(store: Store, run: Run) -> tuple[Event, ...]:
    """Return the newest events of ranks whose values stand out; none without a roll-up."""
    try:
        return store.events(run.id, rank=ALL_RANKS, kind=OUTLIER, limit=100)
    except RunNotFound:
        return ()


def outlying(events: Sequence[Event], topology: Topology, *, most: int = 4) -> list[RankVerdict]:
    """Return a verdict on each of the newest ranks whose values stand out."""
    newest = {int(number(event, "rank")): event for event in events}
    found = []
    for rank, event in sorted(newest.items(), key=lambda one: -one[1].step)[:most]:
        value, median = event.data.get("value"), event.data.get("median")
        has = "is not finite" if value is None else f"is {value:.4g}" if isinstance(value, float | int) else "differs"
        usual = f", the median of all ranks is {median:.4g}" if isinstance(median, float | int) else ""
        words = (
            f"{_named_place(rank, topology, capital=True)} stands out since step {event.step:,}: "
            f"{event.data.get('metric')} of {display_site(event.site)} {has}{usual}"
        )
        found.append(RankVerdict(words, "watch", rank, event.step, event.step))
    return found
