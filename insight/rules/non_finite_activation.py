"""A module that turns finite input into NaN or infinity."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import Finding, display_site
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..indicators.non_finite_sources import TRACED, Origin
from ..recording import Recording, chain
from ..rule import FORWARD, rule
from ..running_statistics import Mask

_MODEL = chain("embed:Dense", "norm:LayerNorm", "head:Dense")


@dataclass(slots=True)
class _NonFiniteActivationState:
    """The traced origin, whether the rule has reported, and which weights were not finite."""

    is_reported: bool = False
    bad_weights: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)


def _skip_window(lookahead: Lookahead, memory: _NonFiniteActivationState) -> SkipWindow | None:
    if memory.origin.event is not None:
        return None

    def learn(records: int) -> None:
        if lookahead.carries("weight"):
            memory.bad_weights = ()

    return SkipWindow(lookahead.finite("activation", "weight"), learn)


@rule(
    "non-finite-activation",
    needs=("activation",),
    triggers=("activation", TRACED),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_NonFiniteActivationState,
    is_fact=True,
    fires_on=(
        Recording(
            {"embed activation/nans": 0, "norm activation/nans": (0, 0, 3), "head activation/nans": (0, 0, 64)}, _MODEL
        ),
        Recording({"embed activation/pos_infs": (0, 1)}, _MODEL),
    ),
    silent_on=(
        Recording({"embed activation/nans": 0, "norm activation/max": (2, 1e30)}, _MODEL),
        # an attention mask: minus infinity that softmax turns into zero
        Recording({"norm activation/neg_infs": (5, 5), "head activation/nans": 0, "scalar/loss": (2.0, 1.9)}, _MODEL),
    ),
)
def check(context: StepContext, memory: _NonFiniteActivationState) -> Iterator[Finding]:
    """Report the first module whose output holds NaN or infinity.

    Modules are recorded in the order in which they finish. Everything before the first bad one was finite, including
    its inputs; later modules only pass it on. Minus infinity alone is how attention masks are written, and is not
    reported while the loss stays finite. The rule reports once per run, since nothing after the first time means
    anything. Look for log or sqrt of a negative number, a division by zero, or a float16 overflow in this module.
    """
    memory.origin.learn(context)
    weights = context.table("weight")
    table = context.table("activation")
    if table is not None and not memory.is_reported and table.holds_non_finite:
        bad = table.non_finite & ~_is_mask(table) if _loss_is_fine(context) else table.non_finite
        if bad.any():
            memory.is_reported = True
            yield _report(context, table, int(np.argmax(bad)), int(bad.sum()), memory)
    if weights is not None:
        bad_rows = np.flatnonzero(weights.non_finite) if weights.holds_non_finite else ()
        memory.bad_weights = tuple(weights.rows.sites[row] for row in bad_rows)


def _is_mask(table: Table) -> Mask:
    mask: Mask = (table.column("nans") == 0) & (table.column("pos_infs") == 0)
    return mask


def _loss_is_fine(context: StepContext) -> bool:
    loss = context.scalar("loss")
    return loss is None or bool(np.isfinite(loss))


def _report(context: StepContext, table: Table, row: int, count: int, memory: _NonFiniteActivationState) -> Finding:
    site = table.rows.sites[row]
    kind = context.model.kind(site)
    why, advice = _reason(context, site, memory)
    values = table.counts(row)
    name = f"{display_site(site)} ({kind})" if kind else display_site(site)
    return context.finding(
        site,
        "activation/nans" if values["nans"] else "activation/pos_infs",
        {**values, "call": table.rows.calls[row], "modules_affected": count},
        explanation=f"the output of {name} holds {values['nans']:.0f} NaN, {values['pos_infs']:.0f} +Inf and "
        f"{values['neg_infs']:.0f} -Inf among {values['size']:.0f} values; {why}{memory.origin.to_text(context)}",
        advice=advice,
    )


def _reason(context: StepContext, site: str, memory: _NonFiniteActivationState) -> tuple[str, str]:
    """Return why the output is not finite, as far as that is known, and what to do."""
    origin, batch = memory.origin, context.table("batch")
    own = [name for name in memory.bad_weights if context.model.owner(name) == site]
    if own:
        why = f"its own weights ({', '.join(own[:3])}) were already non-finite after the step before"
        advice = (
            "look at the step before: its loss, gradients and rate; this module is not the source; continue from a "
            "checkpoint from before that step"
        )
    elif origin.earlier(context) is not None:
        why = "a bad operation was traced earlier; none has been traced since, because the weights are not finite"
        advice = ""
    elif batch is not None and batch.holds_non_finite:
        why = "the batch already held such values: look at the data first"
        advice = "look at this batch, and at what loads and normalises it; this module is not the source"
    else:
        why = (
            "every module that finished before it in this step was finite, so this module, or an operation before it, "
            "makes them"
        )
        advice = origin.suspects("inside this module")
    return why, origin.advice(context, advice)
