"""Sigmoids and hyperbolic tangents that are stuck at their ends."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...storage import Finding, display_site
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule
from ..running_statistics import Floats, PersistentRows

_MODEL = chain("one:Dense", "act:Tanh", "two:Dense")
_GATED = chain("one:Dense", "act:Sigmoid", "two:Dense")
_LAST = chain("one:Dense", "act:Sigmoid")
#: Mean slope over the steepest. Inputs of standard deviation 1 leave 60 % to a tanh, 10 leave 8 %; below 5 % a
#: gradient loses more than a decade in this one module (our choice).
_LEFT = 0.05
_LASTING = 10
_FEWEST = 16
_CLAMPED = "clamps_leave_values_free"


@dataclass(slots=True)
class _SaturatedActivationState:
    """Which rows are sigmoids or tanhs, for how many records each was not flat, since when it is, what was reported."""

    rows: int = 0
    sigmoids: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    tanhs: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    has_any: bool = False
    lasting: PersistentRows = field(default_factory=PersistentRows)
    curved: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    clamped: set[str] = field(default_factory=set)


def _skip_window(lookahead: Lookahead, memory: _SaturatedActivationState) -> SkipWindow | None:
    """Skip all records of a model without sigmoid and tanh."""
    table = lookahead.context.table("activation")
    is_known = table is not None and table.stacked is not None and memory.rows == len(table.rows.sites)
    return lookahead.whole if is_known and not memory.has_any else None


@rule(
    "saturated-activation",
    needs=("activation",),
    triggers=("activation", "event/check"),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_SaturatedActivationState,
    warm_up=_LASTING,
    fires_on=(
        Recording({"act activation/l2_norm": (7.99,) * 12, "two activation/mean": 0.1}, _MODEL),
        # all near one end: the mean slope of a sigmoid is mean - mean square
        Recording({"act activation/l2_norm": (7.98,) * 12, "act activation/mean": 0.997}, _GATED),
        Recording(structure=_MODEL, events=(refuting_event(_CLAMPED, "99.8% lie beyond its limit", free=0.002),)),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(refuting_event(_CLAMPED, "all lie beyond it", occasion=1, free=0.0),)),
        Recording({"act activation/l2_norm": (5.0,) * 12}, _MODEL),
        Recording({"act activation/l2_norm": (4.3,) * 12, "act activation/mean": 0.5}, _GATED),
        Recording({"act activation/l2_norm": (*(7.99,) * 6, *(5.0,) * 6)}, _MODEL),
        # the probabilities of a classifier that has learned
        Recording({"act activation/l2_norm": (7.98,) * 12, "act activation/mean": 0.997}, _LAST),
    ),
)
def check(context: StepContext, memory: _SaturatedActivationState) -> Iterator[Finding]:
    """Report hidden sigmoids and tanhs that hardly pass any gradient.

    The rule fires when, for 10 records, a hidden sigmoid or tanh has less than 5 % of its steepest slope in the mean.
    The slope of a sigmoid is `y (1 - y)` and that of a tanh `1 - y^2`, so the mean slope follows from the mean and the
    norm of the output; nothing is sampled. A module that worked elsewhere for 10 records before may have been driven to
    its ends by what was learned, as value functions of agents are: then the rule asks. The last module of the model is
    left out, since a confident output is no fault. Glorot and Bengio 2010, section 3, found such saturation in networks
    that do not train. Look at the scale of what enters the module.

    A clamp whose input has a gradient, and lies beyond the limits in nearly all elements at step 25 or later, passes no
    gradient at all: the probe calls a copy of the model to see it.
    """
    for event in refuted(context, _CLAMPED, occasion=2):
        if event.site not in memory.clamped:
            memory.clamped.add(event.site)
            yield refutation(
                context,
                event,
                consequence="they all become the same number, and no gradient comes back through it",
                advice="compare the limit with what it is applied to, such as a logarithm instead of the number itself",
                severity="warning",
                confidence=0.9,
            )
    table = context.table("activation")
    if table is None:
        return
    if memory.rows != len(table.rows.sites):
        _find_modules(context, memory, table)
    if not memory.has_any:
        return
    slopes = _slopes(memory, table)
    memory.curved += table.present & (slopes >= _LEFT)
    rows = memory.lasting.newly(slopes < _LEFT, table.present, context.step, records=_LASTING)
    if rows:
        yield _report(context, table, memory, rows, float(slopes[rows[0]]))


def _find_modules(context: StepContext, memory: _SaturatedActivationState, table: Table) -> None:
    sites = table.rows.sites
    memory.rows = len(sites)
    memory.curved = np.pad(memory.curved, (0, len(sites) - len(memory.curved)))
    last = context.model.last_layer
    hidden = np.array([0 <= context.model.order(site) < last for site in sites], np.bool_)
    memory.sigmoids = hidden & np.array([context.model.kind(site) == "sigmoid" for site in sites], np.bool_)
    memory.tanhs = hidden & np.array([context.model.kind(site) == "tanh" for site in sites], np.bool_)
    memory.has_any = bool((memory.sigmoids | memory.tanhs).any())


def _slopes(memory: _SaturatedActivationState, table: Table) -> Floats:
    """`(rows,)` mean slope over the steepest; infinite for other modules and for what is too small or not finite."""
    size, mean = table.column("size"), table.column("mean")
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        square = np.square(table.column("l2_norm")) / size
        slopes = np.where(memory.sigmoids, 4 * (mean - square), np.where(memory.tanhs, 1 - square, np.inf))
    return np.where((size >= _FEWEST) & np.isfinite(slopes) & ~table.non_finite, slopes, np.inf)


def _report(
    context: StepContext, table: Table, memory: _SaturatedActivationState, rows: list[int], slope: float
) -> Finding:
    site = table.rows.sites[rows[0]]
    was_curved = int(memory.curved[rows[0]]) >= _LASTING
    return context.finding(
        site,
        "activation/l2_norm",
        {
            "slope_left": slope,
            "limit": _LEFT,
            "mean": table.value(rows[0], "mean"),
            "records": memory.lasting.length(rows[0]),
            "saturated_together": len(rows),
        },
        severity="info" if was_curved else "warning",
        first_step=memory.lasting.since(rows[0]),
        explanation=f"{display_site(site)}, a {context.model.kind(site)}, works at its flat ends: on average "
        f"{max(slope, 0):.2g} of its steepest slope is left, so hardly any gradient passes"
        + "; it did not at first, so what was learned may have driven it there: is it meant?"
        * was_curved,
        advice="check the scale of its input: normalise the input, initialise for this activation (Xavier), put a "
        "normalisation before it, or lower the rate that drove the weights up",
        confidence=0.5 if was_curved else 0.9,
    )
