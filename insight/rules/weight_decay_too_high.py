"""Weights that shrink everywhere because they are told to."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ...storage import ROOT_SITE, Finding, OptimizerInfo
from ..moment import Moment
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..series import median
from ..table import Floats
from ..usual import Streak

_PLAIN = chain("one:Dense", "two:Dense")
_DECAYED = replace(_PLAIN, optimizers=(OptimizerInfo("AdamW", ({"lr": 0.001, "weight_decay": 30.0},)),))
#: Per step; a matrix is halved in 140 steps. Usual rates and decays (1e-3 x 0.1, 0.1 x 5e-4) take 7,000 and more.
_PACE = 0.005
_LASTING = 8


@dataclass(slots=True)
class _Memory:
    """Norms of the record before and of the first, and for how long all have shrunk."""

    first: Floats = field(default_factory=lambda: np.zeros(0))
    before: Floats = field(default_factory=lambda: np.zeros(0))
    streak: Streak = field(default_factory=Streak)
    is_said: bool = False


@rule(
    "weight-decay-too-high",
    needs=("weight", "structure"),
    phase=OPTIMIZER,
    memory=_Memory,
    warm_up=_LASTING + 1,
    fires_on=(
        Recording(
            {
                "one.weight weight/l2_norm": tuple(8 * 0.97**step for step in range(12)),
                "two.weight weight/l2_norm": tuple(8 * 0.97**step for step in range(12)),
            },
            _DECAYED,
        ),
    ),
    silent_on=(
        Recording({"one.weight weight/l2_norm": tuple(8 * 0.9999**step for step in range(12))}, _DECAYED),
        # they shrink, but no decay is at work
        Recording({"one.weight weight/l2_norm": tuple(8 * 0.97**step for step in range(12))}, _PLAIN),
        # half of them grow
        Recording(
            {
                "one.weight weight/l2_norm": tuple(8 * 0.97**step for step in range(12)),
                "two.weight weight/l2_norm": tuple(8 * 1.02**step for step in range(12)),
            },
            _DECAYED,
        ),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """For 8 records nine of ten weight matrices have shrunk, the typical one by 0.5 % and more a step, under decay.

    The optimizer's options say that there is decay; the pace is measured, so that it holds whether the decay is
    decoupled (rate times decay) or passes through an adaptive optimizer. The reciprocal of rate times decay is the time
    over which the weights are an average of their updates (Wang and Aitchison 2024, arXiv:2405.13698, section 3), which
    should be an epoch or more; here it is below 200 steps.
    """
    table = now.table("weight")
    if table is None or memory.is_said or now.record.skipped:
        return
    decay = _decay(now)
    if decay <= 0:
        return
    rows = now.anatomy.matrices_in_order(table.rows.sites)
    norms = table.column("l2_norm")[rows]
    if len(norms) != len(memory.before):
        memory.before, memory.first, memory.streak = norms, norms, Streak()
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        change = np.log(norms / memory.before)
    memory.before = norms
    usable = np.isfinite(change)
    shrinks = bool(usable.any()) and float((change[usable] < 0).mean()) >= 0.9
    pace = -median(change[usable]) if shrinks else 0.0
    if memory.streak.update(shrinks and pace >= _PACE, now.step) < _LASTING:
        return
    memory.is_said = True
    yield _report(now, memory, decay, pace, float(np.nanmedian(norms / memory.first)))


def _decay(now: Moment) -> float:
    groups = [group for optimizer in now.anatomy.structure.optimizers for group in optimizer.groups]
    values = [value for group in groups if isinstance(value := group.get("weight_decay"), int | float)]
    return float(max(values, default=0.0))


def _report(now: Moment, memory: _Memory, decay: float, pace: float, left: float) -> Finding:
    rate = now.scalar("learning_rate")
    rate = float("nan") if rate is None else rate
    return now.finding(
        ROOT_SITE,
        "weight/l2_norm",
        {
            "shrinks_per_step": pace,
            "limit": _PACE,
            "weight_decay": decay,
            "rate_times_decay": rate * decay,
            "norm_left": left,
        },
        severity="warning",
        first_step=memory.streak.since,
        place=0,
        explanation=f"the typical weight matrix loses {pace:.2%} of its norm in every step and has {left:.2g} of its "
        f"first norm left; the optimizer decays weights with {decay:.3g}, which times the rate is {rate * decay:.2g}",
        advice="lower the weight decay until rate times decay is below about 1e-4 (AdamW: 0.01 to 0.1 at a rate of "
        "1e-3), and leave biases and gains of normalisation out of it",
        confidence=0.9,
    )
