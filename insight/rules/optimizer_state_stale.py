"""Updates larger than the state of the optimizer allows, or a state that was lost."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from ...storage import Event, Finding, Json, OptimizerInfo, ParameterInfo, Structure
from ..anatomy import Anatomy
from ..moment import Moment
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..table import Floats, Mask, Table

_ADAM = ("Adam", "AdamW")
#: For rounding inside the optimizer; a stale state exceeds the bound several times (our choice).
_SLACK = 1.05
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def _adam() -> Structure:
    groups: Mapping[str, Json] = {"lr": 0.001, "betas": [0.9, 0.999], "weight_decay": 0.0}
    return replace(chain("one:Dense", "two:Dense"), optimizers=(OptimizerInfo("Adam", (groups,)),))


def _moved(*by: float) -> dict[str, float | tuple[float, ...]]:
    return {
        "one.weight update/max": by,
        "one.weight update/min": tuple(-0.5 * value for value in by),
        "one.weight weight/max": 1.0,
        "one.weight weight/min": -1.0,
        "scalar/learning_rate": 0.001,
    }


@dataclass(slots=True)
class _Memory:
    """From which count and step on each optimizer was watched; for which parameters a finding was made."""

    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    checked: Anatomy | None = None
    places: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))


@rule(
    "optimizer-state-stale",
    needs=("update",),
    phase=OPTIMIZER,
    memory=_Memory,
    is_fact=True,
    fires_on=(
        Recording(_moved(0.001, 0.001, 0.02), _adam()),
        Recording(_moved(0.001), _adam(), events=(Event("optimizer_state_lost", 0, data={"count": 0}),)),
    ),
    silent_on=(
        Recording(_moved(0.001, 0.001, 0.0009), _adam()),
        # the rate has grown, and the updates with it
        Recording(_moved(0.001, 0.009) | {"scalar/learning_rate": (0.001, 0.01)}, _adam()),
        # plain gradient descent has no bound
        Recording(_moved(0.001, 0.02), chain("one:Dense", "two:Dense")),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """An Adam update exceeds what its own formula allows, or the steps that an optimizer counts have gone back.

    By the inequality of Cauchy and Schwarz no gradients whatever can make |update| / rate larger than
    `(1 - b1) / (1 - b1^t) * sqrt((1 - b2^t) / (1 - b2) * (1 - q^t) / (1 - q))` with `q = b1^2 / b2`: 1 in the first
    step, 7.3 in the long run for (0.9, 0.999); Kingma and Ba 2015, arXiv:1412.6980, section 2.1, give 3.2 for a
    gradient that comes once. A larger update means that first and second moment do not belong together: one was
    lost, loaded from elsewhere, or not updated. Decay of the weights and the rounding of their dtype are allowed for.
    """
    yield from _lost(now)
    for event in now.events("optimizer_step_count"):
        number, count = event.data.get("optimizer"), event.data.get("count")
        if isinstance(number, int) and isinstance(count, int):
            memory.counts[number] = count, event.step
    table = now.table("update")
    if table is None or now.record.skipped:
        return
    largest = np.maximum(np.abs(table.column("min")), np.abs(table.column("max")))
    for row in np.flatnonzero(_are_large(now, memory, table, largest)):
        site = table.rows.sites[row]
        bound, rate = _bound(now, memory, now.anatomy.parameters[site])
        if site in memory.said or not largest[row] > bound * rate:
            continue
        memory.said.add(site)
        ratio = float(largest[row] / rate)
        yield now.finding(
            site,
            "update/max",
            {"update_over_rate": ratio, "bound": bound, "rate": rate, "update": float(largest[row])},
            explanation=f"an element of {site} moved {ratio:.3g} times the rate, and no gradients can make an update "
            f"of more than {bound:.3g} times: the two moments of the optimizer do not belong together",
            advice="look for a state that was loaded in part, reset, or kept while the parameters were replaced; save "
            "and load optimizer.state_dict() whole, and make the optimizer anew where that cannot be",
        )


def _are_large(now: Moment, memory: _Memory, table: Table, largest: Floats) -> Mask:
    """`(rows,)` True where the update exceeds the bound alone, before decay and rounding are allowed for."""
    if memory.checked is not now.anatomy or len(memory.places) != len(table.rows.sites):
        memory.checked = now.anatomy
        memory.places = np.array([_place(now, site) for site in table.rows.sites], dtype=np.intp)
    limits = np.array([*(bound * rate for bound, rate in _limits(now, memory)), inf])
    return np.asarray(table.present & np.isfinite(largest) & (largest > limits[memory.places]), dtype=np.bool_)


def _place(now: Moment, site: str) -> int:
    """Number of the parameter's group among all groups of all optimizers; -1 where it is in none or in several."""
    info = now.anatomy.parameters.get(site)
    optimizers = now.anatomy.structure.optimizers
    if info is None or info.group is None or info.more_groups or info.group[0] >= len(optimizers):
        return -1
    return sum(len(one.groups) for one in optimizers[: info.group[0]]) + info.group[1]


def _limits(now: Moment, memory: _Memory) -> Iterator[tuple[float, float]]:
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


def _lost(now: Moment) -> Iterator[Finding]:
    for event in now.events("optimizer_state_lost"):
        numbers = {name: float(v) for name in ("count", "count_before") if isinstance(v := event.data.get(name), int)}
        yield now.finding(
            "",
            "update/l2_norm",
            numbers or {"count": 0.0},
            first_step=event.step,
            place=0,
            explanation=f"at step {event.step} the optimizer counts fewer steps than before: its state was lost or "
            f"replaced "
            f"by an older one in the middle of the run",
            advice="look for optimizer.state being cleared, or load_state_dict() of an old checkpoint inside the loop",
        )


def _bound(now: Moment, memory: _Memory, info: ParameterInfo) -> tuple[float, float]:
    """The bound of |update| / rate for the parameter with decay and rounding, and the rate."""
    bound, rate = list(_limits(now, memory))[_place(now, info.site)]
    number, group = info.group or (0, 0)
    decay = now.anatomy.structure.optimizers[number].groups[group].get("weight_decay")
    reach = _reach(now, info.site)
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


def _reach(now: Moment, site: str) -> float:
    """The largest magnitude among the weights after the step; unlimited where it was not recorded."""
    table = now.table("weight")
    if table is None or site not in table.rows.sites:
        return inf
    row = table.rows.sites.index(site)
    return max(abs(table.value(row, "min")), abs(table.value(row, "max")))
