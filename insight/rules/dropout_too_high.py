"""Dropout that drops nearly all that it is given."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import Finding, display_site
from ...storage.percent import percent
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..recording import Recording, chain, linked
from ..rule import FORWARD, rule
from ..running_statistics import PersistentRows

_MODEL = linked(chain("one:Dense", "relu:ReLU", "drop:Dropout", "two:Dense"))
_OF_INPUT = linked(chain("drop:Dropout", "one:Dense", "two:Dense"))
#: Share of the values that are not zero before dropout and are still not zero behind it. Our choice: published models
#: drop up to 0.8 (the last layer of temporal segment networks, Wang et al. 2016, arXiv:1608.00859).
_KEPT = 0.15
#: Records that are looked at, and values of an output without which a share says little. Our choice.
_LASTING, _FEWEST = 10, 256


@dataclass(slots=True)
class _DropoutTooHighState:
    """Where dropout is and what it is given, by rows of the activations; how long it has dropped too much."""

    rows: int = -1
    pairs: tuple[tuple[int, int], ...] = ()
    records: int = 0
    lasting: PersistentRows = field(default_factory=PersistentRows)


def _behind_a_relu(zeros: float, dropped: float) -> Recording:
    """Return a recording of so many zeros among 1,024 values before dropout and behind it."""
    sizes = {"relu activation/size": 1024.0, "drop activation/size": 1024.0}
    return Recording({"relu activation/zeros": zeros, "drop activation/zeros": dropped, **sizes}, _MODEL, steps=12)


def _skip_window(lookahead: Lookahead, memory: _DropoutTooHighState) -> SkipWindow | None:
    table = lookahead.context.table("activation")
    is_over = table is not None and memory.rows == len(table.rows.sites) and memory.records >= _LASTING
    return lookahead.whole if is_over else None


@rule(
    "dropout-too-high",
    needs=("activation",),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_DropoutTooHighState,
    warm_up=_LASTING,
    fires_on=(_behind_a_relu(512.0, 972.0),),
    silent_on=(
        _behind_a_relu(900.0, 962.0),  # half of the values, behind a sparse layer
        # an input that is masked on purpose
        Recording({"drop activation/zeros": 972.0, "drop activation/size": 1024.0}, _OF_INPUT, steps=12),
    ),
)
def check(context: StepContext, memory: _DropoutTooHighState) -> Iterator[Finding]:
    """Report dropout behind a layer that leaves less than 15 % of what the layer puts out.

    The share is that of the values that are not zero, before and behind the module, in each of the first ten records.
    Dropout of the model's input is left out, since some models learn from inputs that are masked. Functional dropout
    has no output of its own, and is not seen.

    In PyTorch and MindSpore `p` is the share that is dropped; the `keep_prob` of older programs was the share that is
    kept (Srivastava et al. 2014, JMLR 15, p. 1929, write p for that). 0.1 to 0.5 is usual.
    """
    table = context.table("activation")
    if table is None:
        return
    if memory.rows != len(table.rows.sites):
        memory.rows, memory.pairs, memory.records = len(table.rows.sites), _pairs(context, table), 0
    if memory.records >= _LASTING:
        return
    memory.records += 1
    if not memory.pairs:
        return
    kept = np.full(memory.rows, np.inf)
    for row, source in memory.pairs:
        kept[row] = _kept(table, row, source)
    rows = memory.lasting.newly(kept < _KEPT, table.present, context.step, records=_LASTING)
    if rows:
        site, share = table.rows.sites[rows[0]], float(kept[rows[0]])
        yield context.finding(
            site,
            "activation/zeros",
            {"kept": share, "limit": _KEPT, "records": memory.lasting.length(rows[0]), "modules": len(rows)},
            severity="warning",
            first_step=memory.lasting.since(rows[0]),
            explanation=f"the dropout {display_site(site)} leaves {percent(share)} of the values that it is given in "
            "each step: what the layer before it says hardly reaches the next one",
            advice="compare p with the share that you want to drop, 0.1 to 0.5: it is not the share that is kept",
            confidence=0.8,
        )


def _pairs(context: StepContext, table: Table) -> tuple[tuple[int, int], ...]:
    """Return the rows of dropouts with those of the single module that each is given the output of."""
    rows = {
        site: row for row, (site, call) in enumerate(zip(table.rows.sites, table.rows.calls, strict=True)) if not call
    }
    found = []
    for site, row in rows.items():
        module = context.model.modules.get(site)
        sources = () if module is None else module.direct
        if context.model.kind(site).startswith("dropout") and len(sources) == 1 and sources[0] in rows:
            found.append((row, rows[sources[0]]))
    return tuple(found)


def _kept(table: Table, row: int, source: int) -> float:
    """Return the share of the values that are not zero at the source and not zero behind it; infinite if unknown."""
    if not (table.present[row] and table.present[source]) or "zeros" not in table.rows.column:
        return np.inf
    size, given = table.value(row, "size"), table.value(source, "size")
    before = given - table.value(source, "zeros")
    if size != given or before < _FEWEST:
        return np.inf
    return (size - table.value(row, "zeros")) / before
