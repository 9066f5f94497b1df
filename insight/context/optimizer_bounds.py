"""Bounds how far an optimizer can move an element in one step, and finds parameters that moved farther."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from ...storage import Json, ParameterInfo
from ..event_fields import as_number
from ..running_statistics import Floats, Mask, count_before_first
from .model_index import ModelIndex, group_of, rate_name
from .optimizer_state import Recurrence
from .step_context import Excess, Lookahead, SkipWindow, StepContext
from .subject_table import SubjectRows, Table, some

_KINDS = ("sgd", "momentum")
_BUFFER = "optimizer/momentum_buffer"
#: Times the bound: weights that an average pulls back, or a projection holds, move a few steps at once; an old
#: checkpoint and a flipped bit move hundreds (our choice).
_DESCENT_SLACK = 10.0
#: Records in a row in which a parameter must have kept its bound; what is written in every step is intended.
_KEPT = 5
#: Relative rounding of the weights, by dtype.
_ROUNDING = {"float16": 2.0**-8, "bfloat16": 2.0**-5, "float64": 2.0**-40}


@dataclass(slots=True)
class DescentBound:
    """Checks the bound of gradient descent: the options of each row of `update`, and since when it keeps its bound."""

    checked: ModelIndex | None = None
    is_known: bool = False
    rates: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    options: Floats = field(default_factory=lambda: np.zeros((0, 4)))
    kept: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def limits(self, context: StepContext, table: Table, largest: Floats) -> Floats | None:
        """`(rows of update,)` what a row cannot exceed; infinite where that is not known, or was exceeded of late.

        None where no optimizer is one of gradient descent.
        """
        if not self._knows(context, table):
            return None
        bound = self._bound(context, table)
        known = np.isfinite(bound) & table.present & np.isfinite(largest)
        is_within = known & (largest <= bound)
        limits = np.where(known & (self.kept >= _KEPT), bound, np.inf)
        self.kept = np.where(is_within, self.kept + 1, np.where(known, 0, self.kept))
        return limits

    def skip_window(self, lookahead: Lookahead, table: Table) -> SkipWindow | None:
        """Return for how many records every row of the update keeps to its bound."""
        if not self._knows(lookahead.context, table):
            return lookahead.whole
        subjects = [name for name in ("weight", "gradient", _BUFFER) if lookahead.carries(name)]
        tables = [other for name in subjects if (other := lookahead.context.table(name)) is not None]
        count = lookahead.finite("update", *subjects)
        if not count or not all(table.rows.are(other.rows) for other in tables):
            return None

        def largest(subject: str) -> Floats:
            if subject != "update" and subject not in subjects:
                return np.full((len(lookahead), len(table.rows.sites)), np.nan)
            return np.fmax(np.abs(lookahead.sure(subject, "min")), np.abs(lookahead.sure(subject, "max")))

        rates = np.array([self._rates(scalars) for scalars in (record.scalars for record in lookahead.records)])
        moved = np.maximum(np.abs(lookahead.sure("update", "min")), np.abs(lookahead.sure("update", "max")))
        bound = self._of(rates, largest)
        known = np.isfinite(bound) & np.isfinite(moved)
        is_within = known & (moved <= bound)

        def learn(records: int) -> None:
            self.kept = self.kept + is_within[:records].sum(axis=0)

        return SkipWindow(min(count, count_before_first(known & ~is_within)), learn)

    def _knows(self, context: StepContext, table: Table) -> bool:
        """Return whether any row is stepped by gradient descent; read the options again if the rows have changed."""
        count = len(table.rows.sites)
        if self.checked is not context.model or len(self.rates) != count:
            self.checked = context.model
            self.rates, self.options = _options(context, table.rows.sites)
            self.kept = np.pad(self.kept, (0, count - len(self.kept)))
            self.is_known = bool((self.rates >= 0).any())
        return self.is_known

    def _bound(self, context: StepContext, table: Table) -> Floats:
        return self._of(self._rates(context.record.scalars), lambda subject: _largest(context, subject, table.rows))

    def _rates(self, scalars: Mapping[str, float]) -> Floats:
        """`(rows,)` of one record; NaN where it is not known."""
        names = [rate_name(index) for index in range(int(self.rates.max()) + 1)]
        return np.array([*(abs(scalars.get(name) or np.nan) for name in names), np.nan])[self.rates]

    def _of(self, rates: Floats, largest: Callable[[str], Floats]) -> Floats:
        """`(rows,)`, or `(records, rows)` of several, from the largest magnitudes of each subject."""
        momentum, decay, nesterov, rounding = self.options.T
        weights = largest("weight")
        fed = largest("gradient") + decay * weights
        buffered = largest(_BUFFER)
        moved = np.where(momentum > 0, np.where(nesterov > 0, fed + momentum * buffered, buffered), fed)
        return np.asarray(_DESCENT_SLACK * rates * moved + rounding * weights, dtype=np.float64)


def _largest(context: StepContext, subject: str, rows: SubjectRows) -> Floats:
    """`(rows,)` the largest magnitude of each; NaN where it is not known or not finite."""
    table = context.table(subject)
    if table is None:
        return np.full(len(rows.sites), np.nan)
    return table.at(rows, table.finite(np.fmax(np.abs(table.column("min")), np.abs(table.column("max")))))


def _options(context: StepContext, sites: list[str]) -> tuple[NDArray[np.intp], Floats]:
    """`(sites,)` number of the group among all, -1 for none of this kind, and `(sites, 4)` its options."""
    places, options = np.full(len(sites), -1, dtype=np.intp), np.zeros((len(sites), 4))
    for row, site in enumerate(sites):
        found = group_of(context.model, site)
        if found is None or found.kind not in _KINDS:
            continue
        places[row] = found.number
        numbers = [as_number(found.options.get(name), 0.0) for name in ("momentum", "weight_decay", "nesterov")]
        options[row] = (*numbers, _ROUNDING.get(context.model.parameters[site].dtype, 2.0**-20))
    return places, options


_ADAM = ("Adam", "AdamW")
#: Times the bound, for rounding, for betas that a schedule moves, and for weights that are put back between steps;
#: stale state exceeds the bound many times (our choice).
_ADAM_SLACK = 2.2
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@dataclass(slots=True)
class AdamBound:
    """Checks how far each parameter can move: Adam's bound, gradient descent's bound, and the optimizer's state."""

    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    checked: ModelIndex | None = None
    places: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    recurrence: Recurrence = field(default_factory=Recurrence)
    descent: DescentBound = field(default_factory=DescentBound)

    def exceeded(self, context: StepContext) -> list[Excess]:
        """Return the parameters that moved beyond their bound in this step; call it once a record, in order."""
        for event in context.events("optimizer_step_count"):
            number, count = event.data.get("optimizer"), event.data.get("count")
            if isinstance(number, int) and isinstance(count, int):
                self.counts[number] = count, event.step
        table = context.table("update")
        if table is None or context.record.skipped:
            return []
        largest = table.largest()
        found = []
        for row in _large_rows(context, self, table, largest):
            site = table.rows.sites[row]
            bound, rate = _bound(context, self, context.model.parameters[site], float(largest[row]))
            if largest[row] > bound * rate:
                norm = max(table.value(row, "l2_norm"), 1e-300)
                found.append(Excess(site, float(largest[row] / rate), bound, rate, float(largest[row] / norm)))
        limits = self.descent.limits(context, table, largest)
        for row in () if limits is None else np.flatnonzero(largest > limits).tolist():
            assert limits is not None  # or there would be no row
            norm = max(table.value(row, "l2_norm"), 1e-300)
            ratio, bound, peak = float(largest[row]), float(limits[row]), float(largest[row] / norm)
            found.append(Excess(table.rows.sites[row], ratio, bound, 1.0, peak, is_of_adam=False))
        return found

    def skip_window(self, lookahead: Lookahead) -> SkipWindow | None:
        """Return for how many records no bound is exceeded and no state is broken; None if each must be checked."""
        state = self.recurrence.skip_window(lookahead)
        table = lookahead.context.table("update")
        if state is None or not lookahead.carries("update"):
            return state
        if table is None:
            return None
        descent = self.descent.skip_window(lookahead, table)
        if descent is None or table.stacked is None:
            return None
        largest = np.array(table.largest_of_each(len(lookahead)))
        within = count_before_first(~(largest <= _least_limits(lookahead, self)))

        def learn(records: int) -> None:
            state.learn(records)
            descent.learn(records)

        return SkipWindow(min(state.records, descent.records, within), learn)


def _least_limits(lookahead: Lookahead, memory: AdamBound) -> Floats:
    """`(records,)` the least of the groups' bounds on an update, a rounding below it; infinite where there is none."""
    least, index = np.full(len(lookahead), inf), 0
    for number, optimizer in enumerate(lookahead.context.model.structure.optimizers):
        for group in optimizer.groups:
            rates = lookahead.scalars(rate_name(index))
            betas = _betas(group) if optimizer.kind in _ADAM else None
            index += 1
            if betas is None:
                continue
            steps = np.array([record.step for record in lookahead.records], dtype=np.float64)
            count, since = memory.counts.get(number, (10**6, steps))
            bounds, rate = _adam_bounds(*betas, count + steps - since + 1), np.abs(np.array(rates, dtype=np.float64))
            least = np.fmin(least, np.where(rate > 0, (1 - 1e-9) * bounds * rate, inf))
    return least


def _adam_bounds(beta1: float, beta2: float, steps: Floats) -> Floats:
    """`adam_bound` of several steps, to a few roundings."""
    if not (0.0 <= beta1 < 1.0 and beta1 * beta1 < beta2 < 1.0):
        return np.full(len(steps), inf)
    q = beta1 * beta1 / beta2
    spread = (1 - beta2**steps) / (1 - beta2) * (1 - q**steps) / (1 - q)
    return np.asarray((1 - beta1) / (1 - beta1**steps) * np.sqrt(spread), dtype=np.float64)


def _large_rows(context: StepContext, memory: AdamBound, table: Table, largest: Floats) -> list[int]:
    """Return the rows whose update exceeds the bound before decay and rounding are allowed for."""
    if memory.checked is not context.model or len(memory.places) != len(table.rows.sites):
        memory.checked = context.model
        memory.places = np.array([_place(context, site) for site in table.rows.sites], dtype=np.intp)
    bounds = [*(bound * rate for bound, rate in _limits(context, memory)), inf]
    if table.largest_of_all <= min(bounds):
        return []
    large: Mask = largest > np.array(bounds)[memory.places]
    return np.flatnonzero(large & table.present & np.isfinite(largest)).tolist() if some(large) else []


def _place(context: StepContext, site: str) -> int:
    """Return the number of the parameter's group among all groups; -1 if it is in none or in several."""
    found = group_of(context.model, site)
    return -1 if found is None else found.number


def _limits(context: StepContext, memory: AdamBound) -> Iterator[tuple[float, float]]:
    """Yield the bound of |update| / rate and the rate of each group; infinite where there is none."""
    index = 0
    for number, optimizer in enumerate(context.model.structure.optimizers):
        for group in optimizer.groups:
            rate = context.scalar(rate_name(index))
            betas = _betas(group) if optimizer.kind in _ADAM else None
            index += 1
            if not rate or betas is None:
                yield inf, 1.0
                continue
            count, since = memory.counts.get(number, (10**6, context.step))  # not known: the bound of the long run
            yield adam_bound(*betas, count + context.step - since + 1), abs(rate)


def _bound(context: StepContext, memory: AdamBound, info: ParameterInfo, moved: float) -> tuple[float, float]:
    """Return the parameter's bound of |update| / rate, with decay and rounding, and its rate.

    Decay acts on the weights before the step, which reach no further than those after it and the update together.
    """
    bound, rate = list(_limits(context, memory))[_place(context, info.site)]
    number, group = info.group or (0, 0)
    decay = context.model.structure.optimizers[number].groups[group].get("weight_decay")
    reach = _reach(context, info.site) + moved
    rounding = _EPSILON.get(info.dtype, 0.0) * reach / rate
    return _ADAM_SLACK * (bound + (float(decay) * reach if isinstance(decay, int | float) else 0.0)) + rounding, rate


def adam_bound(beta1: float, beta2: float, step: int) -> float:
    """Return the largest |update| / rate that any gradients can cause in Adam's step of that number, from 1."""
    if not (0.0 <= beta1 < 1.0 and beta1 * beta1 < beta2 < 1.0):
        return inf
    q = beta1 * beta1 / beta2
    spread = (1 - beta2**step) / (1 - beta2) * (1 - q**step) / (1 - q)
    return (1 - beta1) / (1 - beta1**step) * sqrt(spread)


def _betas(group: Mapping[str, Json]) -> tuple[float, float] | None:
    betas = group.get("betas")
    values = list(betas) if isinstance(betas, list | tuple) else [group.get("beta1"), group.get("beta2")]
    first, second = [*values, None, None][:2]
    if isinstance(first, int | float) and isinstance(second, int | float):
        return float(first), float(second)
    return None


def _reach(context: StepContext, site: str) -> float:
    """Return the largest magnitude among the weights after the step; infinite if it was not recorded."""
    table = context.table("weight")
    if table is None or site not in table.rows.sites:
        return inf
    row = table.rows.sites.index(site)
    return max(abs(table.value(row, "min")), abs(table.value(row, "max")))
