"""What the state of an optimizer must be after a step: its own recurrence, checked on sums that are recorded anyway.

Adam's second moment is `v = beta2 v + (1 - beta2) g^2` in every element, so its mean is the same of the means, and the
mean of `g^2` is the gradient's squared norm over its size; momentum is linear in the gradient itself. Both sides are
known to the rounding of their dtypes. State that was loaded, scaled, lost or hit between two steps breaks the sum in
the very step, whatever the loss says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..history.series import Floats, Mask
from .anatomy import Anatomy
from .recurrence_terms import MOMENTUM_SLOT, SLOTS, Terms, by_site, options_of, terms_of
from .rest import Rest, first
from .table import Rows, Table, some

if TYPE_CHECKING:
    from .moment import Moment
    from .stretch import Stretch

#: Steps in a row in which it must have held before a step in which it does not means anything: options that are not
#: recorded (a penalty, a scale, a hook behind ours) break it from the start.
_HELD = 5
#: Of the norm of the whole slot: more than this is one element.
_SINGLE = 0.9


@dataclass(frozen=True, slots=True)
class Break:
    """One parameter whose optimizer state does not follow from the state before and this step's gradient.

    Args:
        slot: Of the optimizer.
        came: Mean of the slot; `expected` what it must be.
        peak: Largest element over the norm of the slot: 1 where a single element was hit.
        together: How many parameters broke in this step.
        is_of_a_first_step: Whether it is what the gradient alone makes of no state at all.
    """

    site: str
    slot: str
    came: float
    expected: float
    peak: float
    together: int
    is_of_a_first_step: bool = False


def is_a_hit(broken: list[Break]) -> bool:
    """Whether a single element of a single parameter makes all of the difference: wrong bits, and no state of old."""
    return len(broken) == 1 and broken[0].together == 1 and broken[0].peak > _SINGLE


@dataclass(slots=True)
class _Slot:
    """The mean of one slot after the step before, for how many steps each row has held, and its options.

    Args:
        step: The newest; `moved` the newest in which the optimizer has moved anything, which `before` is from.
    """

    step: int = -2
    moved: int = -2
    before: Floats = field(default_factory=lambda: np.zeros(0))
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    options: tuple[Floats, Floats, Floats] = field(default_factory=lambda: (np.zeros(0), np.zeros(0), np.zeros(0)))
    checked: Anatomy | None = None
    is_known: bool = False
    held: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(slots=True)
class Recurrence:
    """The slots of a run, asked once a record, in order."""

    slots: dict[str, _Slot] = field(default_factory=dict)
    kept: list[tuple[Rows, NDArray[np.int64]]] = field(default_factory=list)

    def keeps(self, site: str) -> bool:
        """Whether a slot of the parameter still follows from what it was, in the newest record that was asked about."""
        return any(site in rows.sites and held[rows.sites.index(site)] > _HELD for rows, held in self.kept)

    def broken(self, now: "Moment") -> list[Break]:
        """The parameters whose state was held by its recurrence for five steps and more and is not in this one."""
        found: list[Break] = []
        self.kept = []
        for slot in SLOTS:
            table = now.table(slot)
            if table is None or now.table("gradient") is None:
                continue
            if (memory := self.slots.get(slot)) is None:
                memory = self.slots[slot] = _Slot()
            if now.record.skipped:
                memory.step = now.step
                continue
            means = table.column("mean")
            found.extend(self._of(now, slot, memory))
            self.kept.append((table.rows, memory.held))
            memory.step = memory.moved = now.step
            memory.before = means if table.is_whole else np.where(table.present, means, np.nan)
            if slot == MOMENTUM_SLOT:
                memory.weights = by_site(now, "weight", "mean", table.rows)
        return found

    def rests(self, stretch: "Stretch") -> Rest | None:
        """For how many records nothing is broken; None where that has to be looked at in each."""
        if not stretch.carries("gradient"):
            return Rest(len(stretch), self._forget)
        rests = []
        for slot in filter(stretch.carries, SLOTS):
            rest = _rest(stretch, slot, self.slots.setdefault(slot, _Slot()))
            if rest is None:
                return None
            rests.append((slot, rest))

        def learn(records: int) -> None:
            self.kept = []
            for slot, rest in rests:
                rest.learn(records)
                table = stretch.now.table(slot)
                assert table is not None  # or there were no rest
                self.kept.append((table.rows, self.slots[slot].held))

        return Rest(min((rest.records for _, rest in rests), default=len(stretch)), learn)

    def _forget(self, records: int) -> None:
        self.kept = []

    def _of(self, now: "Moment", slot: str, memory: _Slot) -> Iterator[Break]:
        table = now.table(slot)
        if table is None or not _can_be_judged(now, slot, table, memory):
            return
        if some(anew := now.changes.behind(memory.moved, table.rows.sites)):
            memory.before, memory.held = np.where(anew, np.nan, memory.before), np.where(anew, 0, memory.held)
        terms = _terms(now, slot, memory)
        misfit = np.abs(terms.now - terms.expected)
        judged: Mask = np.isfinite(misfit) & (terms.now != terms.before)
        if not table.is_whole or table.holds_non_finite:
            judged &= table.present & ~table.non_finite
        fits = misfit <= terms.scale
        broken = judged & ~fits & (memory.held >= _HELD)
        memory.held = np.where(judged, np.where(fits, memory.held + 1, 0), memory.held)
        if not some(broken):
            return
        if terms.has_one_reason(judged & ~fits):
            memory.held[:] = 0
            return
        first_steps = np.abs(terms.now - terms.gain * terms.fed) <= terms.scale
        with np.errstate(invalid="ignore", divide="ignore"):
            sizes = np.fmax(np.abs(table.column("max")), np.abs(table.column("min"))) / table.column("l2_norm")
        for row in np.flatnonzero(broken):
            yield Break(
                table.rows.sites[row],
                slot.removeprefix("optimizer/"),
                float(terms.now[row]),
                float(terms.expected[row]),
                float(sizes[row]),
                int(broken.sum()),
                bool(first_steps[row]),
            )


def _rest(stretch: "Stretch", slot: str, memory: _Slot) -> Rest | None:
    """For how many records every row of the slot that can be judged fits, found for all of them at once."""
    now = stretch.now
    table, means = now.table(slot), stretch.columns(slot, "mean")
    steps = [memory.step, *(one.step for one in stretch.records)]
    gaps = {later - earlier for earlier, later in pairwise(steps)}
    if table is None or means is None or not (gaps == {1} or 1 not in gaps):
        return None
    if some(now.changes.behind(memory.moved, table.rows.sites)):
        return Rest(0)  # the state of some begins anew in the first
    weights = stretch.columns("weight", "mean") if slot == MOMENTUM_SLOT and stretch.carries("weight") else None
    subjects = [slot, "gradient"] if weights is None else [slot, "gradient", "weight"]
    count = stretch.finite(*subjects)
    tables = [one for subject in subjects if (one := now.table(subject)) is not None]
    if not count or not all(table.rows.are(one.rows) for one in tables):
        return None
    if weights is None:
        weights = np.full(means.shape, np.nan)
    judged = np.zeros(means.shape, dtype=np.bool_)
    if _can_be_judged(now, slot, table, memory):
        before = np.vstack((memory.before, means[:-1]))
        earlier = np.vstack((memory.weights, weights[:-1])) if slot == MOMENTUM_SLOT else weights
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            terms = terms_of(slot, memory.options, stretch.sure, before, earlier)
            misfit = np.abs(terms.now - terms.expected)
            judged = np.isfinite(misfit) & (terms.now != terms.before)
            count = min(count, first(judged & ~(misfit <= terms.scale)))
    elif gaps == {1} and memory.is_known:
        return None  # the first cannot be judged, and those after it can

    def learn(records: int) -> None:
        memory.held = memory.held + judged[:records].sum(axis=0)
        memory.step = memory.moved = steps[records]
        memory.before = means[records - 1]
        if slot == MOMENTUM_SLOT:
            memory.weights = weights[records - 1]

    return Rest(count, learn)


def _can_be_judged(now: "Moment", slot: str, table: Table, memory: _Slot) -> bool:
    """Whether the step before is known, and an option of the slot; brings the memory to the rows of the table."""
    count = len(table.rows.sites)
    if len(memory.held) < count:
        memory.held = np.pad(memory.held, (0, count - len(memory.held)))
    if memory.step != now.step - 1 or len(memory.before) != count:
        memory.held[:] = 0
        return False
    if memory.checked is not now.anatomy or len(memory.options[0]) != count:
        memory.checked, memory.options = now.anatomy, options_of(now, slot, table.rows.sites)
        memory.is_known = not np.isnan(memory.options[0]).all()
    return memory.is_known


def _terms(now: "Moment", slot: str, memory: _Slot) -> Terms:
    """The terms of one step."""
    table = now.table(slot)
    assert table is not None  # its caller has it
    rows = table.rows

    def column(subject: str, statistic: str) -> Floats:
        return table.column(statistic) if subject == slot else by_site(now, subject, statistic, rows)

    return terms_of(slot, memory.options, column, memory.before, memory.weights)
