"""A router that sends most tokens to one expert."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import Finding, display_site
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..indicators.routing_collapse import ALWAYS, COLLAPSED, EXPECTED, SPAN, Dispatch, Load
from ..recording import Recording, apart, chain
from ..rule import FORWARD, rule
from ..running_statistics import Floats, PersistentRows, Streak

_MODEL = chain("one:Dense", "gate:Linear", "two:Dense")
_LASTING = 2
#: A router recovers if its entropy grows by this share from one look to the next; proportionally less if the looks are
#: fewer steps apart than `_APART`.
_RISES, _APART = 0.1, 10
#: Steps for which one expert must get every token: routers settle, and a balancing loss needs some steps (our choice).
_SETTLED = 40


@dataclass(slots=True)
class _RouterCollapseState:
    """Since when each router has been uneven, and which routers were reported."""

    lasting: PersistentRows = field(default_factory=PersistentRows)
    before: Floats = field(default_factory=lambda: np.zeros(0))
    looked: int = 0
    dispatch: Dispatch = field(default_factory=Dispatch)
    favoured: dict[str, Streak] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)


def _skip_window(lookahead: Lookahead, memory: _RouterCollapseState) -> SkipWindow | None:
    """Skip all records of a model without routers."""
    is_there = lookahead.carries("router") or lookahead.carries("router/expert")
    return None if is_there or lookahead.context.known_sites("router/expert") else lookahead.whole


@rule(
    "router-collapse",
    needs=("router", "activation"),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_RouterCollapseState,
    warm_up=_LASTING,
    is_optional=True,
    fires_on=(
        Recording({"gate router/load_entropy": apart(0.95, 0.8, 0.4, 0.2), "gate router/max_load": 3.5}, _MODEL),
        # the second choice is spread evenly, the first is always the same
        Recording(
            {
                "gate router/load_entropy": apart(0.95, 0.8, 0.7, 0.7),
                "gate router/max_load": 2.0,
                "gate[0] router/expert/probability": apart(0.3, 0.8, 0.94, 0.95),
                "gate[1] router/expert/probability": apart(0.4, 0.1, 0.03, 0.03),
                "gate[2] router/expert/probability": apart(0.3, 0.1, 0.03, 0.02),
            },
            _MODEL,
        ),
    ),
    silent_on=(
        Recording({"gate router/load_entropy": apart(0.95, 0.9, 0.8, 0.75), "gate router/max_load": 1.5}, _MODEL),
        Recording({"gate router/load_entropy": apart(0.95, 0.3, 0.8, 0.75), "gate router/max_load": 1.5}, _MODEL),
        # on its way back
        Recording({"gate router/load_entropy": apart(0.9, 0.3, 0.4, 0.5, 0.7), "gate router/max_load": 1.5}, _MODEL),
        # all experts chosen, every time
        Recording({"gate router/load_entropy": apart(*(1.0,) * 4), "gate router/max_load": 1.0}, _MODEL),
    ),
)
def check(context: StepContext, memory: _RouterCollapseState) -> Iterator[Finding]:
    """Report a router that sends most tokens to few experts.

    The rule fires when, in two looks in a row, the load over the experts, or the router's mean probability, has less
    than 0.55 of the entropy of an even one and does not recover. The probability matters because a token that goes to
    two experts leaves the second to chance. It also fires when one expert was called with every single token for 40
    steps, and the others were not.

    A router that favours an expert trains it more and favours it even more; the balancing loss is there to prevent that
    (Shazeer et al. 2017, arXiv:1701.06538, section 4). Raise the balancing loss, and check its sign.
    """
    yield from _favourites(context, memory)
    table = context.table("router")
    if table is None:
        return
    entropy = np.fmin(table.column("load_entropy"), _belief(context, table))
    usable = table.present & np.isfinite(entropy)
    memory.before = np.pad(memory.before, (0, len(entropy) - len(memory.before)), constant_values=np.inf)
    rises = 1.0 + _RISES * min(1.0, (context.step - memory.looked) / _APART)
    recovers = (memory.before < COLLAPSED) & (entropy > rises * memory.before)
    memory.looked = context.step
    memory.before = np.where(usable, entropy, memory.before)
    rows = memory.lasting.newly((entropy < COLLAPSED) & ~recovers, usable, context.step, records=_LASTING, steps=SPAN)
    for row in rows[:1]:
        site, unused = table.rows.sites[row], table.value(row, "unused")
        yield context.finding(
            site,
            "router/load_entropy",
            {
                "load_entropy": table.value(row, "load_entropy"),
                "lower_entropy": float(entropy[row]),
                "limit": COLLAPSED,
                "max_load": table.value(row, "max_load"),
                "unused": unused,
                "routers": len(rows),
            },
            severity="warning",
            first_step=memory.lasting.since(row),
            explanation=f"the router {display_site(site)} gives its busiest expert {table.value(row, 'max_load'):.3g} "
            f"times an even share{'' if np.isnan(unused) else f', and {unused:.0f} experts nothing'}",
            advice="switch on, or raise, the balancing loss; check its sign, and that it is added to the loss; "
            "noise in the router's logits and a lower rate for the router help as well",
            confidence=0.9,
        )


def _favourites(context: StepContext, memory: _RouterCollapseState) -> Iterator[Finding]:
    """Yield a finding for an expert that gets every token."""
    for load in memory.dispatch.loads(context):
        experts = len(load.shares)
        is_one_sided = np.count_nonzero(load.shares >= 1.0) == 1 and load.tokens >= EXPECTED * experts
        streak = memory.favoured.setdefault(load.router, Streak())
        length = streak.update(is_one_sided, context.step)
        lasts = length >= ALWAYS and context.step - streak.since >= _SETTLED
        if lasts and load.router not in memory.reported:
            memory.reported.add(load.router)
            yield _favoured(context, load, streak)


def _favoured(context: StepContext, load: Load, streak: Streak) -> Finding:
    favourite = int(np.argmax(load.shares))
    return context.finding(
        load.router,
        "router/max_load",
        {"tokens": load.tokens, "records": streak.length, "next_share": float(np.sort(load.shares)[-2])},
        severity="warning",
        first_step=streak.since,
        explanation=f"since step {streak.since} every single token of {display_site(load.router)} has gone to expert "
        f"{favourite}, in {streak.length} records in a row; one place of each token is no choice any more",
        advice="look for a bias in the choice that is larger than the router's logits; switch on, or raise, the "
        "balancing loss, or add noise to the logits",
        confidence=0.9,
    )


def _belief(context: StepContext, routers: Table) -> Floats:
    """`(routers,)` Entropy of the mean belief in the experts over that of an even one; NaN where it is not known."""
    found = np.full(len(routers.values), np.nan)
    table = context.table("router/expert")
    if table is None:
        return found
    believed, sites = table.column("probability"), table.rows.sites
    for row, site in enumerate(routers.rows.sites):
        expert_rows = [
            expert_row
            for expert_row, name in enumerate(sites)
            if name.startswith(f"{site}[") and table.present[expert_row]
        ]
        shares = believed[expert_rows]
        if len(expert_rows) > 1 and np.isfinite(shares).all() and shares.sum() > 0:
            shares = shares[shares > 0] / shares.sum()
            found[row] = float(-(shares * np.log(shares)).sum()) / np.log(len(expert_rows))
    return found
