"""The backward pass makes NaN or infinity from a finite forward pass."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...storage import Finding, display_site
from ..recording import Recording, chain
from ..rule import BACKWARD, rule
from ..signs.origin import traced_origin
from ..view.moment import Moment
from ..view.rest import Rest
from ..view.stretch import Stretch
from ..view.table import Table

_MODEL = chain("first:Dense", "root:Sqrt", "head:Dense")


@dataclass(slots=True)
class _Memory:
    """Has it been said, or has the forward pass been bad before."""

    is_done: bool = False


def _rests(stretch: Stretch, memory: _Memory) -> Rest | None:
    return stretch.whole if memory.is_done else Rest(stretch.finite("gradient", "activation_grad"))


@rule(
    "non-finite-gradient",
    needs=("gradient",),
    phase=BACKWARD,
    rests=_rests,
    memory=_Memory,
    essential=True,
    is_fact=True,
    fires_on=(
        Recording({"first.weight gradient/nans": (0, 64), "head.weight gradient/nans": 0}, _MODEL),
        Recording(
            {
                "first activation_grad/nans": (0, 9),
                "root activation_grad/nans": 0,
                "head activation_grad/nans": 0,
                "first.weight gradient/nans": (0, 64),
            },
            _MODEL,
        ),
    ),
    silent_on=(
        Recording({"first.weight gradient/nans": 0, "first.weight gradient/l2_norm": (1.0, 1e30)}, _MODEL),
        Recording({"first.weight gradient/nans": (0, 64), "head activation/nans": (0, 64)}, _MODEL),
        Recording({"first.weight gradient/pos_infs": (0, 64), "scalar/loss_scale": 65536.0}, _MODEL, skipped=(1,)),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """The first module in backward order that turns finite gradients into NaN or infinity; the forward pass is finite.

    An overflow under dynamic loss scaling skips its step and is no error. With activation gradients recorded, the
    module is the one whose own output gradient is finite while the gradient that it hands to its input is not.
    """
    if memory.is_done or (now.record.skipped and now.scalar("loss_scale") is not None):
        return
    bad = [table for name in ("gradient", "activation_grad") if (table := now.table(name)) and table.holds_non_finite]
    if not bad:
        return
    memory.is_done = True
    if _forward_is_bad(now):
        return
    table = bad[-1]
    row = int(np.flatnonzero(table.non_finite)[-1])
    seen = table.rows.sites[row]
    site, how = _origin(now, table, seen)
    values = table.counts(row)
    total = sum(int(each.non_finite.sum()) for each in bad)
    what = "activation_grad" if table is now.table("activation_grad") else "gradient"
    yield now.finding(
        site,
        f"{what}/nans" if values["nans"] else f"{what}/pos_infs",
        {**values, "tensors_affected": total},
        place=-now.anatomy.order(site),
        explanation=f"the forward pass of step {now.step} is finite, but the gradient at {display_site(seen)} holds "
        f"{values['nans']:.0f} NaN and {values['pos_infs'] + values['neg_infs']:.0f} infinities; "
        f"{how}{traced_origin(now)}",
        advice="look at derivatives that are infinite where the function is finite: sqrt and norms at 0, log near 0, "
        "where() over a branch that is not taken, a power below 1; add the epsilon inside the root, or clamp before it",
    )


def _forward_is_bad(now: Moment) -> bool:
    table = now.table("activation")
    loss = now.scalar("loss")
    return (table is not None and table.holds_non_finite) or (loss is not None and not np.isfinite(loss))


def _origin(now: Moment, table: Table, seen: str) -> tuple[str, str]:
    """The module whose backward pass made it, and how that is known."""
    if table is not now.table("activation_grad"):
        return seen, "it is the last parameter in model order, so the first in backward order, that is not finite"
    rows = dict(zip(table.rows.sites, table.non_finite, strict=True))
    consumers = [name for name in now.anatomy.consumers(seen) if name in rows]
    if len(consumers) == 1 and not rows[consumers[0]]:
        return consumers[0], f"the gradient of {consumers[0]}'s own output is finite, so its backward pass makes them"
    return seen, "nothing after it in the forward pass has a non-finite gradient"
