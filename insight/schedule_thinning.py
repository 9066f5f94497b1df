"""Describes what an overhead budget left out of a run: since when, how much, and of which subjects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from ..storage import Event, Json, Layout, Store

__all__ = ["Decision", "ScheduleThinning", "thinning_of"]

#: Decisions that are read: the newest; a run makes one only when nine steps or more were timed.
_DECISIONS: Final = 10_000
#: Decisions that are shown: the first and the newest (our choice: a few lines of a terminal).
_SHOWN: Final = 3
#: Subjects that are named; the document holds all of them.
_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of the budget.

    Args:
        step: The step behind which it holds.
        factor: One in so many due steps is recorded from then on; 1 where every one is.
        share: What a recorded step had cost until then, as a share of the step without it.
    """

    step: int
    factor: int
    share: float


@dataclass(frozen=True, slots=True)
class ScheduleThinning:
    """What the overhead budget of one rank has left out.

    Args:
        since: The first step of which the run left out something that was due, be it to compare what it costs.
        changed: The step after which `factor` applies.
        factor: Records one in this many due steps; 1 if it records every one again.
        share: Cost of a recorded step at that decision, as a share of the step without it.
        budget: Average cost that recording may have, as such a share.
        subjects: The thinned subjects that the run has recorded; scalars are among them if they cost too much.
        rank: The rank; each rank decides for itself.
        decisions: All decisions of this thinning, oldest first; the one of `changed` is the last.
        joined: The step of the later decision that added a subject.
    """

    since: int
    changed: int
    factor: int
    share: float
    budget: float
    subjects: tuple[str, ...]
    rank: int = 0
    decisions: tuple[Decision, ...] = ()
    joined: Mapping[str, int] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the thinning in one line."""
        rank = f" on rank {self.rank}" if self.rank else ""
        when = f"since step {self.since}" if self.factor != 1 else f"from step {self.since} to {self.changed}"
        why = f"by the overhead budget of {_percent(self.budget)}"
        what = ", ".join(
            f"{name} (since step {self.joined[name]})" if name in self.joined else name for name in self.subjects
        )
        what = what if len(self.subjects) <= _NAMED else f"{len(self.subjects)} subjects"
        return f"thinned{rank} {when} {why}: {', '.join(self._course())}; of {what}"

    def _course(self) -> Iterator[str]:
        """Yield how much was left out, decision by decision."""
        first, *later = self.decisions
        yield f"one in {first.factor} due steps (a recorded one had cost {_percent(first.share)} of a step)"
        newest = later[max(len(later) - _SHOWN + 1, 0) :]
        rest = len(later) - len(newest)
        if rest:
            yield f"{rest} more decision{'s' if rest > 1 else ''}"
        for decision in newest:
            how = "every one again" if decision.factor == 1 else f"one in {decision.factor}"
            yield f"{how} since step {decision.step} ({_percent(decision.share)})"


def thinning_of(store: Store, run: str, ranks: Sequence[int] = ()) -> ScheduleThinning | None:
    """Return what the run's budget left out on its most thinned rank; None if it left out nothing.

    Args:
        run: Its id.
        ranks: The ranks to read; the first of the run if none is given.
    """
    found = (_of_rank(store, run, rank) for rank in ranks or (store.find_run(run).first_rank,))
    return max(
        (thinning for thinning in found if thinning is not None), key=lambda thinning: thinning.factor, default=None
    )


def _of_rank(store: Store, run: str, rank: int) -> ScheduleThinning | None:
    events = store.events(run, rank=rank, kind="schedule_thinned", limit=_DECISIONS)
    if not events:
        return None
    began = max((at for at, (before, _) in enumerate(pairwise(events), 1) if _factor(before) == 1), default=0)
    episode, last = events[began:], events[-1]
    known = _Known(store.layouts(run, rank=rank), store.metrics(run, rank=rank))
    named: dict[str, int] = {}
    for event in episode:
        for name in known.of(event.data.get("subjects")):
            named.setdefault(name, event.step)
    return ScheduleThinning(
        since=int(_number(episode[0].data.get("since"), episode[0].step)),
        changed=last.step,
        factor=_factor(last),
        share=_share(last),
        budget=_number(last.data.get("budget")),
        subjects=tuple(named),
        rank=rank,
        decisions=tuple(Decision(event.step, _factor(event), _share(event)) for event in episode),
        joined={name: step for name, step in named.items() if step != episode[0].step},
    )


def _factor(event: Event) -> int:
    return int(_number(event.data.get("factor"), 1.0))


def _share(event: Event) -> float:
    return _number(event.data.get("share"))


def _number(value: Json, default: float = float("nan")) -> float:
    return float(value) if isinstance(value, int | float) else default


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} %" if share < 9.995 else f"{100.0 * share:.0f} %"


class _Known:
    """The subjects of which the run has recorded anything.

    Args:
        layouts: Its streams; histograms and scalars have none.
        metrics: All metrics that it has recorded, scalars among them.
    """

    def __init__(self, layouts: Iterable[Layout], metrics: Iterable[str]) -> None:
        self._names = {part for layout in layouts for part in (layout.subject, layout.subject.partition("/")[0])}
        self._names |= {metric.split("/")[1] for metric in metrics if metric.startswith("scalar/")}

    def of(self, names: Json) -> list[str]:
        """Return the names that were recorded, and histograms; all names if the run recorded nothing."""
        every = [str(name) for name in names] if isinstance(names, list) else []
        return [name for name in every if name in self._names or name == "histogram"] if self._names else every
