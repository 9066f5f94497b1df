"""What a rule sees: one step of the run, and the records that follow it in a burst."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...storage import Block, Event, Finding, Severity, StepRecord
from ..finding_onset import Changes
from ..rule_confidence import calibrated
from ..running_statistics import median, medians
from .gradient_depth import DepthProfile, depth_profile, plain_depths
from .model_index import Anatomy
from .record_burst import Alike, Burst, once
from .subject_table import Floats, Mask, Rows, Table


def nothing(records: int) -> None:
    """What a rule learns of records that change nothing in what it remembers."""


class Rest(NamedTuple):
    """For how many records, from the next one on, a rule has nothing to say.

    Args:
        learn: Takes how many of them have passed, once, and brings the memory to where checks one by one would have.
    """

    records: int
    learn: Callable[[int], object] = nothing


@dataclass(frozen=True, slots=True)
class Excess:
    """One parameter that moved farther than any gradients can move it.

    Args:
        ratio: Its largest update over the rate; of gradient descent the update itself.
        bound: What that can be at most, decay and rounding included.
        rate: Of its group; 1 for gradient descent.
        peak: Its largest update over the norm of all: 1 where a single element moved.
        is_of_adam: Whether the bound is Adam's, which state that does not belong together exceeds as well.
    """

    site: str
    ratio: float
    bound: float
    rate: float
    peak: float
    is_of_adam: bool = True

    @property
    def words(self) -> str:
        """How far it moved, and how far it can."""
        if self.is_of_adam:
            limit = f"where no gradients can move it more than {self.bound:.3g} times"
            return f"moved {self.ratio:.3g} times the rate, {limit}"
        return f"moved by {self.ratio:.3g}, where rate and gradients can move it by {self.bound:.3g} at most"


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


class StateRecurrence(Protocol):
    """Checks the recurrence of optimizer states, step by step; see `optimizer_state`."""

    def broken(self, now: "Moment") -> list[Break]:
        """Return the parameters whose state does not follow from the step before."""

    def keeps(self, site: str) -> bool:
        """Return whether a slot of the parameter followed its recurrence in the newest record."""


class OptimizerBounds(Protocol):
    """Checks how far optimizers can move a parameter; see `optimizer_bounds`, which fulfils it."""

    @property
    def recurrence(self) -> StateRecurrence:
        """The check of the optimizers' states."""

    def exceeded(self, now: "Moment") -> list[Excess]:
        """Return the parameters that moved beyond their bound in this record's step."""

    def rests(self, stretch: "Stretch") -> Rest | None:
        """Return for how many records nothing exceeds a bound; None where each record must be checked."""


class Moment:
    """One record on its way past the rules.

    Attributes:
        speaker: Name, cause and phase of the rule that is being asked, whose findings are made.
        burst: The record and those after it, as far as they are there already.
        place: Which of the burst it is, -1 for none.
        is_within_bounds: It is known already that nothing moved too far, and that no state is broken.

    Args:
        record: As it was stored.
        rows: What the rows of every subject are; those that appear for the first time are added.
        anatomy: What is known about the model.
        rank: The recording process.
        bound: What the run's optimizers can do in a step, and have done.
        burst: The record and those after it, as far as they are there already.
        changes: The newest changes of the model's modules, those of this record among them.
    """

    def __init__(
        self,
        record: StepRecord,
        rows: dict[str, Rows],
        anatomy: Anatomy,
        rank: int,
        bound: OptimizerBounds,
        burst: Burst | None = None,
        changes: Changes | None = None,
    ) -> None:
        self.record = record
        self.anatomy = anatomy
        self._rows = rows
        self._tables: dict[str, Table | None] = {}
        self._blocks: dict[str, list[Block]] = {}
        for block in record.blocks:
            self._blocks.setdefault(block.layout.subject, []).append(block)
        self._rank, self.bound = rank, bound
        self.burst = Burst() if burst is None else burst
        self.changes = Changes() if changes is None else changes
        self.place = self.burst.place(record)
        self.speaker = ("", "", 0)
        self.is_within_bounds = False

    @property
    def step(self) -> int:
        """Number of the optimizer step."""
        return self.record.step

    def scalar(self, name: str) -> float | None:
        """A logged scalar; None when this record does not carry it."""
        return self.record.scalars.get(name)

    def table(self, subject: str) -> Table | None:
        """The subject's table, made when it is first asked for; None when this record does not carry it."""
        try:
            return self._tables[subject]
        except KeyError:
            blocks = self._blocks.get(subject)
            table = self._tables[subject] = self._made(subject, blocks) if blocks else None
            return table

    def _made(self, subject: str, blocks: list[Block]) -> Table:
        if subject not in self._rows:
            self._rows[subject] = Rows(blocks[0].layout)
        return self._rows[subject].table(blocks, self.burst, self.place)

    @property
    def subjects(self) -> Iterable[str]:
        """The subjects that this record carries."""
        return self._blocks.keys()

    def known_sites(self, subject: str) -> list[str]:
        """Every site that the subject has had in the run so far."""
        rows = self._rows.get(subject)
        return rows.sites if rows is not None else []

    def events(self, kind: str) -> list[Event]:
        """The events of one kind."""
        events = self.record.events
        return [event for event in events if event.kind == kind] if events else []

    @once
    def has_a_surrogate_loss(self) -> bool:
        """True when the loss has no floor or no sign: rewards are logged beside it, or networks are trained against
        each other."""
        return _is_of_a_policy(tuple(self.record.scalars)) or self.anatomy.has_players

    @once
    def matrices(self) -> Mask | None:
        """`(rows of update,)` True for weights of matrix products; None when no update was recorded."""
        table = self.table("update")
        return None if table is None else self.anatomy.matrices(table.rows.sites)

    @once
    def depth(self) -> DepthProfile | None:
        """How the gradient changes with depth; None when that cannot be told from this record."""
        table = self.table("gradient")
        return None if table is None or self.record.skipped else depth_profile(table, self.anatomy)

    @once
    def beyond_adam(self) -> list[Excess]:
        """The parameters that moved farther in this step than any gradients can make their Adam optimizer move them."""
        return [] if self.is_within_bounds else self.bound.exceeded(self)

    @once
    def broken_state(self) -> list[Break]:
        """The parameters whose optimizer state does not follow from the state before and this step's gradient."""
        return [] if self.is_within_bounds else self.bound.recurrence.broken(self)

    def keeps_its_state(self, one: Excess) -> bool:
        """Whether the optimizer's state is known to be as it should be after this step, so that it moved nothing too
        far."""
        return not one.is_of_adam or (self.bound.recurrence.keeps(one.site) and not self.broken_state)

    @once
    def typical_update(self) -> float:
        """Median over the weight matrices of update norm over weight norm; NaN when it was not recorded."""
        table = self.table("update")
        if table is None or self.matrices is None:
            return float("nan")
        order = self.anatomy.matrices_in_order(table.rows.sites)
        if table.alike is not None:
            return table.alike.known("typical", order, lambda one: _typical(one, order))[table.place]
        ratios = table.column("ratio_to_weight")
        if not table.is_whole:
            return median(ratios[self.matrices & table.present & np.isfinite(ratios)])
        few = ratios[order]
        finite = np.isfinite(few)
        return median(few if np.count_nonzero(finite) == len(few) else few[finite])

    def typical_updates(self, records: int) -> list[float] | None:
        """`typical_update` of so many records of the burst, this one first; None where they are not alike in it."""
        table = self.table("update")
        if table is None or table.alike is None:
            return None
        order = self.anatomy.matrices_in_order(table.rows.sites)
        found = table.alike.known("typical", order, lambda one: _typical(one, order))
        return found[table.place : table.place + records]

    def finding(
        self,
        site: str,
        metric: str,
        evidence: Mapping[str, float],
        *,
        explanation: str,
        advice: str,
        severity: Severity = "error",
        first_step: int | None = None,
        place: int | None = None,
        confidence: float = 1.0,
        rank: int | None = None,
    ) -> Finding:
        """A finding of the rule that is being asked, at this step.

        Args:
            first_step: Since when it has been wrong; this step by default.
            place: Position within the phase; by default the site's place in the call order.
            confidence: As the rule states it; what is no fact is set right by how often the rule was.
            rank: Whose fault it is, by default the recording process's: rank 0 hears of the others.
        """
        rule, cause, phase = self.speaker
        order = max(self.anatomy.order(site), 0) if place is None else place
        return Finding(
            rule=rule,
            cause=cause,
            severity=severity,
            step=self.step,
            first_step=self.step if first_step is None else first_step,
            site=site,
            metric=metric,
            evidence={name: float(value) for name, value in evidence.items()},
            explanation=explanation,
            advice=advice,
            confidence=calibrated(rule, confidence),
            rank=self._rank if rank is None else rank,
            order=(self.record.micro_step, phase, order),
        )


@lru_cache(maxsize=256)
def _is_of_a_policy(scalars: tuple[str, ...]) -> bool:
    return any(name.startswith(("reward/", "policy/", "advantage/")) for name in scalars)


def _typical(alike: Alike, order: NDArray[np.intp]) -> list[float]:
    """By record, the median of the finite ratios of the rows of that order."""
    ratios = alike.columns("ratio_to_weight")[:, order]
    if np.isfinite(ratios).all():
        return medians(ratios)
    return [median(row[np.isfinite(row)]) for row in ratios]


class Stretch:
    """Records in the order of their steps, none of them skipped or with events; they need not carry all the same.

    Args:
        now: The first of them, which has not been observed yet.
        records: All of them.

    Attributes:
        bounds: For how many of them nothing moves farther than it can, and every state of an optimizer follows from
            the one before; None where that is not known, or nobody has asked.
    """

    def __init__(self, now: Moment, records: Sequence[StepRecord]) -> None:
        self.now = now
        self.records = records
        self.bounds: Rest | None = None
        self._has_looked = False
        self._scalars: dict[str, list[float | None]] = {}
        self._columns: dict[tuple[str, str], Floats | None] = {}

    def __len__(self) -> int:
        return len(self.records)

    @property
    def whole(self) -> Rest:
        """A rest over all of them that leaves nothing to learn."""
        return Rest(len(self))

    def within_bounds(self, learn: Callable[[int], object] = nothing) -> Rest | None:
        """A rest for as long as the optimizers' bounds rest."""
        if self.bounds is None and not self._has_looked:
            self._has_looked, self.bounds = True, self.now.bound.rests(self)
        return None if self.bounds is None else Rest(self.bounds.records, learn)

    def until(self, subject: str) -> int:
        """How many of the first records do not carry the subject."""
        now = self.now
        return min(now.burst.next_with(subject, now.place) - now.place, len(self))

    def carries(self, subject: str) -> bool:
        """Whether any of them carries the subject."""
        return self.until(subject) < len(self)

    def columns(self, subject: str, statistic: str) -> Floats | None:
        """`(records, sites)` values of one statistic; None where the records are not all alike in the subject."""
        key = subject, statistic
        if key not in self._columns:
            table = self.now.table(subject)
            alike = None if table is None else table.alike
            self._columns[key] = None
            if table is not None and alike is not None:
                self._columns[key] = alike.columns(statistic)[table.place :][: len(self)]
        return self._columns[key]

    def sure(self, subject: str, statistic: str) -> Floats:
        """As `columns`, where it is known that the records are alike in the subject."""
        found = self.columns(subject, statistic)
        assert found is not None, subject
        return found

    def finite(self, *subjects: str) -> int:
        """How many of the first records hold no tensor of these subjects with a NaN or an infinity.

        Zero where the records are not alike in one of them; what none of them carries is left out.
        """
        count = len(self)
        for subject in filter(self.carries, subjects):
            table = self.now.table(subject)
            count = min(count, 0 if table is None else table.finite_for(len(self)))
        return count

    def scalars(self, name: str) -> list[float | None]:
        """The logged scalar of each record; None where it does not carry it."""
        if name not in self._scalars:
            self._scalars[name] = [one.scalars.get(name) for one in self.records]
        return self._scalars[name]

    def known(self, name: str, records: int) -> list[float]:
        """The logged scalar of those of the first records that carry it."""
        return [value for value in self.scalars(name)[:records] if value is not None]

    def until_not_finite(self, name: str) -> int:
        """How many of the first records carry no NaN and no infinity as this scalar."""
        values = enumerate(self.scalars(name))
        return next((at for at, value in values if value is not None and not isfinite(value)), len(self))

    def until_scalar(self, *names: str) -> int:
        """How many of the first records carry none of these scalars."""
        now = self.now
        return min(now.burst.next_logged(names, now.place) - now.place, len(self))

    def typical_updates(self) -> list[float] | None:
        """Of each record `Moment.typical_update`; None where the records are not alike in their updates."""
        return self.now.typical_updates(len(self)) if self.carries("update") else [float("nan")] * len(self)

    def norms(self, subject: str) -> list[float] | None:
        """Of each record the Euclidean norm over all tensors; None where the records are not alike in the subject."""
        table = self.now.table(subject)
        return None if table is None or table.alike is None else table.norm_of_each(len(self))

    def plain_depths(self) -> int:
        """How many of the first records show no depth, or one in which no two gradients are far apart."""
        table = self.now.table("gradient")
        return 0 if table is None else plain_depths(table, self.now.anatomy, len(self))
