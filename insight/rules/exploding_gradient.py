"""A gradient that grows with depth, or beyond its own history."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np

from ...storage import ROOT_SITE, Finding, display_site
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..recording import Recording, chain
from ..rule import BACKWARD, rule
from ..running_statistics import Window, count_before_first

_LAYERS = [f"layer{at}" for at in range(6)]
_MODEL = chain(*(f"{name}:Dense" for name in _LAYERS))
#: In 37 healthy trainings the early third was at most 5 times the late third.
_DEPTH = 1e4
#: Kendall's tau from layer to layer; branches without a gradient do not count as growth.
_ORDERED = -0.6
#: Times the median, and times the largest of the first 20 records. In the same trainings the norm rose up to 500 times
#: above its median when the loss was near zero, but never 10 times above that largest value.
_TIME, _START = 100.0, 10.0
_WARM_UP, _LASTING = 20, 3
#: Spreads of the loss above its history that count as harm (our choice).
_HURTS = 4.0
#: Records in a row after which gradient and loss are taken to have come back.
_BACK = 20


@dataclass(slots=True)
class _ExplodingGradientState:
    """The history of the gradient's norm, and for how long it has been too large."""

    history: Window = field(default_factory=lambda: Window(50))
    seen: int = 0
    start: float = 0.0
    deep: int = 0
    beyond: int = 0
    deep_since: int = 0
    beyond_since: int = 0
    losses: Window = field(default_factory=lambda: Window(50))
    rises: int = 0
    found: Finding | None = None
    back: int = 0
    reported: set[str] = field(default_factory=set)


def _skip_window(lookahead: Lookahead, memory: _ExplodingGradientState) -> SkipWindow | None:
    """While the norm is no larger than it may be for the first records alone, and no depth is seen."""
    norms = lookahead.norms("gradient")
    if norms is None or memory.seen < _WARM_UP or memory.found is not None:
        return None

    def learn(records: int) -> None:
        memory.seen += records
        memory.deep = memory.beyond = 0
        for norm in norms[:records]:
            memory.history.add(norm)
        for loss in lookahead.known("loss", records):
            _learn_loss(memory, loss)

    is_large = ~(np.array(norms) <= _START * memory.start)
    return SkipWindow(min(lookahead.finite("gradient"), lookahead.plain_depths(), count_before_first(is_large)), learn)


@rule(
    "exploding-gradient",
    needs=("gradient",),
    phase=BACKWARD,
    skip_window=_skip_window,
    memory=_ExplodingGradientState,
    warm_up=_WARM_UP,
    fires_on=(
        Recording(
            {f"{name}.weight gradient/l2_norm": (100.0 ** (8 - at),) * 12 for at, name in enumerate(_LAYERS)}, _MODEL
        ),
        Recording({"layer0.weight gradient/l2_norm": (1.0, 1.2) * 12 + (300.0, 900.0, 4000.0)}, _MODEL),
    ),
    silent_on=(
        Recording(
            {f"{name}.weight gradient/l2_norm": (2.0 ** (8 - at),) * 12 for at, name in enumerate(_LAYERS)}, _MODEL
        ),
        # converged, then a few harder batches
        Recording({"layer0.weight gradient/l2_norm": (2.0,) * 20 + (0.001,) * 60 + (1.0, 1.5, 0.8)}, _MODEL),
        Recording({"layer0.weight gradient/l2_norm": (1.0, 1.2) * 12 + (300.0, 1.0, 1.0)}, _MODEL),
    ),
)
def check(context: StepContext, memory: _ExplodingGradientState) -> Iterator[Finding]:
    """Report gradients that grow with depth, or far above their own history.

    In depth: the first third of the weight matrices gets more than 1e4 times the gradient of the last third, growing
    from layer to layer (Kendall's tau of -0.6 or below). Experts and branches without a gradient do not count as
    growth.

    In time: for three records the norm over all parameters is above 100 times the median of its newest 50 values and
    above 10 times the largest of the first 20. It is a warning while the loss has not risen, and a notice where the
    training clips its gradients besides. Values that are not finite are left to other rules.

    Clip by global norm, reduce the gain of the initialisation, and look at what changed at this step.
    """
    table = context.table("gradient")
    if table is None or context.record.skipped:
        return
    yield from _with_depth(context, memory)
    _learn_loss(memory, context.scalar("loss"))
    yield from _with_time(context, memory, table)


def _learn_loss(memory: _ExplodingGradientState, loss: float | None) -> None:
    """Learn the loss, and whether it is above all that was usual."""
    if loss is None:
        return
    usual, noise = memory.losses.median(), memory.losses.noise()
    is_high = not isfinite(loss) or loss > usual + max(_HURTS * noise, 0.1 * abs(usual))
    memory.rises = memory.rises + 1 if is_high else 0
    memory.losses.add(loss)


def _with_depth(context: StepContext, memory: _ExplodingGradientState) -> Iterator[Finding]:
    profile = context.depth
    if profile is None or not profile.ratio > _DEPTH or profile.order > _ORDERED:
        memory.deep = 0
        return
    memory.deep_since = context.step if memory.deep == 0 else memory.deep_since
    memory.deep += 1
    if memory.deep >= 10 and "depth" not in memory.reported:
        memory.reported.add("depth")
        yield context.finding(
            profile.first,
            "gradient/l2_norm",
            {
                "early_over_late": profile.ratio,
                "limit": _DEPTH,
                "matrices": profile.matrices,
                "order": profile.order,
            },
            severity="warning",
            first_step=memory.deep_since,
            explanation=f"the gradient at {display_site(profile.first)} is {profile.ratio:.1e} times that at "
            f"{display_site(profile.last)}; it grows with every layer on its way back",
            advice="reduce the gain of the initialisation, normalise between the layers, or clip by global norm",
            confidence=0.8,
        )


def _with_time(context: StepContext, memory: _ExplodingGradientState, table: Table) -> Iterator[Finding]:
    norm = table.norm
    if not isfinite(norm) or table.holds_non_finite:
        return
    memory.seen += 1
    usual = memory.history.median()
    if memory.seen <= _WARM_UP:
        memory.start = max(memory.start, norm)
    if memory.seen <= _WARM_UP or not norm > max(_TIME * usual, _START * memory.start):
        memory.history.add(norm)
        memory.beyond = 0
        yield from _withdrawn(context, memory, norm)
        return
    memory.beyond_since = context.step if memory.beyond == 0 else memory.beyond_since
    memory.beyond += 1
    if memory.beyond >= _LASTING and "time" not in memory.reported:
        memory.reported.add("time")
        is_clipped = context.scalar("clip/norm") is not None and not memory.rises
        has_no_loss = context.scalar("loss") is None
        memory.found = context.finding(
            ROOT_SITE,
            "gradient/l2_norm",
            {"norm": norm, "usual_norm": usual, "largest_early_norm": memory.start, "records": memory.beyond},
            severity="info" if is_clipped else "error" if memory.rises or has_no_loss else "warning",
            first_step=memory.beyond_since,
            position=0,
            explanation=f"the norm of all gradients is {norm:.3g}, where {usual:.3g} was usual, and has stayed that "
            f"high for {memory.beyond} records",
            advice="clip by global norm near the usual value; look at what changed at this step: the rate, the "
            "data, the number of backward passes since the last zero_grad",
            confidence=0.8,
        )
        memory.back = 0
        yield memory.found


def _withdrawn(context: StepContext, memory: _ExplodingGradientState, norm: float) -> Iterator[Finding]:
    """Yield the finding once more, as a notice, when gradient and loss have come back and stayed."""
    if memory.found is None:
        return
    memory.back = 0 if memory.rises else memory.back + 1
    if memory.back < _BACK:
        return
    words = f"the norm of all gradients was {memory.found.evidence['norm']:.3g} at step {memory.found.first_step}, and "
    yield replace(
        memory.found,
        step=context.step,
        severity="info",
        explanation=f"{words}has been near {norm:.3g} again for {memory.back} records, as the loss has",
        confidence=0.1,
    )
    memory.found = None
