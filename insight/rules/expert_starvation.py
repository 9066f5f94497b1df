"""An expert that gets no token."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import Finding, display_site
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..indicators.routing_collapse import ALWAYS, COLLAPSED, EXPECTED, SPAN, Dispatch
from ..recording import Recording, apart, chain
from ..rule import FORWARD, rule
from ..running_statistics import Floats, Mask, PersistentRows

_MODEL = chain("one:Dense", "gate:Linear", "two:Dense")
_LASTING = 2
#: Growth of the router's probability from look to look under a working balancing loss.
_RISES = 1.05
#: Times an even share of the router's probability; with more, the router would have chosen the expert for some token.
_BELIEVED = 0.6


@dataclass(slots=True)
class _ExpertStarvationState:
    """Since when each expert has had no token, when it was called last, and which experts were reported."""

    lasting: PersistentRows = field(default_factory=PersistentRows)
    at_first: Floats = field(default_factory=lambda: np.zeros(0))
    dispatch: Dispatch = field(default_factory=Dispatch)
    uncalled: dict[str, int] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    fed: dict[str, int] = field(default_factory=dict)
    belief: dict[str, float] = field(default_factory=dict)


def _loads(*first: float) -> dict[str, tuple[float | None, ...] | float]:
    others = {f"gate[{at}] router/expert/load": apart(*((1 - value) / 3 for value in first)) for at in (1, 2, 3)}
    return {
        "gate[0] router/expert/load": apart(*first),
        **others,
        "gate router/load_entropy": 0.79,
        "gate router/size": 512.0,
    }


def _skip_window(lookahead: Lookahead, memory: _ExpertStarvationState) -> SkipWindow | None:
    """Skip all records of a model without routers."""
    is_there = lookahead.carries("router") or lookahead.carries("router/expert")
    return None if is_there or lookahead.context.known_sites("router/expert") else lookahead.whole


@rule(
    "expert-starvation",
    needs=("router/expert", "router", "activation"),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_ExpertStarvationState,
    warm_up=_LASTING,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(_loads(0.2, 0.1, 0.0, 0.0, 0.0), _MODEL),
        # masked, while the balancing loss raises the router's belief in it
        Recording(
            _loads(0.0, 0.0, 0.0, 0.0) | {"gate[0] router/expert/probability": apart(0.2, 0.22, 0.25, 0.3)}, _MODEL
        ),
    ),
    silent_on=(
        Recording(_loads(0.2, 0.1, 0.05, 0.01, 0.05), _MODEL),
        Recording(_loads(0.2, 0.0, 0.05, 0.0, 0.05), _MODEL),
        # the balancing loss brings it back
        Recording(
            _loads(0.2, 0.0, 0.0, 0.0, 0.0) | {"gate[0] router/expert/probability": apart(0.2, 0.01, 0.02, 0.04, 0.08)},
            _MODEL,
        ),
        # eight tokens for four experts: chance
        Recording(_loads(0.2, 0.0, 0.0, 0.0, 0.0) | {"gate router/size": 8.0}, _MODEL),
        # the whole router has collapsed
        Recording(_loads(0.0, 0.0, 0.0, 0.0, 0.0) | {"gate router/load_entropy": 0.1}, _MODEL),
    ),
)
def check(context: StepContext, memory: _ExpertStarvationState) -> Iterator[Finding]:
    """Report experts that get no tokens.

    The rule fires when, in two looks in a row, an expert got none of the tokens although an even load would have given
    it 16 or more, and the router's probability for it has not risen: a working balancing loss raises it. It also fires
    for an expert that has about an even share of the router's probability and is never chosen; for experts that are
    modules, 8 steps without a call from the start are enough. An expert that was called with tokens meanwhile is fed,
    as the second choice of a router may be.

    Such an expert gets no gradient and never comes back by itself. If most experts starve, the router has collapsed,
    which another rule reports. Raise the balancing loss, or look for a mask that keeps the tokens away.
    """
    table, routers = context.table("router/expert"), context.table("router")
    if table is not None:
        memory.belief.update(zip(table.rows.sites, _shares_of_belief(table).tolist(), strict=True))
    yield from _never_called(context, memory)
    if table is None or routers is None:
        return
    starved = table.present & (table.column("load") == 0) & _are_fed(table, routers)
    starved &= ~_recovers(memory, table, starved) | _is_barred(table)
    rows = [
        row
        for row in memory.lasting.newly(starved, table.present, context.step, records=_LASTING, steps=SPAN)
        if memory.fed.get(table.rows.sites[row], -1) < memory.lasting.since(row)
    ]
    if not rows:
        return
    site, row = table.rows.sites[rows[0]], rows[0]
    yield context.finding(
        site,
        "router/expert/load",
        {
            "load": 0.0,
            "probability": table.value(row, "probability"),
            "looks": memory.lasting.length(row),
            "experts_starved": len(rows),
        },
        severity="warning",
        first_step=memory.lasting.since(row),
        explanation=f"{display_site(site)} has had no token since step {memory.lasting.since(row)}; its parameters "
        "get no gradient, and it will not come back by itself"
        + (f"; {len(rows)} experts starve together" if len(rows) > 1 else ""),
        advice="raise the balancing loss, add noise to the router's logits while it learns, or restart the expert "
        "from a copy of a busy one",
    )


def _is_barred(table: Table) -> Mask:
    """`(rows,)` True where the router believes in the expert about as in the others, and must be kept from it."""
    return np.asarray(_shares_of_belief(table) > _BELIEVED, dtype=np.bool_)


def _shares_of_belief(table: Table) -> Floats:
    """`(rows,)` The router's belief in the expert, times the number of experts."""
    experts = [site.rpartition("[")[0] for site in table.rows.sites]
    counts = np.array([experts.count(router) for router in experts])
    return np.asarray(table.column("probability") * counts, dtype=np.float64)


def _never_called(context: StepContext, memory: _ExpertStarvationState) -> Iterator[Finding]:
    """Yield a finding for an expert with an even share of the router's belief that was never called."""
    for load in memory.dispatch.loads(context):
        is_fed = load.tokens >= EXPECTED * len(load.shares)
        for at, share in enumerate(load.shares.tolist()):
            site = f"{load.router}[{at}]"
            if share > 0:
                memory.called.add(site)
                memory.fed[site] = context.step
            if site in memory.called or not is_fed:
                continue
            memory.uncalled[site] = memory.uncalled.get(site, 0) + 1
            if memory.uncalled[site] >= ALWAYS and memory.belief.get(site, 0.0) > _BELIEVED:
                memory.called.add(site)
                yield _barred(context, site, memory.uncalled[site], memory.belief[site], load.tokens)


def _barred(context: StepContext, site: str, records: int, belief: float, tokens: float) -> Finding:
    return context.finding(
        site,
        "router/expert/load",
        {"load": 0.0, "belief": belief, "records": records, "tokens": tokens},
        severity="warning",
        first_step=max(context.step - records + 1, 0),
        explanation=f"the expert behind {display_site(site)} got none of the {tokens:.0f} tokens in any of the first "
        f"{records} steps, although the router gives it {belief:.2g} times an even share of its probability; "
        "something keeps the tokens from it",
        advice="check what lies between the router and its experts: a mask or a slice that is one too short, a "
        "capacity of zero, a choice among fewer experts than there are",
    )


def _recovers(memory: _ExpertStarvationState, table: Table, starved: Mask) -> Mask:
    """`(rows,)` True where the router's belief in the expert has risen since its first look without a token."""
    belief = table.column("probability")
    memory.at_first = np.pad(memory.at_first, (0, len(belief) - len(memory.at_first)), constant_values=np.nan)
    begins = starved & np.isnan(memory.at_first)
    memory.at_first[begins] = belief[begins]
    memory.at_first[~starved & table.present] = np.nan
    return np.asarray(belief > _RISES * memory.at_first, dtype=np.bool_)


def _are_fed(table: Table, routers: Table) -> Mask:
    """`(rows of experts,)` True where the router saw enough tokens and has not collapsed as a whole."""
    rows = {site: row for row, site in enumerate(routers.rows.sites)}
    owners = [rows.get(site.rpartition("[")[0], -1) for site in table.rows.sites]
    experts = np.bincount(np.maximum(owners, 0), minlength=len(rows))
    enough = routers.column("size") >= EXPECTED * np.maximum(experts[: len(rows)], 1)
    healthy = ~(routers.column("load_entropy") < COLLAPSED)
    fed = np.append(enough & healthy & routers.present, False)
    return np.asarray(fed[owners], dtype=np.bool_)
