"""Who is asked in a step, by the moment: what is due is worked out once for all steps where the same is."""

from collections.abc import Mapping
from dataclasses import dataclass

from .collector import COLLECTORS, Collect


@dataclass(frozen=True, slots=True)
class Plan:
    """The collectors of steps that are due, by name, in the order of the catalogue."""

    before: tuple[tuple[str, Collect], ...]
    after: tuple[tuple[str, Collect], ...]


def plan_of(due: frozenset[str], collect: Mapping[str, Collect]) -> Plan:
    """The plan of the steps at which these are due.

    Args:
        collect: The monitor's own instances.
    """
    asked = [(name, one, COLLECTORS[name].at) for name, one in collect.items() if name in due]
    before = tuple((name, one) for name, one, moment in asked if moment == "before_step")
    return Plan(before, tuple((name, one) for name, one, moment in asked if moment == "after_step"))
