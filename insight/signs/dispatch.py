"""Which share of its tokens each expert was called with: what a router did, and not what it believed."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..view.moment import Moment
from ..view.table import Floats


@dataclass(frozen=True, slots=True)
class Load:
    """What became of the tokens of one router in one step.

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

    def loads(self, now: Moment) -> Iterator[Load]:
        """One for each router whose experts are modules that are called by themselves."""
        now.table("router/expert")  # whose sites are known from then on
        table, experts = now.table("activation"), now.known_sites("router/expert")
        if table is None or not experts:
            return
        known = (id(now.anatomy), len(table.rows.sites), len(experts))
        if known != self.known:
            self.known, self.places = known, dict(_places(now, table.rows.sites, experts))
        sizes = np.append(np.where(table.present, table.column("size"), 0.0), 0.0)
        for router, (own, whole, rows) in self.places.items():
            if sizes[own] and sizes[whole]:
                yield Load(router, sizes[own] / len(rows), sizes[rows] / sizes[whole])


def _places(now: Moment, sites: list[str], experts: list[str]) -> Iterator[tuple[str, tuple[int, int, list[int]]]]:
    """By router: the rows of itself, of the mixture around it, and of its experts, -1 for one that was never called."""
    rows = {site: row for row, site in enumerate(sites)}
    for router in dict.fromkeys(site.rpartition("[")[0] for site in experts):
        mixture = router.rpartition(".")[0]
        outputs = sum(site.startswith(f"{router}[") for site in experts)
        named = sorted((_number(site), site) for site in now.anatomy.modules if _is_numbered_in(site, mixture))
        if len(named) == outputs > 1 and router in rows and mixture in rows:
            yield router, (rows[router], rows[mixture], [rows.get(site, -1) for _, site in named])


def _is_numbered_in(site: str, mixture: str) -> bool:
    """True for `mixture.experts.3`, whatever the list is called."""
    around, _, number = site.rpartition(".")
    return number.isdigit() and around.rpartition(".")[0] == mixture


def _number(site: str) -> int:
    return int(site.rpartition(".")[2])
