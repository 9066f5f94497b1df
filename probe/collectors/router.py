"""Routers of mixtures of experts: load, entropy and dropped tokens."""

from ..quantities.router import ROUTER as COLUMNS
from .collector import array_collector

ROUTER = array_collector(
    "router",
    None,
    at="forward",
    columns=COLUMNS,
    rarity=10,
    doc="""How a router spreads its tokens: entropy, load, dropped tokens; at `site[e]` the share of expert `e`.

    Modules with a child `router` and a number `top_k`, as the engine's mixture, are found by themselves; `routers` of
    the configuration names others. Subjects `router` and `router/expert`. At every tenth due step, unless the
    configuration names it; a look costs about 0.1 ms a router.""",
)
