"""Describes what a finding began with: its batch, and a change of the model's modules just before."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from ..storage import Event, Finding, StepRecord, display_site
from .consequences import NON_FINITE
from .event_fields import number, words
from .root_causes import JUST_BEFORE
from .running_statistics import Mask

__all__ = ["Batches", "Change", "Changes", "change_at"]

#: Causes that begin in one moment, so that a single batch may matter.
_OF_A_MOMENT: Final = NON_FINITE | {
    "bad_batch",
    "exploding_gradient",
    "loss_scale_overflow",
    "loss_spike",
    "repeated_batch",
}
#: The batch's number where the loader knows it, and the checksum of its contents: scalar, word, form.
_BATCH_SCALARS: Final = (("batch/id", "number", "d"), ("batch/checksum", "checksum", "x"))
#: Steps whose batches are kept: such findings come within a few steps. Our choice.
_KEPT: Final = 64


class Batches:
    """The batches of one rank's last steps."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[str, list[int]]] = {}

    def learn(self, record: StepRecord) -> None:
        """Take the batch of the step, or of one of its micro-steps."""
        for scalar, _, _ in _BATCH_SCALARS:
            value = record.scalars.get(scalar)
            if value is None or not math.isfinite(value):
                continue
            if record.step not in self._steps:
                self._steps[record.step] = {}
                if len(self._steps) > _KEPT:
                    del self._steps[next(iter(self._steps))]
            self._steps[record.step].setdefault(scalar, []).append(int(value))

    def of(self, finding: Finding) -> str:
        """Return the batch of the finding's first step, such as `number 7, checksum ab`.

        Empty for what no single batch can be the cause of, and where neither was recorded.
        """
        if finding.cause not in _OF_A_MOMENT:
            return ""
        seen = self._steps.get(finding.first_step, {})
        return ", ".join(
            " ".join((word, *(format(value, form) for value in seen[scalar])))
            for scalar, word, form in _BATCH_SCALARS
            if scalar in seen
        )


#: Causes that do not depend on the model's modules, and `loss_spike`, which names changes itself.
_ELSEWHERE: Final = frozenset(
    {
        "dataloader_bound",
        "identical_rank_data",
        "loss_spike",
        "monitor_fault",
        "rank_rng_error",
        "repeated_batch",
        "straggler",
        "train_val_shift",
        "watchpoint",
    }
)
#: A model with this many changes, each within `JUST_BEFORE` steps of the one before, changes all the time, so that its
#: changes explain nothing; and the modules that are named of a change. Our choice.
_HABIT, _NAMED = 5, 3


@dataclass(frozen=True, slots=True)
class Change:
    """Modules that were added, replaced or removed.

    Args:
        step: The step of the first forward with the model as it is since.
        modules: Some of them, in words.
        sites: Some of them; `count` how many there are.
    """

    step: int
    modules: str
    sites: tuple[str, ...] = ()
    count: float = 0.0

    def may_hold(self, sites: Sequence[str]) -> Mask:
        """`(sites,)` whether it may be of these parameters; any, where not all modules are named."""
        is_any = "" in self.sites or not self.count <= len(self.sites)
        inside = tuple(f"{module}." for module in self.sites)
        return np.array([is_any or site.startswith(inside) for site in sites], dtype=np.bool_)

    def since(self, step: int) -> str:
        """Return the change in words, relative to the step at which something began."""
        behind = step - self.step
        apart = "in this very step" if not behind else f"{behind} step{'s' if behind > 1 else ''} before"
        return f"{self.modules} at step {self.step}, {apart}"


@dataclass(slots=True)
class Changes:
    """The newest changes of one rank's model."""

    newest: deque[Change] = field(default_factory=lambda: deque(maxlen=_HABIT))

    def learn(self, record: StepRecord) -> None:
        """Take the changes of the step; changes before the first step do not count."""
        for event in record.events:
            self.learn_event(event)

    def learn_event(self, event: Event) -> None:
        """Take the event if it reports changed modules."""
        if event.kind == "modules_changed" and event.step > 0:
            sites, count = tuple(words(event, "sites")), number(event, "count")
            named = [display_site(site) for site in sites[:_NAMED]]
            rest = f" and {count - len(named):.0f} more" if count > len(named) else ""
            self.newest.append(Change(event.step, ", ".join(named) + rest, sites, count))

    def behind(self, step: int, sites: Sequence[str]) -> Mask:
        """`(sites,)` whether it may be another parameter than after that step; any, if changes are many."""
        late = [change for change in self.newest if change.step > step]
        found = np.full(len(sites), len(late) == _HABIT, dtype=np.bool_)
        for change in late:
            found |= change.may_hold(sites)
        return found

    def before(self, step: int) -> Change | None:
        """Return the newest change at most `JUST_BEFORE` steps before; None without one, or if changes are frequent."""
        steps = [change.step for change in self.newest]
        if len(steps) == _HABIT and all(later - earlier <= JUST_BEFORE for earlier, later in pairwise(steps)):
            return None
        near = [change for change in self.newest if 0 <= step - change.step <= JUST_BEFORE]
        return near[-1] if near else None

    def of(self, finding: Finding) -> str:
        """Return the change at or shortly before the finding's first step, in words; empty if none can matter."""
        if finding.cause in _ELSEWHERE:
            return ""
        change = self.before(finding.first_step)
        return "" if change is None else change.since(finding.first_step)


def change_at(finding: Finding, events: Iterable[Event]) -> str:
    """Return the change at or shortly before a stored finding, in words; empty if none can matter.

    Args:
        events: Of its rank, oldest first.
    """
    known = Changes()
    for event in events:
        if event.step <= finding.step:
            known.learn_event(event)
    return known.of(finding)
