"""Indicators of collapsed routers and attention, and the share of tokens that each expert was called with."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..context.step_context import StepContext
from ..running_statistics import Floats

#: Entropy of the load over that of an even one: four experts of which one has 80 % of the tokens are at 0.52. Fresh
#: random routers of ours were above 0.7 (our choice).
COLLAPSED: Final = 0.55
#: Share of the largest entropy, over all heads and queries looked at. Single heads of healthy models are that sharp,
#: the mean over heads is not: 0.3 to 1 in decoders of ours.
ONE_HOT: Final = 0.05
#: Weights below the rounding of float32 are exp(-16.6); at twice this distance all keys but the largest are lost.
LOST_LOGIT: Final = 33.0
#: Share of the entropy of the first look below which such logits are harmful; one of them alone may be a key that
#: every query looks at beside others.
SHARPER: Final = 0.6
#: Tokens an expert would get of an even load in one look; with 16 chance leaves it without any once in 1e7.
EXPECTED: Final = 16
#: Records in a row in which an expert was called with no token, or with every one. Chance alone needs one record; but
#: routers start anywhere and settle, and a balancing loss needs some steps (our choice).
ALWAYS: Final = 8
#: Steps over which two looks must agree: the first looks of a run are closer together than later ones, and routers and
#: attention settle in their first steps.
SPAN: Final = 7


@dataclass(frozen=True, slots=True)
class Load:
    """How the tokens of one router were distributed in one step.

    Args:
        router: Its site.
        tokens: How many it saw.
        shares: `(experts,)` share of them that each expert was called with; 0 where it was not called.
    """

    router: str
    tokens: float
    shares: Floats


@dataclass(slots=True)
class Dispatch:
    """The experts of each router, found by their names: as many numbered modules in one list beside it as it has
    outputs."""

    known: tuple[int, int, int] = (0, 0, 0)
    places: dict[str, tuple[int, int, list[int]]] = field(default_factory=dict)

    def loads(self, context: StepContext) -> Iterator[Load]:
        """Yield the load of each router whose experts are modules of their own."""
        context.table("router/expert")  # whose sites are known from then on
        table, experts = context.table("activation"), context.known_sites("router/expert")
        if table is None or not experts:
            return
        known = (id(context.model), len(table.rows.sites), len(experts))
        if known != self.known:
            self.known, self.places = known, dict(_places(context, table.rows.sites, experts))
        sizes = np.append(np.where(table.present, table.column("size"), 0.0), 0.0)
        for router, (router_row, mixture_row, rows) in self.places.items():
            if sizes[router_row] and sizes[mixture_row]:
                yield Load(router, sizes[router_row] / len(rows), sizes[rows] / sizes[mixture_row])


def _places(
    context: StepContext, sites: list[str], experts: list[str]
) -> Iterator[tuple[str, tuple[int, int, list[int]]]]:
    """Yield each router's rows: its own, that of the mixture around it, and those of its experts (-1: never called)."""
    rows = {site: row for row, site in enumerate(sites)}
    for router in dict.fromkeys(site.rpartition("[")[0] for site in experts):
        mixture = router.rpartition(".")[0]
        outputs = sum(site.startswith(f"{router}[") for site in experts)
        named = sorted((_number(site), site) for site in context.model.modules if _is_numbered_in(site, mixture))
        if len(named) == outputs > 1 and router in rows and mixture in rows:
            yield router, (rows[router], rows[mixture], [rows.get(site, -1) for _, site in named])


def _is_numbered_in(site: str, mixture: str) -> bool:
    """True for `mixture.experts.3`, whatever the list is called."""
    around, _, number = site.rpartition(".")
    return number.isdigit() and around.rpartition(".")[0] == mixture


def _number(site: str) -> int:
    return int(site.rpartition(".")[2])
