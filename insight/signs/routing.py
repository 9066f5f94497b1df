"""When a router of experts, or attention, has collapsed: what several rules agree on."""

from typing import Final

#: Entropy of the load over that of an even one: four experts of which one has 80 % of the tokens are at 0.52. Fresh
#: random routers of ours were above 0.7 (our choice).
COLLAPSED: Final = 0.55
#: Share of the largest entropy, over all heads and queries looked at. Single heads of healthy models are that sharp,
#: the mean over heads is not: 0.3 to 1 in decoders of ours.
ONE_HOT: Final = 0.05
#: Weights below the rounding of float32 are exp(-16.6); at twice this distance all keys but the largest are lost.
LOST_LOGIT: Final = 33.0
#: Share of the entropy of the first look below which such logits are a harm: one of them alone may be a key that every
#: query looks at beside others.
SHARPER: Final = 0.6
#: Tokens an expert would get of an even load in one look; with 16 chance leaves it without any once in 1e7.
EXPECTED: Final = 16
#: Records in a row in which an expert was called with no token, or with every one. Chance alone needs one; but routers
#: begin anywhere and settle, and a balancing loss needs some steps (our choice).
ALWAYS: Final = 8
#: Steps over which what two looks see must have lasted: the first looks of a run lie nearer to each other than later
#: ones, and routers and attention settle in their first steps.
SPAN: Final = 7
