"""Backward without step: gradients flow and the weights stand still."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...storage import ROOT_SITE, Finding
from ..moment import Moment
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..series import Streaks
from ..table import Mask, Table

_MODEL = chain("one:Dense", "two:Dense")
_LASTING = 5


@dataclass(slots=True)
class _Memory:
    """The weights' statistics when last seen, and for how long each weight has stood still."""

    before: NDArray[np.float64] | None = None
    streaks: Streaks = field(default_factory=Streaks)
    is_said: bool = False


@rule(
    "missing-optimizer-step",
    needs=("gradient", "weight"),
    phase=OPTIMIZER,
    memory=_Memory,
    warm_up=_LASTING + 1,
    is_fact=True,
    fires_on=(
        Recording(
            {
                "one.weight gradient/l2_norm": (1.0,) * 8,
                "one.weight weight/mean": 0.1,
                "one.weight update/l2_norm": 0.0,
            },
            _MODEL,
        ),
        Recording({"one.weight gradient/l2_norm": (1.0,) * 8, "one.weight weight/mean": 0.1}, _MODEL),
    ),
    silent_on=(
        Recording(
            {"one.weight gradient/l2_norm": (1.0,) * 8, "one.weight weight/mean": tuple(0.1 * at for at in range(8))},
            _MODEL,
        ),
        Recording(
            {
                "one.weight gradient/l2_norm": (1.0,) * 8,
                "one.weight weight/mean": 0.1,
                "one.weight update/l2_norm": 1e-9,
            },
            _MODEL,
        ),
        Recording(
            {"one.weight gradient/l2_norm": (1.0,) * 8, "one.weight weight/mean": 0.1, "scalar/learning_rate": 0.0},
            _MODEL,
        ),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """No weight matrix has changed for 5 records although finite gradients reached them and the rate is not zero.

    An update of exactly zero is the fact. Where updates are not recorded, weights whose every statistic stays the same
    to the last bit are taken for it, with less confidence: float16 and bfloat16 weights also stand still when each
    update is smaller than half of their last digit. Skipped steps do not count.
    """
    gradient, weight = now.table("gradient"), now.table("weight")
    if memory.is_said or now.record.skipped or gradient is None or weight is None or now.scalar("learning_rate") == 0:
        return
    update = now.table("update")
    still = _standing(weight, update, memory)
    memory.before = weight.values
    driven = _driven(now, gradient, weight)
    lengths = memory.streaks.update(still & driven, driven, now.step)[: len(driven)]
    if driven.any() and (lengths[driven] >= _LASTING).all():
        memory.is_said = True
        yield now.finding(
            ROOT_SITE,
            "update/l2_norm" if update is not None else "weight/l2_norm",
            {"parameters": int(driven.sum()), "records": int(lengths[driven].min())},
            first_step=int(memory.streaks.since[: len(driven)][driven].min()),
            place=0,
            explanation=f"gradients reach {int(driven.sum())} weight matrices, and none of them has changed for "
            f"{int(lengths[driven].min())} records",
            advice="call optimizer.step() after backward(), on the optimizer that holds these parameters, and not "
            "only on "
            "some branch; with a gradient scaler call scaler.step(optimizer); in half precision keep float32 master "
            "weights",
            confidence=1.0 if update is not None else 0.7,
        )


def _standing(weight: Table, update: Table | None, memory: _Memory) -> Mask:
    """`(rows of weight,)` True where the weight did not change in this step."""
    if update is not None and update.rows.sites == weight.rows.sites:
        moved: Mask = update.column("l2_norm") != 0
        return ~moved & update.present
    if memory.before is None or memory.before.shape != weight.values.shape:
        return np.zeros(len(weight.values), dtype=np.bool_)
    return np.asarray((memory.before == weight.values).all(axis=1), dtype=np.bool_)


def _driven(now: Moment, gradient: Table, weight: Table) -> Mask:
    """`(rows of weight,)` True for matrices that a finite gradient reached."""
    matrices = now.anatomy.matrices(weight.rows.sites) & weight.present
    norms = gradient.column("l2_norm")
    flows = (norms > 0) & gradient.present & ~gradient.non_finite
    if gradient.rows.sites == weight.rows.sites:
        return np.asarray(matrices & flows, dtype=np.bool_)
    flowing = {gradient.rows.sites[row] for row in np.flatnonzero(flows)}
    return np.array([is_one and site in flowing for is_one, site in zip(matrices, weight.rows.sites, strict=True)])
