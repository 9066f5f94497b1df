"""Units that never fire."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import Finding, display_site
from ...storage.percent import percent
from ..context.record_burst import StackedSubject
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table, some
from ..indicators.lowered_findings import withdrawn
from ..recording import Recording, apart, chain
from ..rule import FORWARD, rule
from ..running_statistics import Floats, Mask, PersistentRows, Streaks, Window

_MODEL = chain("one:Dense", "relu:ReLU", "two:Dense")
_BARE = chain("one:Dense", "two:Dense")
#: Share of zeros from which a layer is dead. Large trained ReLU layers are up to 99 % sparse and healthy (Li et al.
#: 2022, arXiv:2210.06313, fig. 1), so a lower limit would raise false alarms.
_DEAD = 0.999
_LASTING = 10
#: Share of the units that have been zero in every recent look, number of judgements, and steps. Layers hit by one step
#: that was too large lose nearly all units; our healthy layers stay below a third (our choice).
_DEAD_UNITS, _LOOKS, _SPAN = 0.6, 2, 5
#: Rise of the loss that makes silent units a harm, as a share and in spreads: units that fall silent while the loss
#: falls are the sparsity that training brings (Li et al.).
_RISE, _SPREADS = 0.05, 3.0
#: Fewest values of a judged output; a flag or an auxiliary loss may well be zero.
_FEWEST = 16
#: Modules that put out zeros by design.
_ZEROING = ("drop", "identity", "embedding", "mask", "pad", "loss", "onehot")


@dataclass(slots=True)
class _DeadUnitsState:
    """Since when each output has been zero, what was reported, and the loss when each layer's units last fired."""

    streaks: Streaks = field(default_factory=Streaks)
    reported: set[int] = field(default_factory=set)
    found: dict[int, Finding] = field(default_factory=dict)
    awake: dict[int, int] = field(default_factory=dict)
    below: PersistentRows = field(default_factory=PersistentRows)
    units: PersistentRows = field(default_factory=PersistentRows)
    losses: Window = field(default_factory=lambda: Window(10))
    loss_alive: Floats = field(default_factory=lambda: np.zeros(0))


def _skip_window(lookahead: Lookahead, memory: _DeadUnitsState) -> SkipWindow | None:
    """Skip records while every output is somewhere above zero and no layer is zero throughout."""
    table = lookahead.context.table("activation")
    if (
        memory.found
        or memory.streaks.are_running
        or memory.below.streaks.are_running
        or table is None
        or table.stacked is None
    ):
        return None
    alive = table.stacked.known("alive", table.rows, _until_silent)[table.index]

    def learn(records: int) -> None:
        for loss in lookahead.known("loss", records):
            memory.losses.add(loss)

    return SkipWindow(min(lookahead.until("activation/units"), alive), learn)


@rule(
    "dead-units",
    needs=("activation",),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_DeadUnitsState,
    warm_up=_LASTING,
    fires_on=(
        Recording({"relu activation/zeros": (64,) * 12, "relu activation/min": 0, "relu activation/max": 0}, _MODEL),
        Recording({"relu activation/zeros": (30,) * 5 + (64,) * 12, "relu activation/min": 0}, _MODEL),
        Recording(
            {"relu activation/zeros": 60, "relu activation/units/dead_share": apart(*(0.9,) * 4, by=5)},
            _MODEL,
        ),
        # an update too large, which the loss shows
        Recording(
            {
                "relu activation/zeros": 60,
                "relu activation/units/dead_share": apart(*(0.1,) * 12, *(0.8,) * 4, by=5),
                "scalar/loss": (1.0,) * 60 + (2.0,) * 20,
            },
            _MODEL,
        ),
        # a ReLU that is no module: the layer before it is below zero everywhere, and no gradient comes back
        Recording(
            {"one activation/max": (-3.0,) * 12, "one.weight gradient/l2_norm": 0.0, "two.weight gradient/l2_norm": 1},
            _BARE,
        ),
    ),
    silent_on=(
        Recording({"relu activation/zeros": 30, "relu activation/units/dead_share": apart(*(0.3,) * 4, by=5)}, _MODEL),
        # sparsity that comes with what is learned
        Recording(
            {
                "relu activation/zeros": 60,
                "relu activation/units/dead_share": apart(*(0.1,) * 6, *(0.4,) * 3, *(0.8,) * 6, by=5),
                "scalar/loss": tuple(2.0 * 0.96**step for step in range(75)),
            },
            _MODEL,
        ),
        Recording({"relu activation/zeros": (63,) * 12, "relu activation/min": 0}, _MODEL),
        # below zero everywhere, and it learns; and an output that a hinge has let go
        Recording({"one activation/max": (-3.0,) * 12, "one.weight gradient/l2_norm": 1.0}, _BARE),
        Recording(
            {"two activation/max": (-3.0,) * 12, "two.weight gradient/l2_norm": 0.0, "one.weight gradient/l2_norm": 1},
            _BARE,
        ),
        # what a module hands on besides its output
        Recording(
            {"relu activation/zeros": 30, "relu[1] activation/zeros": (64,) * 12, "relu[1] activation/min": 0}, _MODEL
        ),
        # called several times in a step, the last time with nothing, as by a network that spikes
        Recording(
            {"one activation/zeros": (64,) * 12, "one activation/min": 0, "one.weight gradient/l2_norm": 1.0}, _BARE
        ),
        # a branch that starts at zero and learns
        Recording({"one activation/zeros": (64, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "one activation/min": 0}, _MODEL),
    ),
)
def check(context: StepContext, memory: _DeadUnitsState) -> Iterator[Finding]:
    """Report layers whose output stays zero, and layers most of whose units never fire.

    The rule fires when 99.9 % of a layer's output has been zero for 10 records, or when 60 % of its units have not
    fired in any recent look, in two judgements in a row. No gradient flows behind such units, so they do not come back.
    Units that fired before count only if the loss rose with their silence, since a network may grow sparse as it
    learns. Where the loss is a surrogate, as of a policy or of a moving target, it cannot tell, and the rule asks.

    A ReLU that is a function and not a module has no output of its own. The rule then judges the layer before it: an
    output that is nowhere above zero, with weights whose gradients have been exactly zero for 10 records. The last
    layer is left out. Of layers that died together the first in call order is reported; the others may only pass its
    zeros on.

    A layer whose own weights get a gradient is alive: of several calls in a step, only one has put out nothing. Once an
    output has fired in ten records again, the finding about it becomes a notice.

    Look at the bias of the layer before, and for one update that was far too large.
    """
    table = context.table("activation")
    if table is None:
        return
    yield from _dead_units(context, memory)
    yield from _below_zero(context, memory, table)
    dead = _dead(table)
    yield from _revived(context, memory, table, dead)
    if dead is None and not memory.streaks.are_running:
        return
    dead = np.zeros(len(table.values), dtype=np.bool_) if dead is None else dead
    lengths = memory.streaks.update(dead, table.present, context.step)
    if not some(dead):
        return
    rows = [int(row) for row in np.flatnonzero(lengths >= _LASTING) if row not in memory.reported]
    memory.reported.update(rows)
    rows = [row for row in rows if _is_judged(context, table.rows.sites[row])]
    if rows:
        memory.found[rows[0]] = _report(context, table, memory, rows[0], len(rows), dead)
        yield memory.found[rows[0]]


def _revived(context: StepContext, memory: _DeadUnitsState, table: Table, dead: Mask | None) -> Iterator[Finding]:
    """Yield, as notices, the findings about outputs that have fired again for as long as they were silent."""
    for row, found in list(memory.found.items()):
        is_awake = row < len(table.values) and bool(table.present[row]) and not (dead is not None and dead[row])
        memory.awake[row] = memory.awake.get(row, 0) + 1 if is_awake else 0
        if memory.awake[row] >= _LASTING:
            del memory.found[row]
            memory.reported.discard(row)
            words = f"{display_site(found.site)} put out zeros only from step {found.first_step} on, and fires since"
            yield withdrawn(found, context, f"{words} step {context.step}, or before")


def _is_judged(context: StepContext, site: str) -> bool:
    """Return whether zeros of the site are harm: it makes none by design, and is the first output of its module.

    What a module returns besides is a state, a mask or a bias that it hands on, as T5's attention does.
    """
    is_first = not site.endswith("]") or site.endswith("[0]")
    return is_first and not any(word in context.model.kind(site) for word in _ZEROING) and not _learns(context, site)


def _learns(context: StepContext, site: str) -> bool:
    """Return whether the site's own weights get a gradient: of several calls in a step, one alone gave only zeros."""
    gradient, name = context.table("gradient"), f"{site}.weight"
    return (
        gradient is not None
        and name in gradient.rows.sites
        and gradient.value(gradient.rows.sites.index(name), "l2_norm") > 0
    )


def _below_zero(context: StepContext, memory: _DeadUnitsState, table: Table) -> Iterator[Finding]:
    """Yield a finding for a layer that is nowhere above zero and gets no gradient, though others do."""
    highest, gradient = table.column("max"), context.table("gradient")
    below: Mask = (highest <= 0) & table.present
    if gradient is None or not (some(below) or memory.below.streaks.are_running):
        return
    below &= (table.column("min") < 0) & (table.column("size") >= _FEWEST)
    if some(below):
        norms = dict(
            zip(gradient.rows.sites, np.where(gradient.present, gradient.column("l2_norm"), np.nan), strict=True)
        )
        for at in np.flatnonzero(below):
            site = table.rows.sites[at]
            stuck = norms.get(f"{site}.weight") == 0.0 and gradient.norm > 0.0
            is_last = context.model.order(site) == context.model.last_layer
            stuck = stuck and not _has_zeros_behind(context, table, site)
            below[at] = stuck and context.model.is_linear_map(f"{site}.weight") and not is_last
    rows = memory.below.newly(below, table.present, context.step, records=_LASTING)
    for row in rows[:1]:
        site, since = table.rows.sites[row], memory.below.since(row)
        yield context.finding(
            site,
            "activation/max",
            {"max": float(highest[row]), "records": memory.below.length(row), "modules": len(rows)},
            first_step=since,
            explanation=f"since step {since} the output of {display_site(site)} is at most {highest[row]:.3g}, and "
            "the gradient of its weights is exactly zero; the ReLU behind it passes nothing forward and nothing back",
            advice="look for a large negative bias, or for one update that was far too large; restart from before "
            "it with a lower rate, or use LeakyReLU or GELU",
            confidence=0.95,
        )


def _has_zeros_behind(context: StepContext, table: Table, site: str) -> bool:
    """Return whether a module that takes the site's output makes zeros of all of it, and so is reported itself."""
    rows = [table.rows.sites.index(name) for name in context.model.consumers(site) if name in table.rows.sites]
    return any(table.value(row, "zeros") >= _DEAD * table.value(row, "size") for row in rows)


def _dead(table: Table) -> Mask | None:
    """`(rows,)` True where the whole output is zero; None where no row has so many zeros."""
    if table.stacked is not None and not table.stacked.known("zeros", table.rows, _has_zeros)[table.index]:
        return None
    size = table.column("size")
    dead: Mask = table.column("zeros") >= _DEAD * size
    return dead & (table.column("min") >= 0) & (size >= _FEWEST) if some(dead) else None


def _until_silent(stacked: StackedSubject) -> list[int]:
    """Return, by record, for how many records from it on every layer fires somewhere."""
    silent: Mask = (stacked.columns("zeros") >= _DEAD * stacked.columns("size")) | (stacked.columns("max") <= 0)
    ends = [*np.flatnonzero(silent.any(axis=1)).tolist(), len(stacked)]
    return [ends[bisect_left(ends, at)] - at for at in range(len(stacked))]


def _has_zeros(stacked: StackedSubject) -> list[bool]:
    """Return, by record, whether any row has enough zeros to be dead."""
    zeros: Mask = stacked.columns("zeros") >= _DEAD * stacked.columns("size")
    return [bool(row.any()) for row in zeros]


def _dead_units(context: StepContext, memory: _DeadUnitsState) -> Iterator[Finding]:
    loss, table = context.scalar("loss"), context.table("activation/units")
    if loss is not None:
        memory.losses.add(loss)
    if table is None:
        return
    share = table.column("dead_share")
    judged = table.present & np.isfinite(share)
    if len(memory.loss_alive) < len(share):
        grown = len(share) - len(memory.loss_alive)
        memory.loss_alive = np.pad(memory.loss_alive, (0, grown), constant_values=np.nan)
    memory.loss_alive[judged & (share < _DEAD_UNITS)] = memory.losses.median()
    dead = (share >= _DEAD_UNITS) & ~(np.isfinite(memory.loss_alive) & ~_harmed(context, memory))
    rows = memory.units.newly(dead, judged, context.step, records=_LOOKS, steps=_SPAN)
    for row in rows[:1]:
        site = table.rows.sites[row]
        is_open = context.has_a_surrogate_loss and bool(np.isfinite(memory.loss_alive[row]))
        doubt = ", which no loss here tells from the sparsity that training brings; is it meant?" * is_open
        yield context.finding(
            site,
            "activation/units/dead_share",
            {"dead_share": float(share[row]), "limit": _DEAD_UNITS, "modules": len(rows)},
            severity="info" if is_open else "warning",
            first_step=memory.units.since(row),
            explanation=f"{percent(share[row])} of the units of {display_site(site)} have not fired in any look since "
            f"step {memory.units.since(row)} or earlier; they get no gradient and do not come back by themselves"
            f"{doubt}",
            advice="check the bias of the layer before it and the largest updates so far; restart with a lower "
            "rate, another initialisation, or with LeakyReLU or GELU",
            confidence=0.5 if is_open else 0.8,
        )


def _harmed(context: StepContext, memory: _DeadUnitsState) -> Mask:
    """`(rows,)` Whether the loss lies above what it was when the row's units still fired; True where none can tell."""
    newest = memory.losses.newest(3)
    if len(newest) < 3 or context.has_a_surrogate_loss:
        return np.ones(len(memory.loss_alive), dtype=np.bool_)
    rise = np.maximum(_RISE * np.abs(memory.loss_alive), _SPREADS * memory.losses.noise())
    return np.asarray(sorted(newest)[1] > memory.loss_alive + rise, dtype=np.bool_)


def _report(
    context: StepContext, table: Table, memory: _DeadUnitsState, row: int, together: int, dead: Mask
) -> Finding:
    site = table.rows.sites[row]
    share = table.value(row, "zeros") / table.value(row, "size")
    sources = [name for name in context.model.inputs(site) if name in table.rows.sites]
    fed = {name: table.value(table.rows.sites.index(name), "max") for name in sources}
    why = (
        "; ".join(f"its input from {name} is at most {high:.3g}" for name, high in fed.items())
        or "its input is unknown"
    )
    return context.finding(
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
        explanation=f"{percent(share, decimals=1)} of the output of {display_site(site)} has been exactly zero for "
        f"{memory.streaks.lengths[row]} records; it passes no gradient, so the layers before it learn nothing "
        f"through it; {why}",
        advice="check the bias and the weights of the layer before it for a large negative bias, or for one update "
        "that was far too large; restart from before it with a lower rate, or use LeakyReLU or GELU",
        confidence=0.95,
    )
