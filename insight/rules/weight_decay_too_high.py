"""Weights that shrink everywhere under weight decay."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...storage import ROOT_SITE, Finding, OptimizerInfo
from ..context.model_index import ModelIndex, rate_name
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Floats, Streak, count_before_first, median

_PLAIN = chain("one:Dense", "two:Dense")
_DECAYED = replace(_PLAIN, optimizers=(OptimizerInfo("AdamW", ({"lr": 0.001, "weight_decay": 30.0},)),))
#: Share of its norm that a matrix loses per step; it is halved in 140 steps. Usual rates and decays (1e-3 x 0.1, 0.1 x
#: 5e-4) take 7,000 and more.
_PACE = 0.005
_LASTING = 8
#: Share of the pace that rate times decay must reach, where the decay acts in the step itself; else the loss shrinks
#: the weights (our choice).
_EXPLAINS = 0.3
#: Product of rate and decay to aim at: the weights average their updates over 10,000 steps.
_AIM = 1e-4
#: Share of the matrices that must shrink.
_MOST = 0.9
#: Optimizers whose decay acts in the step itself, by rate times decay, so that one step is proof enough.
_DIRECT = ("adamw", "adamweightdecay", "lion", "muon", "sgd", "momentum")


@dataclass(slots=True)
class _WeightDecayTooHighState:
    """The norms before and at first, for how long they have shrunk, and the optimizers' decay."""

    checked: ModelIndex | None = None
    decay: float = 0.0
    first: Floats = field(default_factory=lambda: np.zeros(0))
    before: Floats = field(default_factory=lambda: np.zeros(0))
    last: int = -1
    streak: Streak = field(default_factory=Streak)
    is_reported: bool = False


def _skip_window(lookahead: Lookahead, memory: _WeightDecayTooHighState) -> SkipWindow | None:
    """Skip records while no matrix shrinks as fast as the typical one would have to."""
    weight, norms = lookahead.context.table("weight"), lookahead.columns("weight", "l2_norm")
    if memory.is_reported or (memory.checked is lookahead.context.model and memory.decay <= 0):
        return lookahead.whole
    if memory.checked is not lookahead.context.model or weight is None or norms is None:
        return None
    norms = norms[:, lookahead.context.model.decayed(weight.rows.sites)]
    if norms.shape[1] != len(memory.before):
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = norms / np.vstack((memory.before, norms[:-1]))

    def learn(records: int) -> None:
        memory.before, memory.streak.length = norms[records - 1], 0
        memory.last = lookahead.records[records - 1].step

    return SkipWindow(count_before_first(ratio < 1 - 0.98 * _PACE), learn)


@rule(
    "weight-decay-too-high",
    needs=("weight", "structure"),
    phase=OPTIMIZER,
    skip_window=_skip_window,
    memory=_WeightDecayTooHighState,
    warm_up=_LASTING + 1,
    fires_on=(
        Recording(
            {
                "one.weight weight/l2_norm": tuple(8 * 0.97**step for step in range(12)),
                "two.weight weight/l2_norm": tuple(8 * 0.97**step for step in range(12)),
            },
            _DECAYED,
        ),
        # rate times decay, and the first step shows it
        Recording(
            {
                "one.weight weight/l2_norm": (7.76,),
                "one.weight update/l2_norm": (0.24,),
                "one.weight update/ratio_to_weight": (0.03,),
                "scalar/learning_rate": 0.001,
            },
            _DECAYED,
        ),
    ),
    silent_on=(
        # they shrink by what they learn: rate times decay is next to nothing
        Recording(
            {
                "one.weight weight/l2_norm": tuple(8 * 0.987**step for step in range(20)),
                "two.weight weight/l2_norm": tuple(8 * 0.987**step for step in range(20)),
                "scalar/learning_rate": 1e-6,
            },
            _DECAYED,
        ),
        # recorded at every tenth step
        Recording(
            {"one.weight weight/l2_norm": tuple(x for at in range(20) for x in (8 * 0.98**at, *(None,) * 9))}, _DECAYED
        ),
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
def check(context: StepContext, memory: _WeightDecayTooHighState) -> Iterator[Finding]:
    """Report weight decay that shrinks all weights.

    The rule fires when, for 8 records, nine of ten weight matrices have shrunk, the typical one by 0.5 % a step or
    more, and the optimizer's options contain weight decay. The pace is measured, so it holds for decoupled decay (rate
    times decay) and for decay that passes through an adaptive optimizer. Decoupled decay must explain a third of it;
    what an adaptive optimizer adds to the gradient must be a third of the gradient. If rate times decay is that large
    by itself and acts in the step, one step is enough.

    The reciprocal of rate times decay is the time over which the weights average their updates (Wang and Aitchison
    2024, arXiv:2405.13698, section 3). It should be an epoch or more; here it is below 200 steps. Lower the weight
    decay.
    """
    table = context.table("weight")
    if table is None or memory.is_reported or context.record.skipped:
        return
    if memory.checked is not context.model:
        memory.checked, memory.decay = context.model, _decay(context)
    if memory.decay <= 0:
        return
    rows = context.model.decayed(table.rows.sites)
    norms = table.column("l2_norm")[rows]
    if len(norms) != len(memory.before):
        memory.before, memory.first, memory.streak = _before(context, table, rows), norms, Streak()
    before, memory.before = memory.before, norms
    steps = max(context.step - memory.last, 1) if memory.last >= 0 else 1
    memory.last = context.step
    pace, declared = _pace(before, norms) / steps, _declared_decay(context)
    is_explained = not declared < _EXPLAINS * pace and not _share_of_gradient(context, memory.decay, table) < _EXPLAINS
    length = memory.streak.update(pace >= _PACE and is_explained, context.step)
    if not length or length < (1 if _declared_decay(context) >= _PACE else _LASTING):
        return
    memory.is_reported = True
    yield _report(context, memory, memory.decay, pace, float(np.nanmedian(norms / memory.first)))


def _pace(before: Floats, norms: Floats) -> float:
    """Return the share of its norm that the typical matrix has lost; 0 unless nine of ten have lost some."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = norms / before
    usable = (ratio > 0) & (ratio < np.inf)
    count = np.count_nonzero(usable)
    if not count or np.count_nonzero(usable & (ratio < 1)) / count < _MOST:
        return 0.0
    return -median(np.log(ratio[usable]))


def _before(context: StepContext, table: Table, rows: NDArray[np.intp]) -> Floats:
    """`(rows,)` the norms before this step, from its own update; NaN where that is not known."""
    update = context.table("update")
    if update is None or update.rows.sites != table.rows.sites:
        return np.full(len(rows), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((update.column("l2_norm") / update.column("ratio_to_weight"))[rows], dtype=np.float64)


def _declared_decay(context: StepContext) -> float:
    """Return the largest product of rate and decay, by the options of the groups whose decay acts at once.

    NaN where none of them acts so, or the rate was not recorded: then the product says nothing.
    """
    found, index = np.nan, 0
    for optimizer in context.model.structure.optimizers:
        for group in optimizer.groups:
            rate = context.scalar(rate_name(index))
            decay, index = group.get("weight_decay"), index + 1
            if optimizer.kind.lower() in _DIRECT and rate and isinstance(decay, int | float):
                found = float(np.fmax(found, rate * float(decay)))
    return found


def _share_of_gradient(context: StepContext, decay: float, table: Table) -> float:
    """Return how large the decay of the typical matrix is beside its gradient, to which optimizers like Adam add it.

    NaN for decay that acts at once, and where gradients were not recorded.
    """
    gradient = context.table("gradient")
    kinds = {optimizer.kind.lower() for optimizer in context.model.structure.optimizers}
    if kinds.intersection(_DIRECT) or gradient is None or gradient.rows.sites != table.rows.sites:
        return float("nan")
    rows = context.model.decayed(table.rows.sites)
    norms, gradients = table.column("l2_norm")[rows], gradient.column("l2_norm")[rows]
    usable = np.isfinite(norms) & (gradients > 0)
    return float(np.median(decay * norms[usable] / gradients[usable])) if usable.any() else float("nan")


def _decay(context: StepContext) -> float:
    groups = [group for optimizer in context.model.structure.optimizers for group in optimizer.groups]
    values = [value for group in groups if isinstance(value := group.get("weight_decay"), int | float)]
    return float(max(values, default=0.0))


def _report(context: StepContext, memory: _WeightDecayTooHighState, decay: float, pace: float, left: float) -> Finding:
    rate = context.rate
    rate = float("nan") if rate is None else rate
    return context.finding(
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
        position=0,
        explanation=f"the typical weight matrix loses {pace:.2%} of its norm a step, for {memory.streak.length} "
        f"records, and has {left:.2g} of its first norm left; the optimizer's weight decay is {decay:.3g}"
        + ("" if np.isnan(rate) else f", which times the rate is {rate * decay:.2g}"),
        advice="lower the weight decay"
        + (f", at this rate to {_AIM / rate:.2g} or less" if rate * decay > _AIM else "")
        + ", and exclude biases and gains of normalisation",
        confidence=0.9,
    )
