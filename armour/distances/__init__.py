"""Distances between inputs: how far a candidate is, and the region that a budget allows."""

from typing import Final

from ...storage import nearest
from ..errors import UnknownAttack
from .norms import L0, L1, L2, Distance, Linf, Norm, Region

__all__ = ["DISTANCES", "Distance", "Norm", "Region", "distance_named"]

DISTANCES: Final[dict[str, Distance]] = {"l0": L0(), "l1": L1(), "l2": L2(), "linf": Linf()}


def distance_named(norm: str) -> Distance:
    """Return the distance of that name.

    Raises:
        UnknownAttack: There is none; the message lists the known ones.
    """
    if norm not in DISTANCES:
        raise UnknownAttack(f"no norm {norm!r}; norms are {', '.join(DISTANCES)}{nearest(norm, DISTANCES)}")
    return DISTANCES[norm]
