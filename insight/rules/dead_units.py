"""Units that never fire."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import Finding, display_site
from ..moment import Moment
from ..recording import Recording, chain
from ..rule import FORWARD, rule
from ..series import Streaks
from ..table import Mask, Table

_MODEL = chain("one:Dense", "relu:ReLU", "two:Dense")
#: Share of zeros from which a layer is dead. Large trained ReLU layers are up to 99 % sparse and healthy (Li et al.
#: 2022,
#: arXiv:2210.06313, fig. 1), so nothing below that can be an alarm.
_DEAD = 0.999
_LASTING = 10
#: A flag or an auxiliary loss may well be zero; a layer has more values.
_FEWEST = 16
#: Modules whose business it is to put out zeros.
_ZEROING = ("drop", "identity", "embedding", "mask", "pad", "loss", "onehot")


@dataclass(slots=True)
class _Memory:
    """Since when each output has been all zero, and which were reported."""

    streaks: Streaks = field(default_factory=Streaks)
    said: set[int] = field(default_factory=set)


@rule(
    "dead-units",
    needs=("activation",),
    phase=FORWARD,
    memory=_Memory,
    warm_up=_LASTING,
    fires_on=(
        Recording({"relu activation/zeros": (64,) * 12, "relu activation/min": 0, "relu activation/max": 0}, _MODEL),
        Recording({"relu activation/zeros": (30,) * 5 + (64,) * 12, "relu activation/min": 0}, _MODEL),
    ),
    silent_on=(
        Recording({"relu activation/zeros": (63,) * 12, "relu activation/min": 0}, _MODEL),
        # a branch that starts at zero and learns
        Recording({"one activation/zeros": (64, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "one activation/min": 0}, _MODEL),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """A layer's output has been zero in 99.9 % of its values for 10 records in a row.

    Behind it no gradient flows, so it does not come back by itself. Judged per module: a dead minority of the units of
    a living layer is not seen by the statistics of the whole tensor. Of layers that died together the first in call
    order is reported, for the others may only pass its zeros on.
    """
    table = now.table("activation")
    if table is None:
        return
    size = table.column("size")
    dead = (table.column("zeros") >= _DEAD * size) & (table.column("min") >= 0) & (size >= _FEWEST)
    lengths = memory.streaks.update(dead, table.present, now.step)
    if not (lengths >= _LASTING).any():
        return
    rows = [int(row) for row in np.flatnonzero(lengths >= _LASTING) if row not in memory.said]
    memory.said.update(rows)
    rows = [row for row in rows if not any(word in now.anatomy.kind(table.rows.sites[row]) for word in _ZEROING)]
    if rows:
        yield _report(now, table, memory, rows[0], len(rows), dead)


def _report(now: Moment, table: Table, memory: _Memory, row: int, together: int, dead: Mask) -> Finding:
    site = table.rows.sites[row]
    share = table.value(row, "zeros") / table.value(row, "size")
    sources = [name for name in now.anatomy.inputs(site) if name in table.rows.sites]
    fed = {name: table.value(table.rows.sites.index(name), "max") for name in sources}
    why = (
        "; ".join(f"its input from {name} is at most {high:.3g}" for name, high in fed.items())
        or "its input is unknown"
    )
    return now.finding(
        site,
        "activation/zeros",
        {
            "zero_share": share,
            "limit": _DEAD,
            "records": int(memory.streaks.lengths[row]),
            "modules_dead": int(dead.sum()),
            "died_together": together,
            "highest_input": max(fed.values(), default=float("nan")),
        },
        first_step=int(memory.streaks.since[row]),
        explanation=f"{share:.1%} of the output of {display_site(site)} has been exactly zero for "
        f"{memory.streaks.lengths[row]} records, so no gradient passes it and nothing before it learns through it; "
        f"{why}",
        advice="look at the bias and the weights of the layer before it: a large negative bias, or one update that "
        "was far "
        "too large, does this; start again from before it with a lower rate, or use LeakyReLU or GELU",
        confidence=0.95,
    )
