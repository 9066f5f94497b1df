"""What an overhead budget has left out of a run: since when, how much, and of what."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ..storage import Event, Json, Layout, Store

__all__ = ["Thinning", "thinning_of"]

#: Decisions that are read: the newest; a run makes one only when nine steps or more were timed.
_DECISIONS: Final = 10_000
#: Subjects that are named in the sentence; the document holds all of them (our choice: one line of a terminal).
_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Thinning:
    """What the budget of one rank has left out, lately.

    Args:
        since: The step behind which less than what was due was recorded.
        changed: The step behind which `factor` was decided.
        factor: One in so many due steps is recorded now; 1 where every one is again.
        share: What a recorded step costs, as a share of the step without it.
        budget: What recording may cost on average, as such a share.
        subjects: What is thinned, as far as the run has recorded any of it; scalars never are.
        rank: Whose; each rank decides for itself.
    """

    since: int
    changed: int
    factor: int
    share: float
    budget: float
    subjects: tuple[str, ...]
    rank: int = 0

    def to_text(self) -> str:
        """A line in words."""
        rest = len(self.subjects) - _NAMED
        what = ", ".join(self.subjects[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        rank = f" on rank {self.rank}" if self.rank else ""
        why = f"by the overhead budget of {100.0 * self.budget:.3g} %"
        if self.factor == 1:
            return f"thinned{rank} from step {self.since} to {self.changed} {why}: {what}; in full again since"
        cost = f"each costs {100.0 * self.share:.3g} % of a step"
        return f"thinned{rank} since step {self.since} {why}: one in {self.factor} due steps of {what}; {cost}"


def thinning_of(store: Store, run: str, ranks: Sequence[int] = (0,)) -> Thinning | None:
    """What the budget of the run has left out on the rank that it has thinned most; None where it has left out nothing.

    Args:
        run: Its id.
        ranks: The ranks that are asked.
    """
    found = (_of_rank(store, run, rank) for rank in ranks)
    return max((one for one in found if one is not None), key=lambda one: one.factor, default=None)


def _of_rank(store: Store, run: str, rank: int) -> Thinning | None:
    events = store.events(run, rank=rank, kind="schedule_thinned", limit=_DECISIONS)
    if not events:
        return None
    since = events[0]
    for before, event in pairwise(events):
        if _factor(before) == 1:
            since = event
    last = events[-1]
    return Thinning(
        since=since.step,
        changed=last.step,
        factor=_factor(last),
        share=_number(last.data.get("share")),
        budget=_number(last.data.get("budget")),
        subjects=tuple(_recorded(last.data.get("subjects"), store.layouts(run, rank=rank))),
        rank=rank,
    )


def _factor(event: Event) -> int:
    return int(_number(event.data.get("factor"), 1.0))


def _number(value: Json, default: float = float("nan")) -> float:
    return float(value) if isinstance(value, int | float) else default


def _recorded(names: Json, layouts: Iterable[Layout]) -> list[str]:
    """Those of the names of which there is a stream, and histograms, which have none; all where nothing has one."""
    known = {part for layout in layouts for part in (layout.subject, layout.subject.partition("/")[0])}
    every = [str(name) for name in names] if isinstance(names, list) else []
    return [name for name in every if name in known or name == "histogram"] if known else every
