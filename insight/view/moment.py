"""What a rule sees: one step of the run, every subject as one table, and the model's anatomy."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...storage import Block, Event, Finding, Severity, StepRecord
from ..causes.confidence import calibrated
from ..changes import Changes
from ..history.series import median, medians
from .adam_bound import AdamBound, Excess
from .anatomy import Anatomy
from .burst import Alike, Burst
from .depth import DepthProfile, depth_profile
from .once import once
from .recurrence import Break
from .table import Mask, Rows, Table


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
        bound: AdamBound,
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
