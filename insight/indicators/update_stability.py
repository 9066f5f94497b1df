"""Indicators of updates that are too large for the weights, and of the harm that they do.

The limits come from 37 healthy trainings (MLP, CNN, decoder; SGD, momentum, Adam, AdamW; five learning rates) and 32
with rates that ruin them. The median over the weight matrices of update norm over weight norm stayed below 0.15 in
every healthy one that never lost ground, and passed 0.3 in every ruined one before its loss rose.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Final

import numpy as np

from ..context.step_context import FROM_ZERO, StepContext
from ..running_statistics import RobustBaseline, Window, median
from .routing_collapse import LOST_LOGIT, ONE_HOT, SHARPER

#: Update over weight, per step, that no healthy training was seen to reach.
LARGE_UPDATE: Final = 0.3
#: Share of the entropy of the first look below which attention, or a policy, has lost its variety; and looks in a row.
_LOST, _LOOKS = 0.05, 2
#: Share of the first loss above it.
_THROWN = 0.5
#: Update over weight beyond which the weights are no longer what they were. Our choice, ten times the limit.
_THROWING: Final = 3.0
#: A first update over weight that leaves nothing of an initialisation; losses that then lie far above the first one,
#: and records among which they are. Our choice; the largest first update of a healthy training was 0.15.
_REPLACING, _ABOVE, _SOON = 1.0, 2, 11
#: Step until which attention settles; it is looked at more often before.
_SETTLED = 10
#: Factor of rate and update in a leap, and records before it (our choice).
_LEAP, _KNOWN = 10.0, 10
#: Records after an update of this size whose loss judges it.
_MEMORY: Final = 20
#: Records in which a weight that began at zero gets a size of its own: each step is large beside it before. Our choice.
_GROWS: Final = 20
_ADAPTIVE: Final = ("adam", "lamb", "rmsprop", "adagrad", "adadelta", "lion", "adafactor", "ftrl")


@dataclass(slots=True)
class _GrownWeights:
    """The update of weights that have a size to compare it with: layers that begin at zero grow for a while.

    Where all of them do, as in a single layer, there is nothing else to judge by, and they count.
    """

    records: int = 0
    _young: dict[str, int] = field(default_factory=dict)

    def typical_update(self, context: StepContext) -> float:
        """Return `StepContext.typical_update` without the weights that have begun at zero of late."""
        table, matrices = context.table("update"), context.matrices
        if table is None or matrices is None or self.records > 2 * _GROWS:
            return context.typical_update
        self.records += 1
        ratios, sites = table.column("ratio_to_weight"), table.rows.sites
        if self.records <= _GROWS:
            began = np.flatnonzero(table.present & (ratios >= FROM_ZERO))
            self._young.update((sites[row], self.records + _GROWS) for row in began)
        if not self._young:
            return context.typical_update
        is_old = np.array([self._young.get(site, 0) < self.records for site in sites], dtype=np.bool_)
        rest = ratios[matrices & table.present & is_old & (ratios < FROM_ZERO)]
        return median(rest) if len(rest) else context.typical_update


@dataclass(slots=True)
class UpdateStability:
    """The history of loss, update ratio and learning rate; it tells harmful large updates from harmless ones.

    Attributes:
        records: Number of records with a loss; for a policy, of all records.
        first: The first finite loss.
        is_harmed: True if the newest loss has lost all progress, or is not finite.
        harm: Number of newest losses in a row that were.
        thrown: Number of losses 1.5 times the first, or not finite; batches differ by less.
        large_since: Step of the first update of this episode that was too large; None without a recent one.
        large_first: Number of records before the first update that was too large; None without one.
        large_from: Step of that update.
        onset: Update ratio of that first update, which alone acts on weights that no such update has thrown far away.
        peak: Largest update ratio of the episode.
        damage: Looks in a row in which attention looked at one token, or a policy had a single answer left, although it
            had not in the first look.
        jumped_at: Step at which the learning rate last doubled or more in one step.
        has_no_matrix: True when no parameter is a matrix of a product. Healthy scalars, vectors and embeddings that
            start near zero take such updates as well: then only a finite loss beyond measure, or one that was harmed
            before, is a harm.
    """

    records: int = 0
    first: float = float("nan")
    is_harmed: bool = False
    harm: int = 0
    thrown: int = 0
    loss: float = float("nan")
    large_since: int | None = None
    large_first: int | None = None
    large_from: int = 0
    onset: float = float("nan")
    peak: float = float("nan")
    damage: int = 0
    jumped_at: int | None = None
    jump: float = 1.0
    has_no_matrix: bool = False
    rate: float = float("nan")
    first_rate: float = float("nan")
    highest_rate: float = float("nan")
    usual: Window = field(default_factory=lambda: Window(16))
    recent: Window = field(default_factory=lambda: Window(10))
    ratios: Window = field(default_factory=lambda: Window(20))
    _large_seen: int = 0
    _grown: _GrownWeights = field(default_factory=_GrownWeights)
    _whole: dict[str, float] = field(default_factory=dict)

    def update(self, context: StepContext) -> None:
        """Take the record: first the loss, which earlier updates caused, then this step's own update."""
        self._learn_rate(context)
        loss = context.scalar("loss")
        if loss is not None and not (context.has_a_surrogate_loss and isfinite(loss)):
            self._learn_loss(loss)
        elif loss is not None:
            self.records += 1
        self._learn_damage(context)
        self.has_no_matrix = context.model.has_no_matrix
        ratio = context.whole_update if self.has_no_matrix else self._grown.typical_update(context)
        if self.jumped_at != context.step:
            self.ratios.add(ratio)
        if ratio >= LARGE_UPDATE:
            if self.large_since is None:
                self.large_since, self.onset, self.peak = context.step, ratio, ratio
            if self.large_first is None:
                self.large_first, self.large_from = self.records, context.step
            self.peak, self._large_seen = max(self.peak, ratio), self.records
        elif self.large_since is not None and self.records - self._large_seen > _MEMORY and not self.is_harmed:
            self.large_since = None

    def is_ruined(self, step: int) -> bool:
        """True when too large updates came first and the loss lost its progress after them, lastingly or beyond
        measure."""
        if self.large_since is None or self.large_since >= step or not self.is_harmed:
            return False
        if self.has_no_matrix:
            return self.is_beyond_measure() and (self.harm >= 2 or isfinite(self.loss))
        return self.harm >= 3 or not isfinite(self.loss) or self.loss > self._bound(5.0)

    def leap(self, context: StepContext) -> float | None:
        """Return the usual update ratio if rate and update have jumped in this very step; None otherwise."""
        usual = self.ratios.median()
        is_leap = self.jumped_at == context.step and self.jump >= _LEAP and self.rate >= self.highest_rate
        is_known = len(self.ratios) >= _KNOWN and context.typical_update >= LARGE_UPDATE  # never NaN, as of vectors
        return usual if is_leap and is_known and usual < context.typical_update / _LEAP else None

    def has_thrown_the_weights(self) -> bool:
        """True when the newest update was several times as large as the weights."""
        is_newest = self.large_since is not None and self.records == self._large_seen
        return is_newest and self.peak >= _THROWING and not self.has_no_matrix

    def has_begun_anew(self) -> bool:
        """True when the first update was as large as the weights, and the loss then lay far above the first one."""
        is_first = self.large_first == 1 and self.onset >= _REPLACING and not self.has_no_matrix
        return is_first and self.thrown >= _ABOVE and self.records <= _SOON

    def is_damaged(self) -> bool:
        """True when too large updates came first, and in two looks since something was ruined beside the loss."""
        return self.large_first is not None and self.damage >= _LOOKS and not self.has_no_matrix

    def is_beyond_measure(self) -> bool:
        """True when the loss is not finite or about ten times what it was at first: no recovery needs to be awaited."""
        return not isfinite(self.loss) or self.loss > self._bound(90.0)

    def has_recovered(self) -> bool:
        """True when the loss of late lies clearly, by 15 %, below the first."""
        return self.recent.median() < self.first - 0.15 * abs(self.first)

    def is_at_full_rate_from_the_start(self) -> bool:
        """True when the learning rate never rose above what it was in the first step."""
        return bool(self.highest_rate <= 1.01 * self.first_rate)

    def _bound(self, times: float) -> float:
        usual = self.usual.median()
        progress = max(self.first - usual, 0.1 * abs(self.first), 3 * self.usual.spread())
        return usual + times * progress

    def _learn_loss(self, loss: float) -> None:
        self.loss = loss
        self.records += 1
        self.recent.add(loss)
        if not isfinite(self.first):
            self.first = loss if isfinite(loss) else self.first
        self.is_harmed = not isfinite(loss) or (len(self.usual) > 0 and loss > self._bound(1.0))
        self.harm = self.harm + 1 if self.is_harmed else 0
        self.thrown += not np.isfinite(loss) or loss > self.first + _THROWN * abs(self.first)
        if not self.is_harmed:
            self.usual.add(loss)

    def _learn_damage(self, context: StepContext) -> None:
        looks = list(_variety(context))
        for name, share, _ in looks:
            self._whole.setdefault(name, share)
        lost = [
            name for name, share, least in looks if self._whole[name] > ONE_HOT and share < least * self._whole[name]
        ]
        if self.large_first is None:
            self._whole.update(dict.fromkeys(lost, 0.0))  # whatever did that, it was no step too large
        elif looks:
            self.damage = self.damage + 1 if lost else 0

    def _learn_rate(self, context: StepContext) -> None:
        rate = context.rate
        if rate is None or not isfinite(rate):
            return
        if rate > 2 * self.rate > 0:
            self.jumped_at, self.jump = context.step, rate / self.rate
        self.first_rate = rate if isnan(self.first_rate) else self.first_rate
        self.highest_rate = rate if isnan(self.highest_rate) else max(self.highest_rate, rate)
        self.rate = rate


def _variety(context: StepContext) -> Iterator[tuple[str, float, float]]:
    """Yield a site, its entropy as a share of the largest, and the share of the first look below which it is lost."""
    entropy, attention = context.scalar("policy/entropy"), context.table("attention")
    if entropy is not None and entropy >= 0:
        yield "", entropy, _LOST
    if attention is not None and not 0 < context.step < _SETTLED:
        values, logits = attention.column("relative_entropy"), np.abs(attention.column("max_logit"))
        for row in np.flatnonzero(attention.present & np.isfinite(values)):
            yield attention.rows.sites[row], float(values[row]), SHARPER if logits[row] > LOST_LOGIT else _LOST


def is_adaptive(context: StepContext) -> bool:
    """True when a watched optimizer divides by a running second moment, so that its first steps are as large as any."""
    kinds = [optimizer.kind.lower() for optimizer in context.model.structure.optimizers]
    return any(word in kind for kind in kinds for word in _ADAPTIVE)


def is_cold_start(context: StepContext, stability: UpdateStability) -> bool:
    """True when an adaptive optimizer took too large steps from the very first on, at its full rate."""
    early = stability.large_first is not None and stability.large_first <= 3
    return early and is_adaptive(context) and stability.is_at_full_rate_from_the_start()


@dataclass(slots=True)
class Path:
    """The sum of updates over weights since the last update that was too large.

    A network that such a step has thrown far away stands still for that reason, whatever its data and its rate.

    Attributes:
        records: Number of records since then.
        length: The sum, in norms of the typical weight matrix.
        since: Step of the first of them.
    """

    records: int = 0
    length: float = 0.0
    since: int = 0

    def learn(self, context: StepContext) -> None:
        """Take this record's update."""
        update = context.typical_update
        if update >= LARGE_UPDATE:
            self.records, self.length = 0, 0.0
            return
        self.since = self.since if self.records else context.step
        self.records += 1
        self.length += update if isfinite(update) else 0.0


#: Deviations of the update, and factor of the rate, up to which a step is ordinary (our choice).
_STRANGE, _RISE = 6.0, 1.5


def has_begun_anew(context: StepContext) -> bool:
    """Return whether the step begins with another optimizer, as each client of a federated training does.

    Its weights are others, too, than those that the step before has left, and so is its loss.
    """
    return any(True for _ in context.events("optimizer_changed"))


@dataclass(slots=True)
class LastStep:
    """The size of each record's own step, which shows in the loss of the next record."""

    update: RobustBaseline = field(default_factory=lambda: RobustBaseline(is_log=True))
    rate: float = float("inf")
    is_ordinary: bool = True

    def learn(self, context: StepContext) -> None:
        """Take this record's step; `is_ordinary` describes it from here on."""
        deviates = self.update.update(context.typical_update)
        rate = context.rate
        rate = self.rate if rate is None else rate
        self.is_ordinary = not deviates > _STRANGE and rate <= _RISE * self.rate
        self.rate = rate
