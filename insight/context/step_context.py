"""What a rule sees: one step of the run, and the coming records of its burst."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...storage import Block, Event, Finding, Severity, StepRecord
from ...storage.training_kinds import TrainingKind
from ..finding_onset import Changes
from ..running_statistics import Floats, Mask, median, medians
from .broken_claims import BrokenClaims
from .gradient_depth import DepthProfile, depth_profile, plain_depths
from .model_index import ModelIndex
from .record_burst import Burst, StackedSubject, once
from .subject_table import SubjectRows, Table

#: Update over weight from which the weight was as good as zero before: such a ratio says nothing of the update.
FROM_ZERO: Final = 1e6


def nothing(records: int) -> None:
    """Leave the rule's state as it is."""


class SkipWindow(NamedTuple):
    """The number of coming records, from the next one on, that a rule can skip.

    Args:
        learn: Called once with the number of skipped records; updates the rule's state as that many checks would have.
    """

    records: int
    learn: Callable[[int], object] = nothing


@dataclass(frozen=True, slots=True)
class Excess:
    """One parameter that moved farther than any gradients can move it.

    Args:
        ratio: Its largest update over the rate; for gradient descent the update itself.
        bound: The largest possible ratio, including decay and rounding.
        rate: The rate of its group; 1 for gradient descent.
        peak: Its largest update over the norm of all updates; 1 if a single element moved.
        is_of_adam: True for Adam's bound, which inconsistent state exceeds as well.
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
            limit = f"but no gradients can move it more than {self.bound:.3g} times"
            return f"moved {self.ratio:.3g} times the rate, {limit}"
        return f"moved by {self.ratio:.3g}, but rate and gradients can move it by at most {self.bound:.3g}"


@dataclass(frozen=True, slots=True)
class StateBreak:
    """One parameter whose optimizer state does not follow from the state before and this step's gradient.

    Args:
        slot: The optimizer's slot.
        value: Mean of the slot; `expected`: what it must be.
        peak: Largest element over the norm of the slot; 1 if a single element was hit.
        together: Number of parameters that broke in this step.
        is_of_a_first_step: True if the gradient alone explains it, without any earlier state.
    """

    site: str
    slot: str
    value: float
    expected: float
    peak: float
    together: int
    is_of_a_first_step: bool = False


class StateRecurrence(Protocol):
    """Checks the recurrence of optimizer states, step by step; see `optimizer_state`."""

    def broken(self, context: "StepContext") -> list[StateBreak]:
        """Return the parameters whose state does not follow from the step before."""

    def keeps(self, site: str) -> bool:
        """Return whether a slot of the parameter followed its recurrence in the newest record."""


class OptimizerBounds(Protocol):
    """Checks how far optimizers can move a parameter; see `optimizer_bounds`, which fulfils it."""

    @property
    def recurrence(self) -> StateRecurrence:
        """The check of the optimizers' states."""

    def exceeded(self, context: "StepContext") -> list[Excess]:
        """Return the parameters that moved beyond their bound in this record's step."""

    def skip_window(self, lookahead: "Lookahead") -> SkipWindow | None:
        """Return for how many records nothing exceeds a bound; None where each record must be checked."""


class StepContext:
    """One record, with everything that a rule may ask about it.

    Attributes:
        burst: The burst that the record is part of.
        index: The record's index in it, -1 for none.
        kind: The kind of training, as far as it is known.
        learner: The learner whose loss this is; empty where the record has one loss.
        is_within_bounds: True if it is already known that nothing moved too far and no state is broken.

    Args:
        record: As it was stored.
        rows: The rows of every subject; rows that appear for the first time are added.
        model: The model's structure.
        rank: The recording process.
        bound: The check of how far the run's optimizers can move a parameter.
        burst: The burst that the record is part of.
        changes: The newest changes of the model's modules, including those of this record.
        kind: The kind of training.
        claims: What checks have contradicted, this record included.
    """

    def __init__(
        self,
        record: StepRecord,
        rows: dict[str, SubjectRows],
        model: ModelIndex,
        rank: int,
        bound: OptimizerBounds,
        burst: Burst | None = None,
        changes: Changes | None = None,
        kind: TrainingKind | None = None,
        claims: BrokenClaims | None = None,
    ) -> None:
        self.kind, self.learner = TrainingKind() if kind is None else kind, ""
        self.record = record
        self.model = model
        self._rows = rows
        self._tables: dict[str, Table | None] = {}
        self._blocks: dict[str, list[Block]] = {}
        for block in record.blocks:
            self._blocks.setdefault(block.layout.subject, []).append(block)
        self._rank, self.bound = rank, bound
        self.burst = Burst() if burst is None else burst
        self.changes = Changes() if changes is None else changes
        self.claims = BrokenClaims() if claims is None else claims
        self.index = self.burst.index(record)
        self.is_within_bounds = False

    @property
    def step(self) -> int:
        """Number of the optimizer step."""
        return self.record.step

    @property
    def rate(self) -> float | None:
        """The learning rate of the first group of parameters that the loss trains; None when it was not recorded."""
        return self.scalar("learning_rate")

    def scalar(self, name: str) -> float | None:
        """Return a logged scalar; None when this record does not carry it."""
        return self.record.scalars.get(name)

    def table(self, subject: str) -> Table | None:
        """Return the subject's table, made at the first request; None when this record does not carry the subject."""
        try:
            return self._tables[subject]
        except KeyError:
            blocks = self._blocks.get(subject)
            table = self._tables[subject] = self._made(subject, blocks) if blocks else None
            return table

    def _made(self, subject: str, blocks: list[Block]) -> Table:
        if subject not in self._rows:
            self._rows[subject] = SubjectRows(blocks[0].layout)
        return self._rows[subject].table(blocks, self.burst, self.index)

    @property
    def subjects(self) -> Iterable[str]:
        """The subjects that this record carries."""
        return self._blocks.keys()

    def known_sites(self, subject: str) -> list[str]:
        """Return every site that the subject has had in the run so far."""
        rows = self._rows.get(subject)
        return rows.sites if rows is not None else []

    def events(self, kind: str) -> list[Event]:
        """Return the events of one kind."""
        events = self.record.events
        return [event for event in events if event.kind == kind] if events else []

    @once
    def has_a_surrogate_loss(self) -> bool:
        """Return True when the loss has no floor or no sign: with rewards, or networks trained against each other.

        Networks with a loss each may be trained against each other unless it is known that they are not.
        """
        if _is_of_a_policy(tuple(self.record.scalars)) or self.kind.name in _SURROGATE:
            return True
        return self.model.has_players and self.kind.name not in _WITH_A_FLOOR

    @once
    def matrices(self) -> Mask | None:
        """Return `(rows of update,)`: True for weights of matrix products; None when no update was recorded."""
        table = self.table("update")
        return None if table is None else self.model.matrices(table.rows.sites)

    @once
    def depth(self) -> DepthProfile | None:
        """Return how the gradient changes with depth; None when this record does not tell."""
        table = self.table("gradient")
        return None if table is None or self.record.skipped else depth_profile(table, self.model)

    @once
    def beyond_adam(self) -> list[Excess]:
        """Return the parameters that moved farther in this step than their optimizer can move them."""
        return [] if self.is_within_bounds else self.bound.exceeded(self)

    @once
    def broken_state(self) -> list[StateBreak]:
        """Return the parameters whose optimizer state does not follow from the last state and this gradient."""
        return [] if self.is_within_bounds else self.bound.recurrence.broken(self)

    def keeps_its_state(self, excess: Excess) -> bool:
        """Return whether the optimizer's state is known to be right after this step, so that it cannot be the cause."""
        return not excess.is_of_adam or (self.bound.recurrence.keeps(excess.site) and not self.broken_state)

    @once
    def typical_update(self) -> float:
        """Return the median over the weight matrices of update norm over weight norm; NaN when it was not recorded.

        Weights that were zero before have no such ratio.
        """
        table = self.table("update")
        if table is None or self.matrices is None:
            return float("nan")
        order = self.model.matrices_in_order(table.rows.sites)
        if table.stacked is not None:
            return table.stacked.known("typical", order, lambda stacked: _typical(stacked, order))[table.index]
        ratios = table.column("ratio_to_weight")
        if not table.is_whole:
            return median(ratios[self.matrices & table.present & (ratios < FROM_ZERO)])
        few = ratios[order]
        known = few < FROM_ZERO
        return median(few if np.count_nonzero(known) == len(few) else few[known])

    @once
    def whole_update(self) -> float:
        """Return the norm of all updates over the norm of all parameters; NaN when they were not recorded."""
        table = self.table("update")
        if table is None:
            return float("nan")
        updates, ratios = table.there("l2_norm"), table.there("ratio_to_weight")
        is_known = np.isfinite(updates) & (ratios > 0)  # parameters of zero have an infinite ratio
        weights = updates[is_known] / ratios[is_known]
        norm = float(np.linalg.norm(weights))
        return float(np.linalg.norm(updates[is_known])) / norm if norm > 0 else float("nan")

    def typical_updates(self, records: int) -> list[float] | None:
        """Return `typical_update` of the next records of the burst, this one first; None if they are not stacked."""
        table = self.table("update")
        if table is None or table.stacked is None:
            return None
        order = self.model.matrices_in_order(table.rows.sites)
        found = table.stacked.known("typical", order, lambda stacked: _typical(stacked, order))
        return found[table.index : table.index + records]

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
        position: int | None = None,
        confidence: float = 1.0,
        rank: int | None = None,
    ) -> Finding:
        """Return a finding at this step; the engine adds the rule that made it (`Rule.sign`).

        Args:
            severity: `error` if the training cannot go well like this, `warning` if it needs a look, `info` if it is
                only good to know and leaves the verdict healthy.
            first_step: Since when it has been wrong; this step by default.
            position: Position within the phase; by default the site's position in the call order.
            confidence: As the rule states it: 1 for a fact, less if a threshold decides. Less than 1 is calibrated by
                how often the rule was right.
            rank: Whose fault it is; by default the recording process. Rank 0 also receives findings about other ranks.
        """
        order = max(self.model.order(site), 0) if position is None else position
        return Finding(
            rule="",
            cause="",
            severity=severity,
            step=self.step,
            first_step=self.step if first_step is None else first_step,
            site=site,
            metric=metric,
            evidence={name: float(value) for name, value in evidence.items()},
            explanation=explanation,
            advice=advice,
            confidence=confidence,
            rank=self._rank if rank is None else rank,
            order=(self.record.micro_step, 0, order),
        )


#: Kinds of training whose loss may rise while all is well, and kinds whose loss falls.
_SURROGATE = frozenset({"policy", "value", "adversarial", "meta"})
_WITH_A_FLOOR = frozenset({"classification", "regression", "language_model", "autoencoder", "diffusion"})


@lru_cache(maxsize=256)
def _is_of_a_policy(scalars: tuple[str, ...]) -> bool:
    return any(name.startswith(("reward/", "policy/", "advantage/")) for name in scalars)


def _typical(stacked: StackedSubject, order: NDArray[np.intp]) -> list[float]:
    """Return, by record, the median of the ratios of these rows, those of weights that were zero left out."""
    ratios = stacked.columns("ratio_to_weight")[:, order]
    if (ratios < FROM_ZERO).all():
        return medians(ratios)
    return [median(row[row < FROM_ZERO]) for row in ratios]


class Lookahead:
    """The coming records of a burst, in order; none of them is skipped or has events.

    Args:
        context: The first of them, which has not been observed yet.
        records: All of them.

    Attributes:
        bounds: The skip window in which no parameter exceeds its bound and no optimizer state breaks; None if unknown.
    """

    def __init__(self, context: StepContext, records: Sequence[StepRecord]) -> None:
        self.context = context
        self.records = records
        self.bounds: SkipWindow | None = None
        self._has_looked = False
        self._scalars: dict[str, list[float | None]] = {}
        self._columns: dict[tuple[str, str], Floats | None] = {}

    def __len__(self) -> int:
        return len(self.records)

    @property
    def whole(self) -> SkipWindow:
        """A skip window over all of them that leaves the rule's state as it is."""
        return SkipWindow(len(self))

    def within_bounds(self, learn: Callable[[int], object] = nothing) -> SkipWindow | None:
        """Return a skip window for as long as no parameter exceeds its optimizer's bounds."""
        if self.bounds is None and not self._has_looked:
            self._has_looked, self.bounds = True, self.context.bound.skip_window(self)
        return None if self.bounds is None else SkipWindow(self.bounds.records, learn)

    def until(self, subject: str) -> int:
        """Return how many of the first records do not carry the subject."""
        context = self.context
        return min(context.burst.next_with(subject, context.index) - context.index, len(self))

    def carries(self, subject: str) -> bool:
        """Return whether any of them carries the subject."""
        return self.until(subject) < len(self)

    def columns(self, subject: str, statistic: str) -> Floats | None:
        """Return `(records, sites)` values of one statistic; None where the subject is not stacked."""
        key = subject, statistic
        if key not in self._columns:
            table = self.context.table(subject)
            stacked = None if table is None else table.stacked
            self._columns[key] = None
            if table is not None and stacked is not None:
                self._columns[key] = stacked.columns(statistic)[table.index :][: len(self)]
        return self._columns[key]

    def sure(self, subject: str, statistic: str) -> Floats:
        """Return `columns` of a subject that is known to be stacked."""
        found = self.columns(subject, statistic)
        assert found is not None, subject
        return found

    def finite(self, *subjects: str) -> int:
        """Return how many of the first records hold no NaN and no infinity in these subjects.

        Zero where the records are not alike in one of them; what none of them carries is left out.
        """
        count = len(self)
        for subject in filter(self.carries, subjects):
            table = self.context.table(subject)
            count = min(count, 0 if table is None else table.finite_for(len(self)))
        return count

    def scalars(self, name: str) -> list[float | None]:
        """Return the logged scalar of each record; None where it does not carry it."""
        if name not in self._scalars:
            self._scalars[name] = [record.scalars.get(name) for record in self.records]
        return self._scalars[name]

    def known(self, name: str, records: int) -> list[float]:
        """Return the logged scalar of those of the first records that carry it."""
        return [value for value in self.scalars(name)[:records] if value is not None]

    def until_not_finite(self, name: str) -> int:
        """Return how many of the first records do not carry this scalar as NaN or infinity."""
        values = enumerate(self.scalars(name))
        return next((at for at, value in values if value is not None and not isfinite(value)), len(self))

    def until_scalar(self, *names: str) -> int:
        """Return how many of the first records carry none of these scalars."""
        context = self.context
        return min(context.burst.next_logged(names, context.index) - context.index, len(self))

    def typical_updates(self) -> list[float] | None:
        """Return `StepContext.typical_update` of each record; None where their updates are not stacked."""
        return self.context.typical_updates(len(self)) if self.carries("update") else [float("nan")] * len(self)

    def norms(self, subject: str) -> list[float] | None:
        """Return each record's Euclidean norm over all tensors; None where the subject is not stacked."""
        table = self.context.table(subject)
        return None if table is None or table.stacked is None else table.norm_of_each(len(self))

    def plain_depths(self) -> int:
        """Return for how many of the first records gradients are similar at all depths or give no profile."""
        table = self.context.table("gradient")
        return 0 if table is None else plain_depths(table, self.context.model, len(self))
