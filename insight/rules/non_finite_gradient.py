"""A gradient with NaN or infinity after a finite forward pass."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import Finding, display_site
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table, some
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..indicators.non_finite_sources import TRACED, Origin
from ..recording import Recording, chain
from ..rule import BACKWARD, rule

_MODEL = chain("first:Dense", "root:Sqrt", "head:Dense")
_ADVICE = (
    "look at derivatives that are infinite where the function is finite: sqrt and norms at 0, log near 0, where() over "
    "a branch that is not taken, a power below 1; add an epsilon inside the root, or clamp before it"
)
_FITTED = "gradients_stay_finite"
_RECORD = "record `loss` or `activation` at the steps of `gradient`, to tell the two passes apart; then "
_UNSEEN = "step {} recorded nothing of its forward pass{}: {}"
_MAYBE = ", which may be the source"


@dataclass(slots=True)
class _NonFiniteGradientState:
    """The traced origin, and whether the rule is done: it has reported, or the forward pass was bad."""

    is_done: bool = False
    origin: Origin = field(default_factory=Origin)


def _skip_window(lookahead: Lookahead, memory: _NonFiniteGradientState) -> SkipWindow | None:
    if memory.is_done:
        return lookahead.whole
    return None if memory.origin.event is not None else SkipWindow(lookahead.finite("gradient", "activation_grad"))


@rule(
    "non-finite-gradient",
    needs=("gradient",),
    triggers=("gradient", TRACED, "event/check"),
    phase=BACKWARD,
    skip_window=_skip_window,
    memory=_NonFiniteGradientState,
    essential=True,
    is_fact=True,
    fires_on=(
        Recording(structure=_MODEL, events=(refuting_event(_FITTED, "the gradient of w is not finite", step=31.0),)),
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
        Recording(structure=_MODEL, events=(refuting_event(_FITTED, "not finite", outcome="open", step=31.0),)),
        Recording({"first.weight gradient/nans": 0, "first.weight gradient/l2_norm": (1.0, 1e30)}, _MODEL),
        Recording({"first.weight gradient/nans": (0, 64), "head activation/nans": (0, 64)}, _MODEL),
        Recording({"first.weight gradient/pos_infs": (0, 64), "scalar/loss_scale": 65536.0}, _MODEL, skipped=(1,)),
    ),
)
def check(context: StepContext, memory: _NonFiniteGradientState) -> Iterator[Finding]:
    """Report the module whose backward pass makes NaN or infinity.

    The rule fires when a gradient is not finite although everything recorded of the forward pass is. If the step
    recorded nothing of the forward pass, that may be the source as well, and the finding has half the confidence. An
    overflow under dynamic loss scaling skips its step and is no error.

    With activation gradients recorded, the module is the one whose output gradient is finite while the gradient at its
    input is not. If operations outside of modules lie between two modules, either can be the source. The finding then
    names the earlier one, whose output has the bad gradient, unless parameters of the later one have a bad gradient
    too.

    A rehearsal (`mindscope doctor`) fits one batch with a copy of the optimizer, and the rule reports the first step
    whose gradient is not finite.

    Look for derivatives without a finite value: sqrt or norm at zero, and divisions.
    """
    if memory.is_done:
        return
    for event in refuted(context, _FITTED):
        memory.is_done = True
        yield refutation(
            context,
            event,
            consequence="the training may meet the same later",
            advice=_ADVICE,
            metric="gradient/nans",
            severity="warning",
        )
        return
    memory.origin.learn(context)
    if context.record.skipped and context.scalar("loss_scale") is not None:
        return
    bad = [
        table for name in ("gradient", "activation_grad") if (table := context.table(name)) and table.holds_non_finite
    ]
    if not bad:
        return
    memory.is_done = True
    if _forward_is_bad(context):
        return
    table = bad[-1]
    row = int(np.flatnonzero(table.non_finite)[-1])
    seen = table.rows.sites[row]
    site, how = _origin(context, table, seen)
    values = table.counts(row)
    total = sum(int(bad_table.non_finite.sum()) for bad_table in bad)
    what = "activation_grad" if table is context.table("activation_grad") else "gradient"
    metric = f"{what}/nans" if values["nans"] else f"{what}/pos_infs"
    seen_values = (
        f"the gradient at {display_site(seen)} holds {values['nans']:.0f} NaN and "
        f"{values['pos_infs'] + values['neg_infs']:.0f} infinities"
    )
    known = _known_of_the_forward(context)
    is_sure = bool(known) or memory.origin.event is not None
    start = (
        f"{known}, but {seen_values}" if known else _UNSEEN.format(context.step, "" if is_sure else _MAYBE, seen_values)
    )
    yield context.finding(
        site,
        metric if site == seen else "",
        {**values, "tensors_affected": total},
        position=-context.model.order(site),
        explanation=f"{start}; {how}{memory.origin.to_text(context)}",
        advice=memory.origin.advice(context, _ADVICE if is_sure else _RECORD + _ADVICE),
        confidence=1.0 if is_sure else 0.5,
    )


def _forward_is_bad(context: StepContext) -> bool:
    table = context.table("activation")
    loss = context.scalar("loss")
    return (table is not None and table.holds_non_finite) or (loss is not None and not np.isfinite(loss))


def _known_of_the_forward(context: StepContext) -> str:
    """Return what the step recorded of a finite forward pass, in words; empty if it recorded nothing."""
    table = context.table("activation")
    seen = ["every recorded activation"] if table is not None and some(table.present) else []
    seen += ["the loss"] if context.scalar("loss") is not None else []
    return f"{' and '.join(seen)} of step {context.step} {'are' if len(seen) > 1 else 'is'} finite" if seen else ""


def _origin(context: StepContext, table: Table, seen: str) -> tuple[str, str]:
    """Return the module whose backward pass made it, or the last known place, and how that is known."""
    if table is not context.table("activation_grad"):
        return seen, "it is the last non-finite parameter in model order, so the first in backward order"
    found = [row for row in _rows(table) if row[2]]
    known = {site: any(is_bad for name, is_bad, _ in found if name == site) for site, _, _ in found}
    takers = context.model.consumers(seen)
    if len(takers) != 1 or known.get(takers[0], True):
        return seen, "no module after it in the forward pass is known to have a non-finite gradient"
    taker, shown = takers[0], display_site(takers[0])
    start = f"the gradient of {shown}'s own output is finite"
    parameters = _parameters(context, taker)
    if spoilt := [site for site, is_bad in parameters.items() if is_bad]:
        return taker, f"{start}, but that of its {_listed(spoilt)} is not, so its backward pass makes them"
    if seen in context.model.modules[taker].direct:
        return taker, (
            f"{start}, and it takes the output of {display_site(seen)} unchanged: its backward pass makes them, or "
            f"that of operations outside of modules that take the same output"
        )
    spared = f"; the gradient of its {_listed(list(parameters))} is finite, so those operations are more likely"
    return seen, (
        f"{start}, so its backward pass makes them, or that of operations outside of modules that take the output of "
        f"{display_site(seen)}{spared if parameters else ''}"
    )


def _parameters(context: StepContext, module: str) -> dict[str, bool]:
    """Return whether the gradient of each of the module's own parameters is bad, as far as this step shows."""
    table = context.table("gradient")
    rows = () if table is None else _rows(table)
    return {site: is_bad for site, is_bad, is_there in rows if is_there and site.rpartition(".")[0] == module}


def _rows(table: Table) -> Iterator[tuple[str, bool, bool]]:
    """Yield each row's site, whether it is bad, and whether it is present."""
    return zip(table.rows.sites, table.non_finite.tolist(), table.present.tolist(), strict=True)


def _listed(sites: list[str]) -> str:
    return f"{', '.join(sites[:2])}{' and others' if len(sites) > 2 else ''}"
