"""What an Adam optimizer can do to an element in one step, and which parameters moved farther."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..storage import Json, ParameterInfo
from .anatomy import Anatomy
from .series import Floats, Mask
from .table import Table

if TYPE_CHECKING:
    from .moment import Moment

_ADAM = ("Adam", "AdamW")
#: For rounding, for betas that a schedule moves between steps, and for weights that are put back between steps, whose
#: difference is that of two updates; what is stale exceeds the bound many times (our choice).
_SLACK = 2.2
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@dataclass(frozen=True, slots=True)
class Excess:
    """One parameter that moved farther than any gradients can move it.

    Args:
        ratio: Its largest update over the rate.
        bound: What that can be at most, decay and rounding included.
        rate: Of its group.
        peak: Its largest update over the norm of all: 1 where a single element moved.
    """

    site: str
    ratio: float
    bound: float
    rate: float
    peak: float


@dataclass(slots=True)
class AdamBound:
    """From which count and step on each optimizer was watched, and the groups of the rows of `update`."""

    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    checked: Anatomy | None = None
    places: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))

    def exceeded(self, now: "Moment") -> list[Excess]:
        """The parameters that moved beyond the bound in this record's step; asked once a record, in order."""
        for event in now.events("optimizer_step_count"):
            number, count = event.data.get("optimizer"), event.data.get("count")
            if isinstance(number, int) and isinstance(count, int):
                self.counts[number] = count, event.step
        table = now.table("update")
        if table is None or now.record.skipped:
            return []
        largest = np.maximum(np.abs(table.column("min")), np.abs(table.column("max")))
        norms = np.maximum(table.column("l2_norm"), 1e-300)
        found = []
        for row in np.flatnonzero(_are_large(now, self, table, largest)):
            site = table.rows.sites[row]
            bound, rate = _bound(now, self, now.anatomy.parameters[site], float(largest[row]))
            if largest[row] > bound * rate:
                found.append(Excess(site, float(largest[row] / rate), bound, rate, float(largest[row] / norms[row])))
        return found


def _are_large(now: "Moment", memory: AdamBound, table: Table, largest: Floats) -> Mask:
    """`(rows,)` True where the update exceeds the bound alone, before decay and rounding are allowed for."""
    if memory.checked is not now.anatomy or len(memory.places) != len(table.rows.sites):
        memory.checked = now.anatomy
        memory.places = np.array([_place(now, site) for site in table.rows.sites], dtype=np.intp)
    limits = np.array([*(bound * rate for bound, rate in _limits(now, memory)), inf])
    return np.asarray(table.present & np.isfinite(largest) & (largest > limits[memory.places]), dtype=np.bool_)


def _place(now: "Moment", site: str) -> int:
    """Number of the parameter's group among all groups of all optimizers; -1 where it is in none or in several."""
    info = now.anatomy.parameters.get(site)
    optimizers = now.anatomy.structure.optimizers
    if info is None or info.group is None or info.more_groups or info.group[0] >= len(optimizers):
        return -1
    return sum(len(one.groups) for one in optimizers[: info.group[0]]) + info.group[1]


def _limits(now: "Moment", memory: AdamBound) -> Iterator[tuple[float, float]]:
    """The bound of |update| / rate and the rate, by group; infinite where there is none."""
    place = 0
    for number, optimizer in enumerate(now.anatomy.structure.optimizers):
        for group in optimizer.groups:
            rate = now.scalar(f"learning_rate/{place}" if place else "learning_rate")
            betas = _betas(group) if optimizer.kind in _ADAM else None
            place += 1
            if not rate or betas is None:
                yield inf, 1.0
                continue
            count, since = memory.counts.get(number, (10**6, now.step))  # not known: the bound of the long run
            yield adam_bound(*betas, count + now.step - since + 1), abs(rate)


def _bound(now: "Moment", memory: AdamBound, info: ParameterInfo, moved: float) -> tuple[float, float]:
    """The bound of |update| / rate for the parameter with decay and rounding, and the rate.

    Decay acts on the weights before the step, which reach no further than those after it and the update together.
    """
    bound, rate = list(_limits(now, memory))[_place(now, info.site)]
    number, group = info.group or (0, 0)
    decay = now.anatomy.structure.optimizers[number].groups[group].get("weight_decay")
    reach = _reach(now, info.site) + moved
    rounding = _EPSILON.get(info.dtype, 0.0) * reach / rate
    return _SLACK * (bound + (float(decay) * reach if isinstance(decay, int | float) else 0.0)) + rounding, rate


def adam_bound(beta1: float, beta2: float, step: int) -> float:
    """The largest |update| / rate that any gradients can bring about in Adam's step of that number, from 1."""
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


def _reach(now: "Moment", site: str) -> float:
    """The largest magnitude among the weights after the step; unlimited where it was not recorded."""
    table = now.table("weight")
    if table is None or site not in table.rows.sites:
        return inf
    row = table.rows.sites.index(site)
    return max(abs(table.value(row, "min")), abs(table.value(row, "max")))
