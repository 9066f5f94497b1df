"""Distances between inputs: how far a candidate is, and the region that a budget allows."""

from typing import Final

from ...storage import nearest
from ..errors import UnknownAttack
from .contract import Distance, Norm, Region
from .l0 import L0
from .l1 import L1
from .l2 import L2
from .linf import Linf

__all__ = ["DISTANCES", "Distance", "Norm", "Region", "distance_named"]

DISTANCES: Final[dict[str, Distance]] = {"l0": L0(), "l1": L1(), "l2": L2(), "linf": Linf()}


def distance_named(norm: str) -> Distance:
    """The distance of that name.

    Raises:
        UnknownAttack: There is none; the message lists the known ones.
    """
    if norm not in DISTANCES:
        raise UnknownAttack(f"no norm {norm!r}; norms are {', '.join(DISTANCES)}{nearest(norm, DISTANCES)}")
    return DISTANCES[norm]
