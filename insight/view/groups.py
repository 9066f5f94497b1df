"""Which group of which optimizer a parameter is in, and with which options: what its state and updates must follow."""

from collections.abc import Mapping
from typing import NamedTuple

from ...storage import Json
from .anatomy import Anatomy


class Group(NamedTuple):
    """One group of parameters.

    Args:
        kind: Class name of its optimizer, in lower case.
        place: Its number among all groups of all optimizers, which is that of its `learning_rate`.
    """

    kind: str
    options: Mapping[str, Json]
    place: int


def group_of(anatomy: Anatomy, site: str) -> Group | None:
    """The group of a parameter; None where it is in none, in several, or in one that was not recorded."""
    info, optimizers = anatomy.parameters.get(site), anatomy.structure.optimizers
    if info is None or info.group is None or info.more_groups or info.group[0] >= len(optimizers):
        return None
    number, group = info.group
    place = sum(len(one.groups) for one in optimizers[:number]) + group
    return Group(optimizers[number].kind.lower(), optimizers[number].groups[group], place)
