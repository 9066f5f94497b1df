"""Checks that optimizer state follows from the state before, the gradient and the options."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...storage import Json
from ..event_fields import as_number
from ..running_statistics import Floats, Mask, count_before_first
from .model_index import ModelIndex, group_of
from .step_context import Lookahead, SkipWindow, StateBreak, StepContext
from .subject_table import SubjectRows, Table, some

#: Relative misfit that rounding leaves, by dtype: 1e-6 in our float32 trainings, half a digit in narrower dtypes.
_MISFIT = {"float16": 2.0**-8, "bfloat16": 2.0**-5}
_FITS = 1e-4
#: Fewest rows that one changed option, or one factor of all gradients, must explain; the tolerance in misfits; and the
#: least plausible momentum or beta2.
_FEWEST, _EXACT, _LEAST_KEPT = 2, 4.0, 0.3
#: By optimizer: the slot that holds a mean of squares. Optimizers that add weight decay to the gradient are left out.
_SQUARES = {
    "adam": "exp_avg_sq",
    "adamw": "exp_avg_sq",
    "nadam": "exp_avg_sq",
    "radam": "exp_avg_sq",
    "adamweightdecay": "exp_avg_sq",
    "rmsprop": "square_avg",
}
_MOMENTUM = ("sgd", "momentum")
#: Optimizers that divide by the root of Adam's second moment, in lower case.
ADAMS = tuple(kind for kind, slot in _SQUARES.items() if slot == "exp_avg_sq")
MOMENTUM_SLOT = "optimizer/momentum_buffer"
SLOTS = sorted({*(f"optimizer/{name}" for name in _SQUARES.values()), MOMENTUM_SLOT})
#: Returns the values of a statistic of a subject, by the rows of the slot.
_Columns = Callable[[str, str], Floats]


@dataclass(frozen=True, slots=True)
class Terms:
    """The recurrence of each row: `current` must be `keep * before + gain * fed`, to `scale`.

    Args:
        is_mean: `gain` is `1 - keep`, so that a changed option changes both.
    """

    current: Floats
    before: Floats
    fed: Floats
    keep: Floats
    gain: Floats
    scale: Floats
    is_mean: bool

    @property
    def expected(self) -> Floats:
        """The right side of the recurrence."""
        return self.keep * self.before + self.gain * self.fed

    def has_one_reason(self, rows: Mask) -> bool:
        """Return whether one changed option, or one factor of all gradients, explains these rows."""
        if rows.sum() < _FEWEST:
            return False
        base = self.fed if self.is_mean else np.zeros(len(self.fed))
        kept = self._ratio(self.current - np.where(self.is_mean, 1.0, self.gain) * self.fed, self.before - base, rows)
        gain = 1.0 - kept if self.is_mean else self.gain
        scaled = self._ratio(self.current - self.keep * self.before, self.gain * self.fed, rows)
        by_option = _LEAST_KEPT < kept <= 1.0 and self._fits(kept * self.before + gain * self.fed, rows)
        by_scale = 0.0 < scaled <= 1.0 and self._fits(self.keep * self.before + scaled * self.gain * self.fed, rows)
        return by_option or by_scale

    def _ratio(self, numerator: Floats, denominator: Floats, rows: Mask) -> float:
        """Return the ratio of the row in which it is known best."""
        sure = np.where(rows, np.abs(denominator) / np.maximum(self.scale, 1e-300), -1.0)
        row = int(np.argmax(sure))
        return float(numerator[row] / denominator[row]) if denominator[row] else 0.0

    def _fits(self, expected: Floats, rows: Mask) -> bool:
        return bool((np.abs(self.current - expected) <= _EXACT * self.scale)[rows].all())


def terms_of(
    slot: str, options: tuple[Floats, Floats, Floats], column: _Columns, before: Floats, weights: Floats
) -> Terms:
    """Return the terms of one step, `(rows,)`, or of several, `(records, rows)`.

    Args:
        before: The mean of the slot after the step before; `weights` that of the weights.
    """
    size, norm = column("gradient", "size"), column("gradient", "l2_norm")
    squares = norm * norm / size
    keep, decay, misfit = options
    means = column(slot, "mean")
    if slot != MOMENTUM_SLOT:
        scale = misfit * (means + keep * before)
        return Terms(means, before, squares, keep, 1.0 - keep, scale, is_mean=True)
    rms = column(slot, "l2_norm") / np.sqrt(column(slot, "size"))
    plain = np.where(decay == 0.0, 0.0, decay * weights)
    fed = column("gradient", "mean") + plain
    # the mean of what has both signs is small against its elements, whose rounding it inherits
    scale = misfit * np.abs(means) + 0.1 * misfit * (rms + np.sqrt(squares))
    return Terms(means, before, fed, keep, np.ones(keep.shape), scale, is_mean=False)


def by_site(context: StepContext, subject: str, statistic: str, rows: SubjectRows) -> Floats:
    """`(rows,)` the statistic of another subject; NaN where it is not there, or holds what is not finite."""
    table = context.table(subject)
    if table is None:
        return np.full(len(rows.sites), np.nan)
    return table.at(rows, table.finite(table.column(statistic)))


def betas_of(group: Mapping[str, Json]) -> tuple[float, float]:
    """Return the two betas of a group's options; NaN where it has none."""
    betas = group.get("betas")
    first, second = betas if isinstance(betas, list | tuple) and len(betas) == 2 else (None, None)
    return as_number(first), as_number(second)


def options_of(context: StepContext, slot: str, sites: list[str]) -> tuple[Floats, Floats, Floats]:
    """`(sites,)` how much is kept of the state, decay added to the gradient, relative misfit; NaN where not known."""
    keep, decay, misfit = (np.full(len(sites), np.nan) for _ in range(3))
    for row, site in enumerate(sites):
        if (found := group_of(context.model, site)) is None:
            continue
        kind, group = found.kind, found.options
        misfit[row] = _MISFIT.get(context.model.parameters[site].dtype, _FITS)
        added = 0.0 if kind in ("adamw", "adamweightdecay") or group.get("decoupled_weight_decay") is True else None
        decay[row] = added if added is not None else as_number(group.get("weight_decay"), 0.0)
        if slot == MOMENTUM_SLOT:
            is_plain = kind in _MOMENTUM and not group.get("maximize") and not as_number(group.get("dampening"), 0.0)
            keep[row] = as_number(group.get("momentum")) if is_plain else np.nan
        elif _SQUARES.get(kind) == slot.removeprefix("optimizer/") and decay[row] == 0.0:
            second = betas_of(group)[1]
            keep[row] = as_number(group.get("alpha")) if np.isnan(second) else second
    return keep, decay, misfit


#: Steps in a row in which the recurrence must have held; options that are not recorded (a penalty, a scale, a later
#: hook) break it from the start.
_FITTED = 5
#: Share of the norm of the whole slot above which a single element makes the difference.
_SINGLE = 0.9


def is_bit_flip(broken: list[StateBreak]) -> bool:
    """Return whether a single element of a single parameter makes the whole difference: flipped bits, not old state."""
    return len(broken) == 1 and broken[0].together == 1 and broken[0].peak > _SINGLE


@dataclass(slots=True)
class _Slot:
    """The state of one slot: its mean after the step before, since when each row fits, and its options.

    Args:
        step: The newest; `moved` the newest in which the optimizer has moved anything, which `before` is from.
    """

    step: int = -2
    moved: int = -2
    before: Floats = field(default_factory=lambda: np.zeros(0))
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    options: tuple[Floats, Floats, Floats] = field(default_factory=lambda: (np.zeros(0), np.zeros(0), np.zeros(0)))
    checked: ModelIndex | None = None
    is_known: bool = False
    fit_lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(slots=True)
class Recurrence:
    """Checks the recurrence of every optimizer slot, once per record, in order."""

    slots: dict[str, _Slot] = field(default_factory=dict)
    kept: list[tuple[SubjectRows, NDArray[np.int64]]] = field(default_factory=list)

    def keeps(self, site: str) -> bool:
        """Return whether a slot of the parameter followed its recurrence in the newest checked record."""
        return any(site in rows.sites and lengths[rows.sites.index(site)] > _FITTED for rows, lengths in self.kept)

    def broken(self, context: StepContext) -> list[StateBreak]:
        """Return the parameters whose state followed its recurrence for five steps or more and does not in this one."""
        found: list[StateBreak] = []
        self.kept = []
        for slot in SLOTS:
            table = context.table(slot)
            if table is None or context.table("gradient") is None:
                continue
            if (memory := self.slots.get(slot)) is None:
                memory = self.slots[slot] = _Slot()
            if context.record.skipped:
                memory.step = context.step
                continue
            means = table.column("mean")
            found.extend(self._of(context, slot, memory))
            self.kept.append((table.rows, memory.fit_lengths))
            memory.step = memory.moved = context.step
            memory.before = means if table.is_whole else np.where(table.present, means, np.nan)
            if slot == MOMENTUM_SLOT:
                memory.weights = by_site(context, "weight", "mean", table.rows)
        return found

    def skip_window(self, lookahead: Lookahead) -> SkipWindow | None:
        """Return for how many records no state is broken; None if each record must be checked."""
        if not lookahead.carries("gradient"):
            return SkipWindow(len(lookahead), self._forget)
        windows = []
        for slot in filter(lookahead.carries, SLOTS):
            window = _slot_skip_window(lookahead, slot, self.slots.setdefault(slot, _Slot()))
            if window is None:
                return None
            windows.append((slot, window))

        def learn(records: int) -> None:
            self.kept = []
            for slot, window in windows:
                window.learn(records)
                table = lookahead.context.table(slot)
                assert table is not None  # or there was no window
                self.kept.append((table.rows, self.slots[slot].fit_lengths))

        return SkipWindow(min((window.records for _, window in windows), default=len(lookahead)), learn)

    def _forget(self, records: int) -> None:
        self.kept = []

    def _of(self, context: StepContext, slot: str, memory: _Slot) -> Iterator[StateBreak]:
        table = context.table(slot)
        if table is None or not _can_be_judged(context, slot, table, memory):
            return
        if some(anew := context.changes.behind(memory.moved, table.rows.sites)):
            memory.before, memory.fit_lengths = (
                np.where(anew, np.nan, memory.before),
                np.where(anew, 0, memory.fit_lengths),
            )
        terms = _terms(context, slot, memory)
        misfit = np.abs(terms.current - terms.expected)
        judged: Mask = np.isfinite(misfit) & (terms.current != terms.before)
        if not table.is_whole or table.holds_non_finite:
            judged &= table.present & ~table.non_finite
        fits = misfit <= terms.scale
        broken = judged & ~fits & (memory.fit_lengths >= _FITTED)
        memory.fit_lengths = np.where(judged, np.where(fits, memory.fit_lengths + 1, 0), memory.fit_lengths)
        if not some(broken):
            return
        if terms.has_one_reason(judged & ~fits):
            memory.fit_lengths[:] = 0
            return
        first_steps = np.abs(terms.current - terms.gain * terms.fed) <= terms.scale
        with np.errstate(invalid="ignore", divide="ignore"):
            sizes = np.fmax(np.abs(table.column("max")), np.abs(table.column("min"))) / table.column("l2_norm")
        for row in np.flatnonzero(broken):
            yield StateBreak(
                site=table.rows.sites[row],
                slot=slot.removeprefix("optimizer/"),
                value=float(terms.current[row]),
                expected=float(terms.expected[row]),
                peak=float(sizes[row]),
                together=int(broken.sum()),
                is_of_a_first_step=bool(first_steps[row]),
            )


def _slot_skip_window(lookahead: Lookahead, slot: str, memory: _Slot) -> SkipWindow | None:
    """Return for how many records every row of the slot fits; check all of them at once."""
    context = lookahead.context
    table, means = context.table(slot), lookahead.columns(slot, "mean")
    steps = [memory.step, *(record.step for record in lookahead.records)]
    gaps = {later - earlier for earlier, later in pairwise(steps)}
    if table is None or means is None or not (gaps == {1} or 1 not in gaps):
        return None
    if some(context.changes.behind(memory.moved, table.rows.sites)):
        return SkipWindow(0)  # the state of some begins anew in the first
    weights = lookahead.columns("weight", "mean") if slot == MOMENTUM_SLOT and lookahead.carries("weight") else None
    subjects = [slot, "gradient"] if weights is None else [slot, "gradient", "weight"]
    count = lookahead.finite(*subjects)
    tables = [other for subject in subjects if (other := context.table(subject)) is not None]
    if not count or not all(table.rows.are(other.rows) for other in tables):
        return None
    if weights is None:
        weights = np.full(means.shape, np.nan)
    judged = np.zeros(means.shape, dtype=np.bool_)
    if _can_be_judged(context, slot, table, memory):
        before = np.vstack((memory.before, means[:-1]))
        earlier = np.vstack((memory.weights, weights[:-1])) if slot == MOMENTUM_SLOT else weights
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            terms = terms_of(slot, memory.options, lookahead.sure, before, earlier)
            misfit = np.abs(terms.current - terms.expected)
            judged = np.isfinite(misfit) & (terms.current != terms.before)
            count = min(count, count_before_first(judged & ~(misfit <= terms.scale)))
    elif gaps == {1} and memory.is_known:
        return None  # the first cannot be judged, and those after it can

    def learn(records: int) -> None:
        memory.fit_lengths = memory.fit_lengths + judged[:records].sum(axis=0)
        memory.step = memory.moved = steps[records]
        memory.before = means[records - 1]
        if slot == MOMENTUM_SLOT:
            memory.weights = weights[records - 1]

    return SkipWindow(count, learn)


def _can_be_judged(context: StepContext, slot: str, table: Table, memory: _Slot) -> bool:
    """Return whether the step before and an option of the slot are known; grow the memory to the table's rows."""
    count = len(table.rows.sites)
    if len(memory.fit_lengths) < count:
        memory.fit_lengths = np.pad(memory.fit_lengths, (0, count - len(memory.fit_lengths)))
    if memory.step != context.step - 1 or len(memory.before) != count:
        memory.fit_lengths[:] = 0
        return False
    if memory.checked is not context.model or len(memory.options[0]) != count:
        memory.checked, memory.options = context.model, options_of(context, slot, table.rows.sites)
        memory.is_known = not np.isnan(memory.options[0]).all()
    return memory.is_known


def _terms(context: StepContext, slot: str, memory: _Slot) -> Terms:
    """Return the terms of one step."""
    table = context.table(slot)
    assert table is not None  # its caller has it
    rows = table.rows

    def column(subject: str, statistic: str) -> Floats:
        return table.column(statistic) if subject == slot else by_site(context, subject, statistic, rows)

    return terms_of(slot, memory.options, column, memory.before, memory.weights)
